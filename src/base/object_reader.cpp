// ObjectReader of json.h.
#include <cmath>

#include "base/json.h"
#include "base/text.h"

namespace nibble {
namespace {

// A number that is refused is not handed out: nobody may index or divide by it. (NaN is in no JSON
// text; whoever builds one by hand gets it back.)
bool contains(const NumberRange& range, double value) {
  return !(value < range.min || value > range.max || (range.above && value <= *range.above));
}

}  // namespace

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
  if (!contains(range, found->as_number())) return std::nullopt;
  return found->as_number();
}

std::optional<std::int64_t> ObjectReader::integer(std::string_view key, NumberRange range) {
  const std::optional<double> value = number(key, range);
  if (!value) return std::nullopt;
  const Json* found = json_.find(key);
  if (found->is_integer()) return found->as_integer();
  if (std::floor(*value) != *value) {
    fault_at(key, fmt::format("is {}; it must be a whole number", *value));
    return std::nullopt;
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double skips integers
  if (std::abs(*value) > kExact) {
    fault_at(key, fmt::format("is {}, which is too large for a whole number", *value));
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
    if (!contains(range, found->as_number())) return std::nullopt;
    return std::vector<double>{found->as_number()};
  }
  if (!found->is_array()) {
    fault_at(key,
             fmt::format("must be a number or a list of numbers, found {}", found->kind_name()));
    return std::nullopt;
  }
  std::vector<double> values;
  for (const Json& item : found->as_array()) {
    if (!item.is_number()) {
      fault_at(key, fmt::format("must hold numbers only, found {}", item.kind_name()));
      return std::nullopt;
    }
    check_range(key, item.as_number(), range);
    if (!contains(range, item.as_number())) return std::nullopt;
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

const Json* ObjectReader::any(std::string_view key) {
  return find(key);
}

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
    return input_error("{}: unknown field \"{}\"{}", where_, printable(member.first),
                       did_you_mean(member.first, known));
  }
  return {};
}

Result<> ObjectReader::finish_lenient() const {
  if (fault_) return *fault_;
  return {};
}

}  // namespace nibble
