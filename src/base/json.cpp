#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace nibble {
namespace {

constexpr int kMaxDepth = 100;  // deeper input would overflow the stack of recursive readers

// Hands the text to the parser and knows how far it has read, so that our own refusals too can name
// their place.
class TrackedText {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedText(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackedText& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  friend bool operator==(const TrackedText& a, const TrackedText& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Builds the tree from nlohmann's event parser: its own tree would lose duplicate keys and order.
class TreeBuilder {
 public:
  using json = nlohmann::json;

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(json::number_integer_t value) { return add(Json(std::int64_t{value})); }
  bool number_unsigned(json::number_unsigned_t value) { return add(Json(std::uint64_t{value})); }
  bool number_float(json::number_float_t value, const std::string&) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(json::binary_t&) { return fail("binary value"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (is_duplicate(name)) return fail("field \"" + printable(name) + "\" appears twice");
    stack_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string& token, const json::exception& exception) {
    constexpr int kOutOfRange = 406;  // nlohmann's number for "no double holds this"
    if (exception.id == kOutOfRange) return fail("number " + printable(token) + " is out of range");
    return fail(reason_of(exception.what()));
  }

  Json root;
  std::string error;

 private:
  struct Level {
    Json container;
    std::string key;             // of the member being read
    std::set<std::string> keys;  // of a large object
  };

  bool fail(std::string what) {
    error = std::move(what);
    return false;
  }
  // "[...] parse error at line 1, column 3: syntax error while parsing value - REASON; last read:
  // ..."
  static std::string reason_of(std::string_view what) {
    constexpr std::string_view kBefore = " - ";
    const std::size_t start = what.find(kBefore);
    if (start != std::string_view::npos) what.remove_prefix(start + kBefore.size());
    return printable(what.substr(0, what.find("; last read")));
  }
  // Small objects are searched; checkpoint indices with 100,000 members need the set.
  bool is_duplicate(const std::string& name) {
    constexpr std::size_t kSmall = 16;
    Level& level = stack_.back();
    const Json::Object& members = level.container.as_object();
    if (members.size() < kSmall) return level.container.find(name) != nullptr;
    if (level.keys.empty()) {
      for (const Json::Member& member : members) level.keys.insert(member.first);
    }
    return !level.keys.insert(name).second;
  }
  bool open(Json container) {
    if (stack_.size() >= kMaxDepth) return fail("nesting deeper than 100");
    stack_.push_back({std::move(container), {}, {}});
    return true;
  }
  bool close() {
    Json done = std::move(stack_.back().container);
    stack_.pop_back();
    return add(std::move(done));
  }
  bool add(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().container.is_array()) {
      stack_.back().container.as_array().push_back(std::move(value));
    } else {
      Json::Object& members = stack_.back().container.as_object();
      members.emplace_back(std::move(stack_.back().key), std::move(value));
    }
    return true;
  }

  std::vector<Level> stack_;
};

std::string line_and_column(std::string_view text, std::size_t position) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t index = 0; index < std::min(position, text.size()); ++index) {
    ++column;
    if (text[index] == '\n') {
      ++line;
      column = 1;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

void append_escaped(std::string& out, const std::string& text) {
  // nlohmann escapes and validates UTF-8; broken UTF-8 becomes U+FFFD instead of an exception.
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_newline(std::string& out, int indent, int depth) {
  if (indent == 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
}

std::string shortest(double value) {
  if (!std::isfinite(value)) return "null";
  if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" would read back as the integer 0
  return fmt::format("{}", value);  // fmt prints the shortest text that reads back to the same bits
}

bool holds_scalars_only(const Json::Array& items) {
  return std::none_of(items.begin(), items.end(),
                      [](const Json& item) { return item.is_array() || item.is_object(); });
}

void append(std::string& out, const Json& json, int indent, int depth);

void append_array(std::string& out, const Json::Array& items, int indent, int depth) {
  // Lists of numbers stay on one line: they are what people compare.
  const int inner = holds_scalars_only(items) ? 0 : indent;
  out += '[';
  for (std::size_t index = 0; index < items.size(); ++index) {
    if (index > 0) out += inner == 0 && indent > 0 ? ", " : ",";
    append_newline(out, inner, depth + 1);
    append(out, items[index], indent, depth + 1);
  }
  if (!items.empty()) append_newline(out, inner, depth);
  out += ']';
}

void append_object(std::string& out, const Json::Object& members, int indent, int depth) {
  out += '{';
  for (std::size_t index = 0; index < members.size(); ++index) {
    if (index > 0) out += ',';
    append_newline(out, indent, depth + 1);
    append_escaped(out, members[index].first);
    out += indent > 0 ? ": " : ":";
    append(out, members[index].second, indent, depth + 1);
  }
  if (!members.empty()) append_newline(out, indent, depth);
  out += '}';
}

void append(std::string& out, const Json& json, int indent, int depth) {
  if (json.is_null()) {
    out += "null";
  } else if (json.is_bool()) {
    out += json.as_bool() ? "true" : "false";
  } else if (json.is_integer()) {
    out += std::to_string(json.as_integer());
  } else if (json.is_number()) {
    out += shortest(json.as_number());
  } else if (json.is_string()) {
    append_escaped(out, json.as_string());
  } else if (json.is_array()) {
    append_array(out, json.as_array(), indent, depth);
  } else {
    append_object(out, json.as_object(), indent, depth);
  }
}

}  // namespace

Json::Json(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    value_ = static_cast<std::int64_t>(value);
  } else {
    value_ = static_cast<double>(value);
  }
}

Json Json::object(Object members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

Result<Json> Json::parse(std::string_view text, std::string_view origin) {
  const auto fault = [&](std::size_t position, std::string_view what) {
    return input_error("{}: {}: not valid JSON: {}", origin, line_and_column(text, position), what);
  };
  // nlohmann takes a NUL byte for the end of the text and would ignore what follows.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) return fault(nul, "a NUL byte");

  TreeBuilder builder;
  const char* reached = text.data();
  const TrackedText begin(text.data(), &reached);
  const TrackedText end(text.data() + text.size(), &reached);
  if (nlohmann::json::sax_parse(begin, end, &builder)) return std::move(builder.root);
  const auto read = static_cast<std::size_t>(reached - text.data());
  return fault(read == 0 ? 0 : read - 1, builder.error);
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number() && a.is_integer() != b.is_integer()) {
    const std::int64_t integer = a.is_integer() ? a.as_integer() : b.as_integer();
    const double real = a.is_integer() ? b.as_number() : a.as_number();
    constexpr double kBeyond = 9223372036854775808.0;  // 2^63, which no std::int64_t reaches
    return real >= -kBeyond && real < kBeyond && real == std::trunc(real) &&
           static_cast<std::int64_t>(real) == integer;
  }
  return a.value_ == b.value_;
}

std::string_view Json::kind_name() const {
  if (is_null()) return "null";
  if (is_bool()) return "a boolean";
  if (is_number()) return "a number";
  if (is_string()) return "a string";
  return is_array() ? "an array" : "an object";
}

double Json::as_number() const {
  return is_integer() ? static_cast<double>(as_integer()) : get<double>();
}

const Json* Json::find(std::string_view key) const {
  const Object* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const Member& member : *members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) {
  return const_cast<Json*>(std::as_const(*this).find(key));
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  if (Json* existing = find(key)) {
    *existing = std::move(value);
  } else {
    as_object().emplace_back(std::string(key), std::move(value));
  }
  return *this;
}

Json& Json::push(Json item) {
  if (is_null()) value_ = Array{};
  as_array().push_back(std::move(item));
  return *this;
}

std::string Json::dump(int indent) const {
  std::string out;
  append(out, *this, indent, 0);
  return out;
}

}  // namespace nibble
