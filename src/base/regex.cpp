#include "base/regex.h"

#include <algorithm>
#include <atomic>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace nibble {
namespace {

// Steps of one match. Module names have some sixty characters; an honest pattern with three free
// repetitions takes 60^3 steps at most.
constexpr std::uint32_t kMatchLimit = 500'000;
constexpr std::size_t kMaxPattern = 4096;  // characters

// Of a search. The patterns of tokenizers back off over a run once or twice, a step a character, so
// that honest searches stay far below 64 steps a byte; short texts get the least bound.
constexpr std::uint32_t kLeastSearchLimit = 1'000'000;
constexpr std::uint32_t kSearchStepsPerByte = 64;
constexpr std::uint32_t kSearchHeapKibibytes = 512 * 1024;
constexpr std::size_t kMaxSearchPattern = 65536;
// Compiled code that needs more stack than this is run by the interpreter, which uses the heap.
constexpr std::size_t kFirstStackBytes = 64 * 1024;
constexpr std::size_t kMostStackBytes = 1024 * 1024;

Error pattern_error(std::string_view pattern, int fault, std::size_t offset) {
  char text[256] = {};
  pcre2_get_error_message(fault, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return input_error("regular expression \"{}\" is wrong at character {}: {}", pattern, offset,
                     text);
}

Error length_error(std::string_view pattern, std::size_t most) {
  return input_error("a regular expression has {} characters; at most {} are read", pattern.size(),
                     most);
}

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
  if (pattern.size() > kMaxPattern) return length_error(pattern, kMaxPattern);
  int fault = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_ANCHORED, &fault, &offset, nullptr);
  if (code->compiled == nullptr) return pattern_error(pattern, fault, offset);
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

struct SearchRegex::Code {
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }

  std::string pattern;
  pcre2_code* compiled = nullptr;
};

struct SearchRegex::Workspace::Memory {
  Memory()
      : match(pcre2_match_data_create(1, nullptr)), limits(pcre2_match_context_create(nullptr)) {
    NIBBLE_CHECK(match != nullptr && limits != nullptr);
    pcre2_set_heap_limit(limits, kSearchHeapKibibytes);
  }
  // Whether compiled code has more stack from now on than it had.
  bool enlarge_stack() {
    if (stack != nullptr) return false;
    stack = pcre2_jit_stack_create(kFirstStackBytes, kMostStackBytes, nullptr);
    if (stack != nullptr) pcre2_jit_stack_assign(limits, nullptr, stack);
    return stack != nullptr;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(limits);
    pcre2_jit_stack_free(stack);
  }

  pcre2_match_data* match;
  pcre2_match_context* limits;
  pcre2_jit_stack* stack = nullptr;  // while there is none: 32 KiB of the thread's own
};

SearchRegex::Workspace::Workspace() : memory_(std::make_unique<Memory>()) {}
SearchRegex::Workspace::Workspace(Workspace&&) noexcept = default;
SearchRegex::Workspace& SearchRegex::Workspace::operator=(Workspace&&) noexcept = default;
SearchRegex::Workspace::~Workspace() = default;

SearchRegex::SearchRegex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

Result<SearchRegex> SearchRegex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxSearchPattern) return length_error(pattern, kMaxSearchPattern);
  int fault = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->pattern = pattern;
  code->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &fault, &offset, nullptr);
  if (code->compiled == nullptr) return pattern_error(pattern, fault, offset);
  // Where there is no compiler for the processor, the interpreter runs the pattern.
  static_cast<void>(pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE));
  return SearchRegex(std::move(code));
}

Result<std::optional<SearchRegex::Match>> SearchRegex::find(std::string_view text, std::size_t from,
                                                            Workspace& workspace) const {
  NIBBLE_CHECK(from <= text.size());
  Workspace::Memory& memory = *workspace.memory_;
  const std::uint64_t limit =
      std::max<std::uint64_t>(kLeastSearchLimit, std::uint64_t{kSearchStepsPerByte} * text.size());
  pcre2_set_match_limit(memory.limits,
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, UINT32_MAX)));
  const auto run = [&](std::uint32_t options) {
    // The text is known to be valid; a check in every call would make the whole quadratic.
    return pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       from, PCRE2_NO_UTF_CHECK | options, memory.match, memory.limits);
  };
  int result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && memory.enlarge_stack()) result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(memory.match);
  if (result < 0 || place[0] < from || place[1] < place[0]) {
    return run_error("the regular expression \"{}\" takes too many steps on a text of {} bytes",
                     code_->pattern, text.size());
  }
  return std::optional<Match>(Match{place[0], place[1]});
}

}  // namespace nibble
