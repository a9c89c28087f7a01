#include "base/regex.h"

#include <atomic>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace nibble {
namespace {

// Steps of one match. Module names have some sixty characters; an honest pattern with three free
// repetitions takes 60^3 steps at most.
constexpr std::uint32_t kMatchLimit = 500'000;
constexpr std::size_t kMaxPattern = 4096;  // characters

}  // namespace

struct Regex::Code {
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(compiled);
  }

  pcre2_code* compiled = nullptr;
  pcre2_match_context* limits = nullptr;
  std::atomic<bool> gave_up = false;
};

Regex::Regex(std::string pattern, std::shared_ptr<Code> code)
    : pattern_(std::move(pattern)), code_(std::move(code)) {}

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return input_error("a regular expression has {} characters; at most {} are read",
                       pattern.size(), kMaxPattern);
  }
  int fault = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_ANCHORED, &fault, &offset, nullptr);
  if (code->compiled == nullptr) {
    char text[256] = {};
    pcre2_get_error_message(fault, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    return input_error("regular expression \"{}\" is wrong at character {}: {}", pattern, offset,
                       text);
  }
  code->limits = pcre2_match_context_create(nullptr);
  NIBBLE_CHECK(code->limits != nullptr);
  pcre2_set_match_limit(code->limits, kMatchLimit);
  return Regex(std::string(pattern), std::move(code));
}

bool Regex::matches_start(std::string_view text) const {
  if (code_->gave_up) return false;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  NIBBLE_CHECK(match != nullptr);
  const int result = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                 text.size(), 0, 0, match.get(), code_->limits);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH) code_->gave_up = true;
  return result >= 0;
}

bool Regex::gave_up() const {
  return code_->gave_up;
}

}  // namespace nibble
