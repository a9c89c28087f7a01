#include "text/jinja/value.h"

#include <array>

namespace nibble::text::jinja {
namespace {

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t index = 0; index < a.size(); ++index) {
    if (!equal(a[index], b[index])) return false;
  }
  return true;
}

// Views are equal only to themselves, but for keys and items, which compare as sets; as sets nobody
// compares them.
bool equal_sequences(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && equal_items(a.items, b.items);
}

bool equal_mappings(const Mapping& a, const Mapping& b) {
  if (a.members.size() != b.members.size()) return false;
  for (const auto& [key, value] : a.members) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  return a.number() == b.number();
}

bool equal_callables(const Callable& a, const Callable& b) {
  return a.macro == b.macro && a.scope == b.scope && a.name == b.name && equal(a.self, b.self);
}

}  // namespace

Value Value::constant(std::string text) {
  return Value(std::make_shared<const Text>(Text{std::move(text), false}));
}

std::int64_t Value::integer() const {
  if (const bool* value = std::get_if<bool>(&data_)) return *value ? 1 : 0;
  return *std::get_if<std::int64_t>(&data_);
}

double Value::number() const {
  if (const double* value = std::get_if<double>(&data_)) return *value;
  return static_cast<double>(integer());
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_boolean()) return boolean();
  if (is_number()) return number() != 0;
  if (const Text* value = text()) return !value->bytes.empty();
  if (const Sequence* value = sequence()) return !value->items.empty();
  if (const Mapping* value = mapping()) return !value->members.empty();
  if (Loop* value = loop()) return value->size() > 0;
  return true;
}

std::string_view Value::type_name() const {
  static constexpr std::array<std::string_view, 6> kSequences = {
      "list", "tuple", "dict_keys", "dict_values", "dict_items", "range"};
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_boolean()) return "bool";
  if (is_float()) return "float";
  if (is_number()) return "int";
  if (const Text* value = text()) return value->markup ? "Markup" : "str";
  if (const Sequence* value = sequence()) return kSequences[static_cast<std::size_t>(value->kind)];
  if (mapping() != nullptr) return "dict";
  if (generator() != nullptr) return "generator";
  if (name_space() != nullptr) return "Namespace";
  if (loop() != nullptr) return "LoopContext";
  return callable()->macro != nullptr ? "Macro" : "function";
}

std::string Value::undefined_reason() const {
  const Undefined* value = std::get_if<Undefined>(&data_);
  return value == nullptr || value->reason == nullptr ? "a value is undefined" : *value->reason;
}

int Value::depth() const {
  if (const Sequence* value = sequence()) return value->depth;
  if (const Mapping* value = mapping()) return value->depth;
  if (const Callable* value = callable()) return value->self.depth();
  return 0;
}

std::size_t Value::weight() const {
  if (const Sequence* value = sequence()) return value->weight;
  if (const Mapping* value = mapping()) return value->weight;
  if (const Callable* value = callable()) return value->self.weight();
  return 1;
}

const Value* Mapping::find(std::string_view key) const {
  const auto found = by_text.find(key);
  return found == by_text.end() ? nullptr : &members[found->second].second;
}

std::size_t Mapping::position(const Value& key) const {
  if (key.is_text()) {
    const auto found = by_text.find(key.bytes());
    return found == by_text.end() ? members.size() : found->second;
  }
  if (by_text.size() == members.size()) return members.size();
  std::size_t index = 0;
  while (index < members.size() && !equal(members[index].first, key)) ++index;
  return index;
}

const Value* Mapping::find(const Value& key) const {
  const std::size_t index = position(key);
  return index == members.size() ? nullptr : &members[index].second;
}

bool Loop::has(std::size_t wanted) {
  while (items.size() <= wanted && pull && pull()) {
  }
  return wanted < items.size();
}

std::size_t Loop::size() {
  while (pull && pull()) {
  }
  return items.size();
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.is_undefined() || a.is_none()) {
    return a.is_undefined() == b.is_undefined() && a.is_none() == b.is_none();
  }
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return equal_sequences(*a.sequence(), *b.sequence());
  }
  if (a.mapping() != nullptr && b.mapping() != nullptr) {
    return a.mapping() == b.mapping() || equal_mappings(*a.mapping(), *b.mapping());
  }
  if (a.callable() != nullptr && b.callable() != nullptr) {
    return equal_callables(*a.callable(), *b.callable());
  }
  if (a.generator() != nullptr) return a.generator() == b.generator();
  if (a.name_space() != nullptr) return a.name_space() == b.name_space();
  return a.loop() != nullptr && a.loop() == b.loop();
}

}  // namespace nibble::text::jinja
