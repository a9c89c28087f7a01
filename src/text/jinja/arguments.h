// The arguments of a call, and how Python gives them to the parameters of a function.
//
//   constexpr Signature kJoin{"join", {"d", "attribute"}, 0};
//   Bound bound(machine, kJoin, arguments);          // a fault where they do not fit
//   bound.text(0, "");                               // the text of d, or "" when not given
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/machine.h"

namespace nibble::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Signature {
  std::string_view name;
  std::array<std::string_view, 5> parameters{};
  std::size_t required = 0;
  bool by_name = true;  // parameters may be given by name
  bool any = false;     // takes whatever is given, and looks itself
};

class Bound {
 public:
  Bound(Machine& machine, const Signature& signature, const Arguments& arguments);

  // nullptr when not given.
  const Value* operator[](std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  bool truthy(std::size_t index, bool otherwise) const;
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  std::string text(std::size_t index, std::string_view otherwise) const;
  Value value(std::size_t index) const;  // undefined when not given
  const Arguments& all() const { return arguments_; }

 private:
  void bind_named(const Signature& signature);

  Machine& machine_;
  const Arguments& arguments_;
  std::array<const Value*, 5> values_{};
  std::string_view name_;
};

}  // namespace nibble::text::jinja
