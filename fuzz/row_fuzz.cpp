// The rows of load tests, of any bytes: no crash and no hang; a line is read alike whichever way it
// is written, what is read is written and read again, and a level of such rows has finite numbers.
//
// The input is a file of rows, one a line.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "load/metrics.h"
#include "load/record_json.h"

namespace {

using nibble::Json;
using nibble::Result;
using namespace nibble::load;

std::string line_of(const RequestRecord& record) {
  std::string line;
  append_json_line(line, record);
  return line;
}

// The reader cuts the stamps off the end of a line of ours and reads them apart; with its members
// in another order a line takes the other way through it.
void check_other_order(std::string_view line, const Result<RequestRecord>& record) {
  const Result<Json> json = Json::parse(line, "fuzz");
  NIBBLE_CHECK(json.ok() || !record.ok());
  if (!json.ok() || !json->is_object()) return;
  Json::Object members = json->as_object();
  std::reverse(members.begin(), members.end());
  const auto other = parse_record(Json::object(std::move(members)).dump(0), "fuzz");
  NIBBLE_CHECK(other.ok() == record.ok());
  NIBBLE_CHECK(!record.ok() || line_of(*other) == line_of(*record));
}

void check_rewritten(RequestRecord record) {
  const Result<RequestRecord> again = parse_record(line_of(record), "again");
  NIBBLE_CHECK(again.ok());
  // Text that was no UTF-8 has become U+FFFD.
  record.message = again->message;
  record.finish_reason = again->finish_reason;
  NIBBLE_CHECK(*again == record);
  NIBBLE_CHECK(line_of(*again) == line_of(record));
}

void check_level(LevelAccumulator& level) {
  const LevelMetrics metrics = level.finish();
  for (const Summary& summary : metrics.summaries) {
    NIBBLE_CHECK(std::isfinite(summary.mean) && std::isfinite(summary.std));
    NIBBLE_CHECK(summary.empty() || (summary.min >= 0 && summary.min <= summary.max));
  }
  NIBBLE_CHECK(metrics.tokens.output >= 0 && metrics.tokens.input >= 0);
  NIBBLE_CHECK(metrics.counts.requests ==
               metrics.counts.ok + metrics.counts.failed + metrics.counts.cancelled);
  for (const auto& rate : {metrics.output_throughput, metrics.request_throughput,
                           metrics.concurrency, metrics.mean_in_flight}) {
    NIBBLE_CHECK(!rate || (std::isfinite(*rate) && *rate >= 0));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  LevelAccumulator level({.slo = {.ttft_ms = 100, .tpot_ms = 10}});
  for (const std::string& line : nibble::split(input, '\n')) {
    const Result<RequestRecord> record = parse_record(line, "fuzz");
    check_other_order(line, record);
    if (!record.ok()) {
      NIBBLE_CHECK(!record.error().message.empty());
      continue;
    }
    check_rewritten(*record);
    level.add(*record);
  }
  check_level(level);
  return 0;
}
