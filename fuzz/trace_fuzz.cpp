// A Chrome trace of any bytes: no crash and no hang; a summary keeps its promises and reads back
// from its own document; and what is refused is refused in one sentence.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "trace/byte_source.h"
#include "trace/chrome.h"
#include "trace/summarize.h"

namespace {

using namespace nibble::trace;

const Mapping& rules() {
  static const Mapping mapping = [] {
    nibble::Result<Mapping> loaded = Mapping::load({});
    NIBBLE_CHECK(loaded.ok());
    return *loaded;
  }();
  return mapping;
}

void check_summary(TraceSummary summary) {
  NIBBLE_CHECK(summary.steps >= 1 && summary.busy_ms >= 0);
  NIBBLE_CHECK(summary.busy_ms <= summary.step_ms * (1 + 1e-9));
  for (const OpTime& op : summary.ops) {
    NIBBLE_CHECK(op.ms >= 0 && std::isfinite(op.ms) && op.count > 0);
    NIBBLE_CHECK(!op.kernels.empty() && op.kernels.size() <= kMostKernels);
  }
  summary.source = "fuzz";
  const nibble::Json written = to_json(summary);
  const nibble::Result<TraceSummary> again = parse_trace(written, "fuzz");
  NIBBLE_CHECK(again.ok() && to_json(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::unique_ptr<ByteSource> source = read_memory(text);
  TraceEvents events(rules());
  bool own_document = false;
  const nibble::Result<> read = read_chrome(*source, "fuzz", events, own_document);
  if (!read.ok()) {
    NIBBLE_CHECK(!read.error().message.empty());
    NIBBLE_CHECK(read.error().message.find('\n') == std::string::npos);
    return 0;
  }
  if (own_document) return 0;
  nibble::Result<TraceSummary> summary = summarize(std::move(events), rules());
  if (summary.ok()) check_summary(std::move(*summary));
  return 0;
}
