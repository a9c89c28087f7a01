#include "tactics/logs/collector.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/text.h"

namespace nibble::logs {
namespace {

constexpr std::size_t kMostNames = 64;  // programs, versions, devices, notes
constexpr std::size_t kMostProfiles = 4096;
constexpr std::size_t kMostShape = 200;  // columns
constexpr std::size_t kMostName = 100;

void clean(std::string& text, std::size_t most) {
  text = printable(trim(text), most);
}

void add_once(std::vector<std::string>& names, std::string_view name, std::size_t most) {
  std::string text = printable(trim(name), most);
  if (text.empty() || names.size() >= kMostNames) return;
  if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(std::move(text));
}

std::string key_of(const Entry& entry) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{} {} {} {} {} {}", entry.op, entry.shape,
                     entry.runner, entry.tactic, entry.rank, entry.device,
                     static_cast<int>(entry.status), static_cast<int>(entry.reason.kind),
                     entry.reason.wanted_bytes.value_or(-1), entry.reason.limit_bytes.value_or(-1),
                     entry.tactics, entry.bucket.value_or(-1));
}

}  // namespace

void Collector::add(Entry entry) {
  clean(entry.op, kMostName);
  clean(entry.runner, kMostName);
  clean(entry.tactic, kMostShape);
  clean(entry.shape, kMostShape);
  std::string key = key_of(entry);
  if (const auto found = places_.find(key); found != places_.end()) {
    log_.entries[found->second].count += entry.count;
    return;
  }
  if (log_.entries.size() >= kMostEntries) {
    ++log_.dropped;
    return;
  }
  places_.emplace(std::move(key), log_.entries.size());
  log_.entries.push_back(std::move(entry));
}

void Collector::program(std::string_view name) {
  add_once(log_.programs, name, kMostName);
}

void Collector::version(std::string_view name, std::string_view value) {
  if (value.empty() || log_.versions.size() >= kMostNames) return;
  log_.versions.try_emplace(printable(name, kMostName), printable(trim(value), kMostName));
}

void Collector::device(std::string_view name) {
  add_once(log_.devices, name, kMostName);
}

void Collector::note(std::string_view text) {
  add_once(log_.notes, text, 2 * kMostShape);
}

void Collector::profiles(std::string_view op, std::int64_t number) {
  std::string name = printable(trim(op), kMostName);
  if (!log_.profiles.contains(name) && log_.profiles.size() >= kMostProfiles) return;
  std::int64_t& most = log_.profiles[std::move(name)];
  most = std::max(most, number);
}

void Collector::unread(std::string_view text) {
  if (log_.unread++ == 0) log_.first_unread = printable(trim(text), kMostShape);
}

}  // namespace nibble::logs
