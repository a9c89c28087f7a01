// The words of the command line of `nibble load`: those that only other benchmarks know, and what
// of them may be kept.
#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/text.h"
#include "cli/load_flags.h"
#include "drive/redact.h"

namespace nibble::cli {
namespace {

struct ForeignFlag {
  const char* name;
  const char* sentence;  // behind the name
};
constexpr ForeignFlag kAccepted[] = {
    {"--percentile-metrics", "changes nothing: every metric has its percentiles"},
    {"--trust-remote-code", "changes nothing: no model's code is run"},
    {"--tokenizer-mode", "changes nothing: tokenizer.json is read as it is"},
    {"--request-id-prefix", "changes nothing: no request ids are sent"},
    {"--cache-report", "changes nothing: cached tokens are reported where the server tells them"},
    {"--tokenize-prompt", "changes nothing: token ids are sent where the server takes them"}};
constexpr ForeignFlag kRefused[] = {
    {"--profile", "is not done here; start the server's profiler by its own endpoint"},
    {"--use-beam-search", "is not done here: beams have no times of tokens; leave it out"},
    {"--logprobs", "is not done here; ask by --extra-body '{\"logprobs\": 1}'"},
    {"--apply-chat-template", "is not done here; a chat backend's server applies it: openai-chat"},
    {"--plot-timeline", "is not done here; --report DIR draws the levels"}};

// Whose value may hold a secret.
constexpr std::string_view kHeader = "--header";
constexpr std::string_view kHidden = "***";
constexpr std::array<std::string_view, 2> kBody = {"--extra-body", "--extra-request-body"};

bool is_body(std::string_view option) {
  return std::find(kBody.begin(), kBody.end(), option) != kBody.end();
}

void hide_members(Json& json) {
  if (json.is_array()) {
    for (Json& item : json.as_array()) hide_members(item);
  }
  if (!json.is_object()) return;
  for (Json::Member& member : json.as_object()) {
    if (drive::names_a_secret(member.first)) {
      member.second = kHidden;
    } else {
      hide_members(member.second);
    }
  }
}

std::string without_secrets(std::string_view option, const std::string& value) {
  if (option == kHeader) {
    const std::size_t end = value.find_first_of(":=");
    if (end == std::string::npos) return std::string(kHidden);
    return value.substr(0, end + 1) + std::string(kHidden);
  }
  if (is_body(option)) {
    Result<Json> json = Json::parse(value, option);
    if (!json.ok()) return std::string(kHidden);
    hide_members(*json);
    return json->dump(0);
  }
  const std::size_t equals = value.find('=');
  if (option == "--metadata" && drive::names_a_secret(value.substr(0, equals))) {
    return value.substr(0, equals) + "=" + std::string(kHidden);
  }
  return value;
}

std::string shell_word(const std::string& word) {
  const auto plain = [](char letter) {
    const char lower = static_cast<char>(letter | 0x20);
    return (lower >= 'a' && lower <= 'z') || (letter >= '0' && letter <= '9') ||
           std::string_view("-_=./:,@%+").find(letter) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

}  // namespace

Result<> check_foreign_flags(const Arguments& arguments, Notes& notes) {
  for (const ForeignFlag& flag : kRefused) {
    if (arguments.has(flag.name)) return usage_error("{} {}", flag.name, flag.sentence);
  }
  for (const ForeignFlag& flag : kAccepted) {
    if (arguments.has(flag.name)) notes.push_back(fmt::format("{} {}", flag.name, flag.sentence));
  }
  return {};
}

std::string command_without_secrets(std::span<const std::string> words) {
  std::vector<std::string> shown;
  std::string option;  // whose values follow
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      option = word.substr(0, equals);
      const bool has_value = equals != std::string::npos;
      shown.push_back(shell_word(
          has_value ? option + "=" + without_secrets(option, word.substr(equals + 1)) : option));
    } else {
      shown.push_back(shell_word(without_secrets(option, word)));
    }
  }
  return join(shown, " ");
}

}  // namespace nibble::cli
