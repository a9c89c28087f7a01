#include "text/jinja/arguments.h"

#include <algorithm>

namespace nibble::text::jinja {

Bound::Bound(Machine& machine, const Signature& signature, const Arguments& arguments)
    : machine_(machine), arguments_(arguments), name_(signature.name) {
  if (signature.any) return;
  const auto* const end = std::find(signature.parameters.begin(), signature.parameters.end(), "");
  const auto count = static_cast<std::size_t>(end - signature.parameters.begin());
  if (arguments.positional.size() > count) {
    machine.fail("{} takes at most {} arguments", signature.name, count);
    return;
  }
  for (std::size_t index = 0; index < arguments.positional.size(); ++index) {
    values_[index] = &arguments.positional[index];
  }
  bind_named(signature);
  for (std::size_t index = 0; index < signature.required; ++index) {
    if (values_[index] != nullptr) continue;
    machine.fail("{} needs the argument {}", signature.name, signature.parameters[index]);
  }
}

void Bound::bind_named(const Signature& signature) {
  for (const auto& [name, value] : arguments_.named) {
    const auto* const found =
        std::find(signature.parameters.begin(), signature.parameters.end(), name);
    const bool known = signature.by_name && !name.empty() && found != signature.parameters.end();
    if (!known) {
      machine_.fail("{} takes no argument of the name {}", signature.name, name);
      return;
    }
    const Value*& place = values_[static_cast<std::size_t>(found - signature.parameters.begin())];
    if (place != nullptr) machine_.fail("{} is given {} twice", signature.name, name);
    place = &value;
  }
}

bool Bound::truthy(std::size_t index, bool otherwise) const {
  return has(index) ? values_[index]->truthy() : otherwise;
}

std::int64_t Bound::integer(std::size_t index, std::int64_t otherwise) const {
  if (!has(index)) return otherwise;
  if (values_[index]->is_integral()) return values_[index]->integer();
  machine_.type_error(name_, *values_[index]);
  return otherwise;
}

std::string Bound::text(std::size_t index, std::string_view otherwise) const {
  if (!has(index)) return std::string(otherwise);
  if (values_[index]->is_text()) return values_[index]->bytes();
  machine_.type_error(name_, *values_[index]);
  return std::string(otherwise);
}

Value Bound::value(std::size_t index) const {
  return has(index) ? *values_[index] : Value();
}

}  // namespace nibble::text::jinja
