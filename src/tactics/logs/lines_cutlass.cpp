// Failures of CUTLASS's kernels as launchers print or throw them, outside of a tuner's messages:
// NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/cutlass_kernels (and FlashInfer's copy of it), vLLM
// csrc/quantization. Seen in vLLM issue 24377 and in FlashInfer's pull request 3568 and issue 4049.
#include <array>

#include "base/text.h"
#include "tactics/logs/line_events.h"

namespace nibble::logs {
namespace {

// In lower case.
constexpr std::array<std::string_view, 6> kCutlassTexts = {
    "failed to initialize cutlass", "failed to run cutlass",
    "failed to initialize the tma", " bytes shared memory but device supports ",
    "unsupported tile (",           "runtimeerror: error internal"};

// "[FP4 gemm Runner] Failed ...": who says so stands right before it.
std::string_view runner_before(std::string_view line, std::size_t at) {
  constexpr std::string_view kUnnamed = "CUTLASS";
  const std::string_view before = line.substr(0, at);
  const std::size_t open = before.rfind('[');
  if (!before.ends_with("] ") || open == std::string_view::npos) return kUnnamed;
  const std::string_view name = before.substr(open + 1, before.size() - open - 3);
  return name.ends_with("Runner") ? name : kUnnamed;
}

}  // namespace

std::optional<LineEvent> read_cutlass(std::string_view line) {
  const std::string lower = to_lower(line);
  for (const std::string_view text : kCutlassTexts) {
    const std::size_t at = lower.find(text);
    if (at == std::string::npos) continue;
    // Numbers stand before these words.
    const bool from_start = text.starts_with(' ');
    LineEvent event;
    event.kind = LineEvent::Kind::kEntry;
    event.entry.status = Status::kFailed;
    event.entry.runner = runner_before(line, at);
    event.entry.reason = classify(from_start ? line : line.substr(at));
    const Reason whole = classify(line);  // a path behind or before it tells the operands
    event.entry.reason.fp4 = whole.fp4;
    return event;
  }
  return std::nullopt;
}

}  // namespace nibble::logs
