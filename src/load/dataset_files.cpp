// Prompts that are read from files.
#include <algorithm>

#include "api/json_scan.h"
#include "base/file.h"
#include "base/text.h"
#include "load/dataset.h"
#include "load/dataset_words.h"

namespace nibble::load {
namespace {

using api::JsonScanner;
using Kind = JsonScanner::Kind;

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 30;  // ShareGPT's common file has 0.7 GB
constexpr std::int64_t kDefaultOutput = 256;                 // as vLLM's --custom-output-len

class FileDataset : public Dataset {
 public:
  FileDataset(std::vector<Prompt> prompts, std::string origin, bool repeat,
              std::vector<std::string> notes)
      : prompts_(std::move(prompts)), origin_(std::move(origin)), repeat_(repeat) {
    notes_ = std::move(notes);
  }

  Result<Prompt> make(const PromptKey& key) const override {
    const auto number = static_cast<std::uint64_t>(key.number);
    if (number >= prompts_.size() && !repeat_) {
      return input_error(
          "{}: request {} of the run has no prompt: the file gives {}; ask for fewer requests, or "
          "let prompts repeat (a prefix cache will know them)",
          origin_, number + 1, prompts_.size());
    }
    return prompts_[number % prompts_.size()];
  }

 private:
  std::vector<Prompt> prompts_;
  std::string origin_;
  bool repeat_;
};

Result<std::unique_ptr<Dataset>> dataset_of(std::vector<Prompt> prompts, std::string_view origin,
                                            const FileOptions& options,
                                            std::vector<std::string> notes) {
  if (prompts.empty()) return input_error("{}: no prompt in it can be used", origin);
  if (options.repeat) notes.push_back("prompts may repeat: a prefix cache will know them");
  return std::unique_ptr<Dataset>(std::make_unique<FileDataset>(
      std::move(prompts), std::string(origin), options.repeat, std::move(notes)));
}

bool is_full(const std::vector<Prompt>& prompts, const FileOptions& options) {
  return options.most > 0 && static_cast<std::int64_t>(prompts.size()) >= options.most;
}

Result<> check_options(const FileOptions& options) {
  if (options.output_len) {
    NIBBLE_RETURN_IF_ERROR(check_length("the output length", *options.output_len, 1));
  }
  return {};
}

void note_estimates(const TokenTools& tools, std::vector<std::string>& notes) {
  if (tools.count) return;
  notes.push_back(
      "token counts of the file's texts are estimated at 4 bytes a token: no tokenizer was given");
}

// A list of token ids; false when it is none.
bool read_ids(JsonScanner& scan, std::vector<std::int32_t>& ids) {
  bool good = true;
  for (scan.open_array(); scan.next_item();) {
    const std::optional<std::int64_t> id = scan.read_integer();
    good = good && id && *id >= 0 && *id <= INT32_MAX;
    if (good) ids.push_back(static_cast<std::int32_t>(*id));
  }
  return good && !ids.empty();
}

struct CustomLine {
  Prompt prompt;
  std::optional<std::int64_t> output;
  std::string fault;  // empty: none
};

CustomLine read_custom_line(std::string_view line) {
  CustomLine read;
  JsonScanner scan(line);
  bool has_prompt = false;
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() == "prompt") {
      const bool list = scan.peek() == Kind::kArray;
      has_prompt = list ? read_ids(scan, read.prompt.ids) : scan.read_string(read.prompt.text);
    } else if (scan.key() == "output_tokens" || scan.key() == "max_tokens") {
      const std::optional<std::int64_t> output = scan.read_integer();
      if (!output || *output < 1) read.fault = "its number of output tokens is not 1 or more";
      read.output = output;
    } else {
      scan.skip();
    }
  }
  if (!scan.finish()) {
    read.fault = "not a JSON object: " + scan.fault();
  } else if (!has_prompt || (read.prompt.text.empty() && read.prompt.ids.empty())) {
    read.fault = "it has no \"prompt\" (text, or a list of token ids)";
  }
  return read;
}

// The first two turns; false when there are fewer.
bool read_conversation(std::string_view entry, std::string& prompt, std::string& answer) {
  JsonScanner scan(entry);
  if (scan.peek() != Kind::kObject) return false;
  int turns = 0;
  for (scan.open_object(); scan.next_member();) {
    if (scan.key() != "conversations" || scan.peek() != Kind::kArray) {
      scan.skip();
      continue;
    }
    for (scan.open_array(); scan.next_item(); ++turns) {
      if (scan.peek() != Kind::kObject) {
        scan.skip();
        continue;
      }
      for (scan.open_object(); scan.next_member();) {
        std::string ignored;
        if (scan.key() == "value") {
          scan.read_string(turns == 0 ? prompt : turns == 1 ? answer : ignored);
        } else {
          scan.skip();
        }
      }
    }
  }
  return turns >= 2;
}

