#include "api/request_prompt.h"

#include <charconv>
#include <limits>
#include <utility>

#include "api/json_scan.h"
#include "api/json_write.h"
#include "base/text.h"

namespace nibble::api {
namespace {

using Kind = JsonScanner::Kind;

// One member that is a prompt. A fault does not end the reading: broken JSON is worse, and it may
// come later.
class PromptReader {
 public:
  PromptReader(JsonScanner& scan, std::string_view key) : scan_(scan), key_(key) {}

  // Text, token ids, or a list that holds any number of either.
  PromptMember read_prompts() {
    if (scan_.peek() == Kind::kArray) {
      read_list();
    } else {
      read_text(member_.prompts.emplace_back());
    }
    return std::move(member_);
  }

  PromptMember read_messages() {
    if (scan_.peek() != Kind::kArray) {
      fault_at(key_, fmt::format("must be a list, found {}", kind_name()));
      scan_.skip();
      return std::move(member_);
    }
    for (scan_.open_array(); scan_.next_item();) read_message();
    if (member_.messages.empty()) {
      fault_at(key_, "is missing or empty; give at least one message");
    }
    return std::move(member_);
  }

 private:
  void fault_at(std::string_view key, std::string_view what) {
    if (!member_.fault) member_.fault = input_error("{}: \"{}\" {}", where_, key, what);
  }

  // As Json::kind_name(), of the value that comes next.
  std::string_view kind_name() {
    switch (scan_.peek()) {
      case Kind::kObject:
        return "an object";
      case Kind::kArray:
        return "an array";
      case Kind::kString:
        return "a string";
      case Kind::kNumber:
        return "a number";
      case Kind::kBoolean:
        return "a boolean";
      default:
        return "null";
    }
  }

  void read_text(Prompt& prompt) {
    if (!scan_.read_string(prompt.text)) {
      fault_at(key_, "must be text or a list of token ids");
    } else if (prompt.text.empty()) {
      fault_at(key_, "is empty; give text or token ids");
    }
  }

  // The opening bracket is next; what stands first says what the list holds.
  void read_list() {
    scan_.open_array();
    if (!scan_.next_item()) return fault_at(key_, "must be text or a list of token ids");
    if (scan_.peek() == Kind::kNumber) return read_ids(member_.prompts.emplace_back());
    do {
      read_of_several(member_.prompts.emplace_back());
    } while (scan_.next_item());
  }

  void read_of_several(Prompt& prompt) {
    if (scan_.peek() != Kind::kArray) return read_text(prompt);
    scan_.open_array();
    if (!scan_.next_item()) return fault_at(key_, "must be text or a list of token ids");
    read_ids(prompt);
  }

  // The first id is next.
  void read_ids(Prompt& prompt) {
    do {
      const std::string_view item = scan_.read_raw();
      if (const std::optional<std::int32_t> id = id_of(item)) {
        prompt.ids.push_back(*id);
      } else {
        fault_at(key_,
                 fmt::format("holds {}, which is no token id", printable(item, kShownColumns)));
      }
    } while (scan_.next_item());
  }

  static std::optional<std::int32_t> id_of(std::string_view item) {
    std::int32_t plain = 0;
    const auto [end, code] = std::from_chars(item.data(), item.data() + item.size(), plain);
    if (code == std::errc() && end == item.data() + item.size() && plain >= 0) return plain;
    const std::optional<std::int64_t> id = JsonScanner(item).read_integer();  // 8.0
    if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    return static_cast<std::int32_t>(*id);
  }

  void read_message() {
    where_ = fmt::format("request: messages[{}]", member_.messages.size());
    ChatMessage message;
    bool has_role = false;
    bool has_content = false;
    if (scan_.peek() != Kind::kObject) {
      if (!member_.fault) {
        member_.fault = input_error("{}: expected an object, found {}", where_, kind_name());
      }
      scan_.skip();
    } else {
      for (scan_.open_object(); scan_.next_member();) read_member(message, has_role, has_content);
      if (!has_role) fault_at("role", "is missing");
    }
    member_.messages.push_back(std::move(message));
    where_ = "request";
  }

