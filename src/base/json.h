// JSON as a value tree with ordered objects, and a reader of objects that knows where it stands.
//
//   NIBBLE_ASSIGN_OR_RETURN(Json document, Json::parse(text, "case.json"));
//   ObjectReader reader(document, "case.json");
//   const double watts = reader.number("power_w", {.min = 0}).value_or(0);
//   NIBBLE_RETURN_IF_ERROR(reader.finish());   // the first fault, or a field nobody asked for
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace nibble {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order of the file; keys are unique

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::uint64_t value);
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  // A missing number is null; say why in a field beside it.
  Json(std::optional<double> value) : Json(value ? Json(*value) : Json()) {}

  static Json array(Array items = {}) { return Json(std::move(items)); }
  static Json object(Object members = {});

  // Parses a whole document. Refuses duplicate keys, numbers that no double holds, text after the
  // value and nesting deeper than 100. Errors name `origin`, line and column.
  static Result<Json> parse(std::string_view text, std::string_view origin);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::string_view kind_name() const;  // "null", "a boolean", "a number", "a string", ...

  // The accessors below are for values whose kind has been checked.
  bool as_bool() const { return get<bool>(); }
  std::int64_t as_integer() const { return get<std::int64_t>(); }
  double as_number() const;
  const std::string& as_string() const { return get<std::string>(); }
  const Array& as_array() const { return get<Array>(); }
  Array& as_array() { return get<Array>(); }
  const Object& as_object() const { return get<Object>(); }
  Object& as_object() { return get<Object>(); }

  // Member of an object, or nullptr when this is no object or has no such member.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  // Adds or replaces a member of an object (null becomes an object); returns *this to chain.
  Json& set(std::string_view key, Json value);
  // Appends to an array (null becomes an array).
  Json& push(Json item);

  // Compact when indent is 0. Doubles are printed so that they read back to the same bits; NaN and
  // infinities, which JSON lacks, become null.
  std::string dump(int indent = 2) const;

  // Numbers are equal when their values are: 8 and 8.0. The order of members counts.
  friend bool operator==(const Json& a, const Json& b);

 private:
  template <class T>
  const T& get() const {
    const T* found = std::get_if<T>(&value_);
    NIBBLE_CHECK(found != nullptr);
    return *found;
  }
  template <class T>
  T& get() {
    T* found = std::get_if<T>(&value_);
    NIBBLE_CHECK(found != nullptr);
    return *found;
  }

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// Allowed range of a number, both ends included unless `above` is set.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::optional<double> above = std::nullopt;  // the number must be greater than this
};

// Reads the fields of one object. Keeps the first fault (wrong kind, out of range, missing) and
// which fields were asked for; a null member counts as absent. finish() returns the first fault.
class ObjectReader {
 public:
  // `where` names the object in messages: "glm5.json: load.levels[2]".
  ObjectReader(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  bool has(std::string_view key) const;

  std::optional<double> number(std::string_view key, NumberRange range = {});
  std::optional<std::int64_t> integer(std::string_view key, NumberRange range = {});
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> string(std::string_view key);
  // One number, or an array of numbers.
  std::optional<std::vector<double>> numbers(std::string_view key, NumberRange range = {});
  const Json* array(std::string_view key);
  const Json* object(std::string_view key);
  const Json* any(std::string_view key);

  // As above; a missing field is a fault, and the return value is then a zero value.
  double require_number(std::string_view key, NumberRange range = {});
  std::int64_t require_integer(std::string_view key, NumberRange range = {});
  std::string require_string(std::string_view key);

  // Marks a field as known without reading it.
  void accept(std::string_view key) { known_.emplace(key); }
  // Records a fault of the caller's own; the first one is kept.
  void fault(Error error);
  void fault_at(std::string_view key, std::string_view what);

  // First fault; then a field that was never asked for (nearest known name offered).
  Result<> finish();
  // First fault only: for files, such as config.json, that hold more than we read.
  Result<> finish_lenient() const;

 private:
  const Json* find(std::string_view key);
  void check_range(std::string_view key, double value, const NumberRange& range);

  const Json& json_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> fault_;
};

}  // namespace nibble
