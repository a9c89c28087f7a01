#include "api/error_text.h"

#include "base/json.h"
#include "base/text.h"

namespace nibble::api {
namespace {

constexpr std::size_t kMaxRead = 64 << 10;  // of a body; what a person reads stands at its front
constexpr std::size_t kMostColumns = 300;

// White space of any kind and length becomes one space.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : trim(text)) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!space) {
      line += c;
    } else if (line.empty() || line.back() != ' ') {
      line += ' ';
    }
  }
  return printable(line, kMostColumns);
}

const Json* find_string(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found != nullptr && found->is_string() && !found->as_string().empty() ? found : nullptr;
}

// FastAPI's {"loc":["body","max_tokens"],"msg":"Input should be ...","type":...}.
std::string validation_text(const Json& fault) {
  const Json* message = find_string(fault, "msg");
  if (message == nullptr) return fault.dump(0);
  std::string place;
  const Json* location = fault.find("loc");
  if (location != nullptr && location->is_array()) {
    for (const Json& part : location->as_array()) {
      if (!place.empty()) place += '.';
      place += part.is_string() ? part.as_string() : part.dump(0);
    }
  }
  return place.empty() ? message->as_string() : place + ": " + message->as_string();
}

std::string text_of(const Json& value, int depth);

std::string object_text(const Json& object, int depth) {
  for (const char* key : {"message", "msg", "error_message"}) {
    if (const Json* found = find_string(object, key)) return found->as_string();
  }
  for (const char* key : {"error", "detail", "errors", "message", "meta_info", "finish_reason"}) {
    const Json* found = object.find(key);
    if (found == nullptr || found->is_null()) continue;
    const std::string text = text_of(*found, depth + 1);
    if (!text.empty()) return text;
  }
  return {};
}

// Empty when the value holds no sentence.
std::string text_of(const Json& value, int depth) {
  constexpr int kMaxDepth = 4;
  if (value.is_string()) return value.as_string();
  if (depth > kMaxDepth) return {};
  if (value.is_array() && !value.as_array().empty()) {
    const Json& first = value.as_array().front();
    return first.is_object() && first.find("msg") != nullptr ? validation_text(first)
                                                             : text_of(first, depth + 1);
  }
  return value.is_object() ? object_text(value, depth) : std::string();
}

// What stands in <title> or <h1>; empty when there is neither.
std::string html_title(std::string_view page) {
  const std::string lower = to_lower(page);
  for (const std::string_view tag : {"title", "h1"}) {
    const std::size_t open = lower.find("<" + std::string(tag));
    if (open == std::string::npos) continue;
    const std::size_t start = lower.find('>', open);
    if (start == std::string::npos) continue;
    const std::size_t stop = lower.find("</", start);
    if (stop == std::string::npos) continue;
    const std::string title = one_line(page.substr(start + 1, stop - start - 1));
    if (!title.empty()) return title;
  }
  return {};
}

}  // namespace

std::string error_text(std::string_view body) {
  body = trim(body);
  if (body.empty()) return "an empty body";
  const std::string_view front = body.substr(0, kMaxRead);
  if (front.front() == '<') {
    const std::string title = html_title(front);
    return title.empty() ? "a HTML page: " + one_line(front) : "a HTML page: " + title;
  }
  if (front.front() == '{' || front.front() == '[' || front.front() == '"') {
    const Result<Json> json = Json::parse(front, "body");
    if (json) {
      const std::string text = one_line(text_of(*json, 0));
      if (!text.empty()) return text;
    }
  }
  const std::string line = one_line(front);
  return line.empty() ? "an empty body" : line;
}

}  // namespace nibble::api
