// Prompts: made one at a time from a seed, or read from a file. A prompt is a function of its key,
// so that workers may make them in any order, and no two of a run are alike unless that is asked.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto dataset, make_random({.input_len = 1024}, tools));
//   NIBBLE_ASSIGN_OR_RETURN(const Prompt prompt, dataset->make({.run = nonce, .index = 7}));
//   request.prompt_ids = prompt.ids;   // or request.prompt = prompt.text
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble::load {

// Which prompt. The run is a fresh number for every run, or the prefix cache of the server knows
// all prompts from the run before; lengths do not depend on it.
struct PromptKey {
  std::uint64_t run = 0;
  std::int64_t level = 0;   // warm-ups are a level of their own, such as -1
  std::int64_t index = 0;   // within the level
  std::int64_t number = 0;  // within the run: what a file is read by
};

struct Prompt {
  std::string text;               // empty when there are ids
  std::vector<std::int32_t> ids;  // for servers that take them
  std::int64_t prompt_tokens = 0;
  bool counted = false;            // prompt_tokens is exact, not asked for or estimated
  std::int64_t output_tokens = 0;  // to ask for
};

// Below lie special tokens and single bytes, and nearly every vocabulary reaches the end.
inline constexpr std::int32_t kFirstId = 1000;
inline constexpr std::int32_t kEndId = 30000;

// What is known of the model's tokens.
struct TokenTools {
  bool send_ids = false;             // the server takes token ids: exact without a tokenizer
  std::int32_t first_id = kFirstId;  // ids are drawn from [first_id, end_id)
  std::int32_t end_id = kEndId;
  std::function<std::size_t(std::string_view)> count;                // may be empty
  std::function<std::string(std::span<const std::int32_t>)> decode;  // may be empty
  // Without a count: common words are one token each in most vocabularies; what the server's usage
  // says of a first request corrects it.
  double tokens_per_word = 1;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  // Safe to call from several threads. An error says that the prompts have run out.
  virtual Result<Prompt> make(const PromptKey& key) const = 0;
  // What a person should know: how counts were made, what was left out.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  std::vector<std::string> notes_;
};

// How --random-range-ratio is meant.
enum class RangeRule : std::uint8_t {
  kVllm,    // uniform in [len (1 - r), len (1 + r)]; 0 is exactly len
  kSglang,  // uniform in [max(1, len r), len]; 0 is anything up to len, 1 is exactly len
};

struct RandomOptions {
  std::int64_t input_len = 1024;
  std::int64_t output_len = 128;
  double range_ratio = 0;
  RangeRule range_rule = RangeRule::kVllm;
  std::int64_t prefix_len = 0;  // before the input, the same in all prompts of a run
  std::uint64_t seed = 0;       // of lengths
};
Result<std::unique_ptr<Dataset>> make_random(const RandomOptions& options, TokenTools tools);

// SGLang's generated-shared-prefix: groups of prompts that begin with the same system prompt. Each
// level has system prompts of its own.
struct SharedPrefixOptions {
  std::int64_t groups = 64;
  std::int64_t prompts_per_group = 16;
  std::int64_t system_len = 2048;
  std::int64_t question_len = 128;
  std::int64_t output_len = 256;
  std::uint64_t seed = 0;  // of the order
};
Result<std::unique_ptr<Dataset>> make_shared_prefix(const SharedPrefixOptions& options,
                                                    TokenTools tools);

struct FileOptions {
  std::optional<std::int64_t> output_len;  // instead of the file's own
  bool repeat = false;                     // begin again when the prompts have run out
  std::int64_t most = 0;                   // prompts to keep; 0: all
  std::uint64_t seed = 0;                  // of sharegpt's order
};

// A line each: {"prompt": "..." or [token ids], "output_tokens" or "max_tokens": n}. In the order
// of the file.
Result<std::unique_ptr<Dataset>> load_custom(const std::filesystem::path& path,
                                             const FileOptions& options, const TokenTools& tools);
Result<std::unique_ptr<Dataset>> parse_custom(std::string_view text, std::string_view origin,
                                              const FileOptions& options, const TokenTools& tools);

// ShareGPT's [{"conversations": [{"value": prompt}, {"value": answer}, ...]}, ...], shuffled, and
// filtered as vLLM and SGLang do: at least 4 tokens each, at most 1,024 of prompt and 2,048 of
// both.
Result<std::unique_ptr<Dataset>> load_sharegpt(const std::filesystem::path& path,
                                               const FileOptions& options, const TokenTools& tools);
Result<std::unique_ptr<Dataset>> parse_sharegpt(std::string_view text, std::string_view origin,
                                                const FileOptions& options,
                                                const TokenTools& tools);

}  // namespace nibble::load
