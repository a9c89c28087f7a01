#include "tactics/logs/log_document.h"

#include <utility>

#include "base/json_parts.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

Json number_or_null(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json();
}

Json reason_json(const Reason& reason) {
  Json tile;
  if (reason.tile) {
    tile = Json::object()
               .set("m", reason.tile->m)
               .set("n", reason.tile->n)
               .set("k", reason.tile->k)
               .set("k_in_bytes", reason.tile->k_in_bytes);
  }
  return Json::object()
      .set("class", json_name(reason.kind))
      .set("text", text_or_null(reason.text))
      .set("wanted_bytes", number_or_null(reason.wanted_bytes))
      .set("limit_bytes", number_or_null(reason.limit_bytes))
      .set("tile", std::move(tile));
}

Json entry_json(const Entry& entry) {
  return Json::object()
      .set("op", text_or_null(entry.op))
      .set("shape", text_or_null(entry.shape))
      .set("bucket", number_or_null(entry.bucket))
      .set("runner", text_or_null(entry.runner))
      .set("tactic", text_or_null(entry.tactic))
      .set("rank", text_or_null(entry.rank))
      .set("device", text_or_null(entry.device))
      .set("status", to_string(entry.status))
      .set("reason", reason_json(entry.reason))
      .set("time_ms", entry.time_ms)
      .set("tactics", entry.tactics)
      .set("count", entry.count)
      .set("line", entry.line > 0 ? Json(entry.line) : Json());
}

Json log_json(const TacticLog& log) {
  Json versions = Json::object();
  for (const auto& [name, version] : log.versions) versions.set(name, version);
  Json profiles = Json::object();
  for (const auto& [op, number] : log.profiles) profiles.set(op, number);
  Json entries = Json::array();
  for (const Entry& entry : log.entries) entries.push(entry_json(entry));
  return Json::object()
      .set("file", log.name)
      .set("format", log.format)
      .set("programs", string_list(log.programs))
      .set("versions", std::move(versions))
      .set("devices", string_list(log.devices))
      .set("lines", log.lines)
      .set("unread", log.unread)
      .set("first_unread", text_or_null(log.first_unread))
      .set("dropped", log.dropped)
      .set("saved", number_or_null(log.saved))
      .set("shows_tried", log.shows_tried)
      .set("profiles", std::move(profiles))
      .set("notes", string_list(log.notes))
      .set("entries", std::move(entries));
}

}  // namespace

Json log_document(std::span<const TacticLog> logs, const BlockLimits& limits,
                  std::span<const Finding> findings) {
  Json list = Json::array();
  for (const TacticLog& log : logs) list.push(log_json(log));
  Json conclusions_list = Json::array();
  for (const Finding& finding : findings) conclusions_list.push(to_json(finding));
  return Json::object()
      .set("schema", "nibble.tactics_log/1")
      .set("limits", Json::object()
                         .set("arch", arch_name(limits))
                         .set("shared_per_block_bytes", limits.shared_per_block)
                         .set("shared_per_sm_bytes", limits.shared_per_sm)
                         .set("registers_per_sm", limits.registers_per_sm))
      .set("logs", std::move(list))
      .set("findings", std::move(conclusions_list));
}

}  // namespace nibble::logs
