// A log or a cache of any bytes: no crash and no hang; a refusal is one sentence; entries keep
// their promises, conclusions are one line each, and the document is JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "tactics/logs/conclusions.h"
#include "tactics/logs/log_document.h"
#include "tactics/logs/tactic_log.h"

namespace {

using namespace nibble;
using namespace nibble::logs;

bool one_line(std::string_view text) {
  return text.find('\n') == std::string_view::npos && text.find('\r') == std::string_view::npos;
}

void check_entry(const Entry& entry) {
  NIBBLE_CHECK(entry.count >= 1 && entry.tactics >= 1 && entry.line >= 0);
  NIBBLE_CHECK(one_line(entry.op) && one_line(entry.runner) && one_line(entry.tactic));
  NIBBLE_CHECK(one_line(entry.shape) && one_line(entry.rank) && one_line(entry.reason.text));
  NIBBLE_CHECK(!entry.time_ms || *entry.time_ms >= 0);
  NIBBLE_CHECK(!entry.reason.wanted_bytes || *entry.reason.wanted_bytes >= 0);
}

void check_log(const TacticLog& log, const BlockLimits& limits) {
  const std::vector<Finding> findings = conclusions({&log, 1}, limits);
  for (const Finding& finding : findings) {
    NIBBLE_CHECK(!finding.sentence.empty() && one_line(finding.sentence));
    NIBBLE_CHECK(finding.id.starts_with("tactics.log."));
  }
  const std::string text = log_document({&log, 1}, limits, findings).dump();
  NIBBLE_CHECK(Json::parse(text, "document").ok());
}

}  // namespace

// The first byte picks the file's name, which tells what a Triton configuration is for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr const char* kNames[] = {
      "server.log", "rank_tp1_pp0_dp0.json",
      "E=128,N=352,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128, 128]_down.json"};
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Result<TacticLog> log = read_tactic_text(bytes, kNames[data[0] % 3]);
  if (!log.ok()) {
    NIBBLE_CHECK(!log.error().message.empty() && one_line(log.error().message));
    return 0;
  }
  for (const Entry& entry : log->entries) check_entry(entry);
  check_log(*log, kSm120Limits);
  check_log(*log, BlockLimits{.major = 9, .minor = 0});
  return 0;
}
