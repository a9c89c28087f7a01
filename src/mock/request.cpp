#include "mock/request.h"

#include "api/json_scan.h"
#include "base/text.h"

namespace nibble::mock {
namespace {

using api::Dialect;
using api::JsonScanner;

bool is_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r' || letter == '\f' ||
         letter == '\v';
}

// Text, token ids, a list of texts or of lists of ids, or the parts of a chat message.
class PromptReader {
 public:
  explicit PromptReader(JsonScanner& scan) : scan_(scan) {}

  std::int64_t tokens() {
    switch (scan_.peek()) {
      case JsonScanner::Kind::kString:
        scan_.read_string(text_);
        return count_words(text_);
      case JsonScanner::Kind::kNumber:
        scan_.skip();
        return 1;
      case JsonScanner::Kind::kArray:
        return of_list();
      case JsonScanner::Kind::kObject:
        return of_part();
      default:
        scan_.skip();
        return 0;
    }
  }

 private:
  // Messages hold parts that hold text: deeper than this nothing is counted.
  static constexpr int kDeepest = 8;

  std::int64_t of_list() {
    if (++depth_ > kDeepest) {
      scan_.skip();
      --depth_;
      return 0;
    }
    std::int64_t sum = 0;
    for (scan_.open_array(); scan_.next_item();) sum += tokens();
    --depth_;
    return sum;
  }

  // A message, or {"type": "text", "text": "..."} within one.
  std::int64_t of_part() {
    if (++depth_ > kDeepest) {
      scan_.skip();
      --depth_;
      return 0;
    }
    std::int64_t sum = 0;
    for (scan_.open_object(); scan_.next_member();) {
      if (scan_.key() == "content" || scan_.key() == "text") {
        sum += tokens();
      } else {
        scan_.skip();
      }
    }
    --depth_;
    return sum;
  }

  JsonScanner& scan_;
  std::string text_;
  int depth_ = 0;
};

class BodyReader {
 public:
  BodyReader(api::Dialect dialect, std::string_view body) : scan_(body), dialect_(dialect) {
    request_.dialect = dialect;
  }

  Result<ClientRequest> read() {
    for (scan_.open_object(); scan_.next_member();) read_member(std::string(scan_.key()));
    if (!scan_.finish()) return input_error("the body is no JSON object: {}", scan_.fault());
    if (fault_) return *fault_;
    if (!prompt_) return input_error("the body has no \"{}\"", prompt_key());
    return request_;
  }

 private:
  const char* prompt_key() const {
    if (dialect_ == Dialect::kChat) return "messages";
    return dialect_ == Dialect::kSglang ? "text" : "prompt";
  }

  void read_member(const std::string& key) {
    const bool sglang = dialect_ == Dialect::kSglang;
    if (key == prompt_key() || (sglang && key == "input_ids")) {
      prompt_ = true;
      request_.prompt_tokens += PromptReader(scan_).tokens();
    } else if (key == "model") {
      scan_.read_string(request_.model);
    } else if (key == "stream") {
      request_.stream = scan_.read_boolean().value_or(false);
    } else if (key == "stream_options") {
      read_stream_options();
    } else if (sglang && key == "sampling_params") {
      read_sampling_params();
    } else if (is_length(key)) {
      read_length(key);
    } else {
      scan_.skip();
    }
  }

  bool is_length(std::string_view key) const {
    switch (dialect_) {
      case Dialect::kChat:
        return key == "max_tokens" || key == "max_completion_tokens";
      case Dialect::kCompletions:
        return key == "max_tokens";
      case Dialect::kLlamacpp:
        return key == "n_predict" || key == "max_tokens";
      case Dialect::kSglang:
        return key == "max_new_tokens";
    }
    return false;
  }

  void read_length(std::string_view key) {
    const bool number = scan_.peek() == JsonScanner::Kind::kNumber;
    const std::optional<std::int64_t> value = scan_.read_integer();
    if (!number) return;  // null: the server's choice
    // llama.cpp has -1 for "until the model is done".
    if (dialect_ == Dialect::kLlamacpp && value && *value == -1) return;
    if (!value || *value < 1) {
      if (!fault_) fault_ = input_error("\"{}\" must be a whole number of at least 1", key);
      return;
    }
    request_.max_tokens = *value;
  }

  void read_stream_options() {
    if (scan_.peek() != JsonScanner::Kind::kObject) {
      scan_.skip();
      return;
    }
    request_.stream_options = true;
    for (scan_.open_object(); scan_.next_member();) {
      if (scan_.key() == "include_usage") {
        request_.include_usage = scan_.read_boolean().value_or(false);
      } else if (scan_.key() == "continuous_usage_stats") {
        request_.continuous_usage = scan_.read_boolean().value_or(false);
      } else {
        scan_.skip();
      }
    }
  }

  void read_sampling_params() {
    if (scan_.peek() != JsonScanner::Kind::kObject) {
      scan_.skip();
      return;
    }
    for (scan_.open_object(); scan_.next_member();) {
      const std::string key(scan_.key());
      if (is_length(key)) {
        read_length(key);
      } else {
        scan_.skip();
      }
    }
  }

  JsonScanner scan_;
  api::Dialect dialect_;
  ClientRequest request_;
  bool prompt_ = false;
  std::optional<Error> fault_;
};

}  // namespace

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char letter : text) {
    const bool space = is_space(letter);
    if (!space && !inside) ++words;
    inside = !space;
  }
  return words;
}

Result<ClientRequest> read_request(api::Dialect dialect, std::string_view body) {
  return BodyReader(dialect, body).read();
}

}  // namespace nibble::mock
