#include "base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace nibble {
namespace {

constexpr int kMaxDepth = 100;  // deeper input would overflow the stack of recursive readers

// Builds the tree from nlohmann's event parser: its own tree would lose duplicate keys and order.
class TreeBuilder {
 public:
  using json = nlohmann::json;

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(json::number_integer_t value) { return add(Json(std::int64_t{value})); }
  bool number_unsigned(json::number_unsigned_t value) { return add(Json(std::uint64_t{value})); }
  bool number_float(json::number_float_t value, const std::string& text) {
    if (!std::isfinite(value)) return fail("number " + text + " is out of range");
    return add(Json(value));
  }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(json::binary_t&) { return fail("binary value"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (stack_.back().find(name) != nullptr) return fail("field \"" + name + "\" appears twice");
    keys_.back() = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const json::exception&) {
    error_position = position == 0 ? 0 : position - 1;
    if (error.empty()) {
      error = token.empty() ? "the text ends early" : "unexpected \"" + token + "\"";
    }
    return false;
  }

  Json root;
  std::string error;
  std::optional<std::size_t> error_position;

 private:
  bool fail(std::string what) {
    error = std::move(what);
    return false;
  }
  bool open(Json container) {
    if (stack_.size() >= kMaxDepth) return fail("nesting deeper than 100");
    stack_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Json done = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return add(std::move(done));
  }
  bool add(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().is_array()) {
      stack_.back().as_array().push_back(std::move(value));
    } else {
      stack_.back().as_object().emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  std::vector<Json> stack_;
  std::vector<std::string> keys_;
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
  TreeBuilder builder;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  if (builder.error_position) {
    return input_error("{}: {}: not valid JSON: {}", origin,
                       line_and_column(text, *builder.error_position), builder.error);
  }
  return input_error("{}: not valid JSON: {}", origin, builder.error);
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

ObjectReader::ObjectReader(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    fault(input_error("{}: expected an object, found {}", where_, json.kind_name()));
  }
}

bool ObjectReader::has(std::string_view key) const {
  const Json* found = json_.find(key);
  return found != nullptr && !found->is_null();
}

const Json* ObjectReader::find(std::string_view key) {
  known_.emplace(key);
  const Json* found = json_.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void ObjectReader::fault(Error error) {
  if (!fault_) fault_ = std::move(error);
}

void ObjectReader::fault_at(std::string_view key, std::string_view what) {
  fault(input_error("{}: \"{}\" {}", where_, key, what));
}

void ObjectReader::check_range(std::string_view key, double value, const NumberRange& range) {
  if (range.above && !(value > *range.above)) {
    fault_at(key, fmt::format("is {}; it must be greater than {}", value, *range.above));
  } else if (value < range.min) {
    fault_at(key, fmt::format("is {}; it must be at least {}", value, range.min));
  } else if (value > range.max) {
    fault_at(key, fmt::format("is {}; it must be at most {}", value, range.max));
  }
}

std::optional<double> ObjectReader::number(std::string_view key, NumberRange range) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) {
    fault_at(key, fmt::format("must be a number, found {}", found->kind_name()));
    return std::nullopt;
  }
  check_range(key, found->as_number(), range);
  return found->as_number();
}

std::optional<std::int64_t> ObjectReader::integer(std::string_view key, NumberRange range) {
  const std::optional<double> value = number(key, range);
  if (!value) return std::nullopt;
  const Json* found = json_.find(key);
  if (found->is_integer()) return found->as_integer();
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double skips integers
  if (std::floor(*value) != *value || std::abs(*value) > kExact) {
    fault_at(key, fmt::format("is {}; it must be a whole number", *value));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*value);
}

std::optional<bool> ObjectReader::boolean(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_bool()) return found->as_bool();
  fault_at(key, fmt::format("must be true or false, found {}", found->kind_name()));
  return std::nullopt;
}

std::optional<std::string> ObjectReader::string(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_string()) return found->as_string();
  fault_at(key, fmt::format("must be a string, found {}", found->kind_name()));
  return std::nullopt;
}

std::optional<std::vector<double>> ObjectReader::numbers(std::string_view key, NumberRange range) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_number()) {
    check_range(key, found->as_number(), range);
    return std::vector<double>{found->as_number()};
  }
  if (!found->is_array()) {
    fault_at(key, fmt::format("must be a number or a list of numbers, found {}", found->kind_name()));
    return std::nullopt;
  }
  std::vector<double> values;
  for (const Json& item : found->as_array()) {
    if (!item.is_number()) {
      fault_at(key, fmt::format("must hold numbers only, found {}", item.kind_name()));
      return std::nullopt;
    }
    check_range(key, item.as_number(), range);
    values.push_back(item.as_number());
  }
  return values;
}

const Json* ObjectReader::array(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr || found->is_array()) return found;
  fault_at(key, fmt::format("must be a list, found {}", found->kind_name()));
  return nullptr;
}

const Json* ObjectReader::object(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr || found->is_object()) return found;
  fault_at(key, fmt::format("must be an object, found {}", found->kind_name()));
  return nullptr;
}

const Json* ObjectReader::any(std::string_view key) { return find(key); }

double ObjectReader::require_number(std::string_view key, NumberRange range) {
  if (!has(key)) fault_at(key, "is missing");
  return number(key, range).value_or(0);
}

std::int64_t ObjectReader::require_integer(std::string_view key, NumberRange range) {
  if (!has(key)) fault_at(key, "is missing");
  return integer(key, range).value_or(0);
}

std::string ObjectReader::require_string(std::string_view key) {
  if (!has(key)) fault_at(key, "is missing");
  return string(key).value_or("");
}

Result<> ObjectReader::finish() {
  if (fault_) return *fault_;
  for (const Json::Member& member : json_.as_object()) {
    if (known_.contains(member.first)) continue;
    const std::vector<std::string> known(known_.begin(), known_.end());
    return input_error("{}: unknown field \"{}\"{}", where_, member.first,
                       did_you_mean(member.first, known));
  }
  return {};
}

Result<> ObjectReader::finish_lenient() const {
  if (fault_) return *fault_;
  return {};
}

}  // namespace nibble
