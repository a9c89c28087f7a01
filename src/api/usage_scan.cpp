#include "api/usage_scan.h"

#include <limits>

namespace nibble::api {
namespace {

using Kind = JsonScanner::Kind;

// One count of an object of details; null is no object.
void read_detail(JsonScanner& scan, std::string_view name, std::optional<std::int64_t>& count) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() == name) {
      count = scan.read_integer();
    } else {
      scan.skip();
    }
  }
}

}  // namespace

void read_usage(JsonScanner& scan, Usage& usage) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "prompt_tokens") {
      usage.prompt_tokens = scan.read_integer();
    } else if (key == "completion_tokens") {
      usage.output_tokens = scan.read_integer();
    } else if (key == "prompt_tokens_details") {
      read_detail(scan, "cached_tokens", usage.cached_tokens);
    } else if (key == "completion_tokens_details") {
      read_detail(scan, "reasoning_tokens", usage.reasoning_tokens);
    } else if (key == "prompt_cache_hit_tokens") {  // DeepSeek
      usage.cached_tokens = scan.read_integer();
    } else if (key == "reasoning_tokens") {  // SGLang
      usage.reasoning_tokens = scan.read_integer();
    } else {
      scan.skip();
    }
  }
}

void read_timings(JsonScanner& scan, Usage& usage) {
  if (scan.peek() != Kind::kObject) {
    scan.skip();
    return;
  }
  std::optional<std::int64_t> computed;
  for (scan.open_object(); scan.next_member();) {
    const std::string_view key = scan.key();
    if (key == "prompt_n") {
      computed = scan.read_integer();
    } else if (key == "cache_n") {
      usage.cached_tokens = scan.read_integer();
    } else if (key == "predicted_n") {
      usage.output_tokens = scan.read_integer();
    } else {
      scan.skip();
    }
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  const auto plausible = [](std::optional<std::int64_t> count) {
    return count && *count >= 0 && *count <= kMost;
  };
  if (plausible(computed) && plausible(usage.cached_tokens)) {
    usage.prompt_tokens = *computed + *usage.cached_tokens;
  }
}

}  // namespace nibble::api