  void read_member(ChatMessage& message, bool& has_role, bool& has_content) {
    if (scan_.key() == "role") {
      if (has_role) fault_at("role", kTwice);
      has_role = scan_.peek() == Kind::kString;
      if (!has_role && scan_.peek() != Kind::kNull) {
        fault_at("role", fmt::format("must be a string, found {}", kind_name()));
      }
      scan_.read_string(message.role);
    } else if (scan_.key() == "content") {
      if (std::exchange(has_content, true)) fault_at("content", kTwice);
      read_content(message);
    } else {
      if (!message.more.empty()) message.more += ',';
      append_json_string(message.more, scan_.key());
      message.more += ':';
      message.more += scan_.read_raw();
    }
  }

  // Text or parts; servers put the parts on lines of their own (vLLM's chat_utils.py,
  // TensorRT-LLM).
  void read_content(ChatMessage& message) {
    if (scan_.peek() == Kind::kArray) {
      bool first = true;
      for (scan_.open_array(); scan_.next_item(); first = false) {
        if (!first) message.content += '\n';
        read_part(message);
      }
    } else if (scan_.peek() == Kind::kNull) {
      scan_.skip();
    } else if (!scan_.read_string(message.content)) {
      fault_at("content", "must be text or a list of parts");
    }
  }

  void read_part(ChatMessage& message) {
    bool has_text = false;
    if (scan_.peek() != Kind::kObject) {
      scan_.skip();
    } else {
      std::string text;
      for (scan_.open_object(); scan_.next_member();) {
        if (scan_.key() == "text") {
          if (has_text) fault_at("text", kTwice);
          has_text = scan_.read_string(text);
        } else {
          scan_.skip();
        }
      }
      message.content += text;
    }
    if (!has_text) fault_at("content", "holds a part without text; only text is taken");
  }

  static constexpr std::size_t kShownColumns = 40;
  static constexpr std::string_view kTwice = "appears twice";

  JsonScanner& scan_;
  std::string_view key_;
  std::string where_ = "request";
  PromptMember member_;
};

bool is_prompt(Dialect dialect, std::string_view key) {
  if (dialect == Dialect::kChat) return key == "messages";
  if (dialect == Dialect::kSglang) return key == "text" || key == "input_ids";
  return key == "prompt";
}

class BodySplitter {
 public:
  BodySplitter(Dialect dialect, std::string_view body)
      : dialect_(dialect), body_(body), scan_(body) {}

  Result<SplitBody> split() {
    for (scan_.open_object(); scan_.next_member();) {
      if (rest_.size() > 1) rest_ += ',';
      const std::string key(scan_.key());
      append_json_string(rest_, key);
      rest_ += ':';
      if (is_prompt(dialect_, key)) {
        rest_ += "null";
        read_prompt(key);
      } else {
        rest_ += scan_.read_raw();
      }
    }
    // A tree of the whole says best what is wrong where, and lets no broken UTF-8 pass.
    if (!scan_.finish() || scan_.repaired()) return refusal();
    rest_ += '}';
    Result<Json> rest = Json::parse(rest_, "request");
    if (!rest) return refusal();
    if (!found_) found_ = missing();
    return SplitBody{std::move(*rest), std::move(*found_)};
  }

 private:
  void read_prompt(const std::string& key) {
    if (scan_.peek() == Kind::kNull) {
      scan_.skip();
      return;
    }
    PromptReader reader(scan_, key);
    PromptMember read = dialect_ == Dialect::kChat ? reader.read_messages() : reader.read_prompts();
    // SGLang takes the token ids where it is given both.
    if (!found_ || key == "input_ids") found_ = std::move(read);
  }

  Error refusal() const {
    const Result<Json> json = Json::parse(body_, "request");
    if (!json) return json.error();
    if (!json->is_object()) {
      return input_error("the request is {}; send a JSON object", json->kind_name());
    }
    return input_error("the request is no valid JSON");
  }

  PromptMember missing() const {
    PromptMember none;
    if (dialect_ == Dialect::kChat) {
      none.fault =
          input_error("request: \"messages\" is missing or empty; give at least one message");
    } else {
      none.fault =
          input_error("request: \"{}\" is missing; give the prompt as text or as token ids",
                      dialect_ == Dialect::kSglang ? "text" : "prompt");
    }
    return none;
  }

  Dialect dialect_;
  std::string_view body_;
  JsonScanner scan_;
  std::string rest_ = "{";
  std::optional<PromptMember> found_;
};

}  // namespace

Result<SplitBody> split_body(Dialect dialect, std::string_view body) {
  return BodySplitter(dialect, body).split();
}

}  // namespace nibble::api