// vLLM's is_valid_sequence.
bool is_useful(const Prompt& prompt, const FileOptions& options) {
  constexpr std::int64_t kLeast = 4;
  constexpr std::int64_t kMostPrompt = 1024;
  constexpr std::int64_t kMostTotal = 2048;
  return prompt.prompt_tokens >= kLeast &&
         (options.output_len.has_value() || prompt.output_tokens >= kLeast) &&
         prompt.prompt_tokens <= kMostPrompt &&
         prompt.prompt_tokens + prompt.output_tokens <= kMostTotal;
}

}  // namespace

Result<std::unique_ptr<Dataset>> parse_custom(std::string_view text, std::string_view origin,
                                              const FileOptions& options, const TokenTools& tools) {
  NIBBLE_RETURN_IF_ERROR(check_options(options));
  std::vector<Prompt> prompts;
  std::vector<std::string> notes;
  bool defaulted = false;
  for (std::size_t number = 1; !text.empty() && !is_full(prompts, options); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    CustomLine read = read_custom_line(line);
    if (!read.fault.empty()) return input_error("{}: line {}: {}", origin, number, read.fault);
    const bool ids = !read.prompt.ids.empty();
    if (ids && !tools.send_ids) {
      return input_error(
          "{}: line {}: its prompt is token ids, which this backend does not take; give text",
          origin, number);
    }
    read.prompt.prompt_tokens = ids ? static_cast<std::int64_t>(read.prompt.ids.size())
                                    : estimate_tokens(read.prompt.text, tools);
    read.prompt.counted = ids || tools.count;
    defaulted = defaulted || (!options.output_len && !read.output);
    read.prompt.output_tokens = options.output_len.value_or(read.output.value_or(kDefaultOutput));
    prompts.push_back(std::move(read.prompt));
  }
  note_estimates(tools, notes);
  if (defaulted) {
    notes.push_back(
        fmt::format("lines without output_tokens ask for {} output tokens", kDefaultOutput));
  }
  return dataset_of(std::move(prompts), origin, options, std::move(notes));
}

Result<std::unique_ptr<Dataset>> parse_sharegpt(std::string_view text, std::string_view origin,
                                                const FileOptions& options,
                                                const TokenTools& tools) {
  NIBBLE_RETURN_IF_ERROR(check_options(options));
  JsonScanner scan(text);
  std::vector<std::string_view> entries;
  for (scan.open_array(); scan.next_item();) entries.push_back(scan.read_raw());
  if (!scan.finish()) {
    return input_error("{}: not a JSON list of conversations: {}", origin, scan.fault());
  }
  Random random(mix({options.seed}));
  for (std::size_t left = entries.size(); left > 1; --left) {
    std::swap(entries[left - 1], entries[random.below(left)]);
  }
  std::vector<Prompt> prompts;
  std::size_t looked_at = 0;
  for (; looked_at < entries.size() && !is_full(prompts, options); ++looked_at) {
    Prompt prompt;
    std::string answer;
    if (!read_conversation(entries[looked_at], prompt.text, answer)) continue;
    prompt.prompt_tokens = estimate_tokens(prompt.text, tools);
    prompt.counted = static_cast<bool>(tools.count);
    prompt.output_tokens = options.output_len.value_or(estimate_tokens(answer, tools));
    if (is_useful(prompt, options)) prompts.push_back(std::move(prompt));
  }
  std::vector<std::string> notes;
  note_estimates(tools, notes);
  notes.push_back(
      fmt::format("{} of {} conversations looked at are used", prompts.size(), looked_at));
  return dataset_of(std::move(prompts), origin, options, std::move(notes));
}

Result<std::unique_ptr<Dataset>> load_custom(const std::filesystem::path& path,
                                             const FileOptions& options, const TokenTools& tools) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_custom(text, path.string(), options, tools);
}

Result<std::unique_ptr<Dataset>> load_sharegpt(const std::filesystem::path& path,
                                               const FileOptions& options,
                                               const TokenTools& tools) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_sharegpt(text, path.string(), options, tools);
}

}  // namespace nibble::load
