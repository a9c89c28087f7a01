// The filters that apply filters and tests to each item of a list.
#include <array>

#include "text/jinja/filters.h"

namespace nibble::text::jinja {
namespace {

// The arguments from `start` on, for the filter or test that is named before them.
Arguments rest_of(const Arguments& arguments, std::size_t start) {
  Arguments rest;
  rest.named = arguments.named;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(start),
                         arguments.positional.end());
  return rest;
}

const Value* named(const Arguments& arguments, std::string_view name) {
  for (const auto& [other, value] : arguments.named) {
    if (other == name) return &value;
  }
  return nullptr;
}

Value map_attribute(Machine& machine, const std::vector<Value>& items, const Arguments& arguments) {
  const Value* path = named(arguments, "attribute");
  const Value* otherwise = named(arguments, "default");
  if (arguments.named.size() > (otherwise == nullptr ? 1u : 2u)) {
    return machine.fail("map takes the names attribute and default");
  }
  std::vector<Value> out;
  for (const Value& one : items) {
    if (!machine.step()) return {};
    Value found = path->is_none() ? one : attribute_path(machine, one, *path);
    const bool replaced = found.is_undefined() && otherwise != nullptr && !otherwise->is_none();
    out.push_back(replaced ? *otherwise : std::move(found));
  }
  return machine.generator(std::move(out));
}

Value apply_map(Machine& machine, const Value& input, const Bound& bound) {
  if (!input.truthy()) return machine.generator({});
  const Arguments& arguments = bound.all();
  const auto items = machine.iterate(input);
  if (!items) return {};
  if (arguments.positional.empty() && named(arguments, "attribute") != nullptr) {
    return map_attribute(machine, *items, arguments);
  }
  if (items->empty()) return machine.generator({});
  if (arguments.positional.empty()) return machine.fail("map needs the name of a filter");
  const Value& name = arguments.positional[0];
  const Filter* filter = name.is_text() ? find_filter(name.bytes()) : nullptr;
  if (filter == nullptr) return machine.fail("map names a filter that is not known");
  const Arguments rest = rest_of(arguments, 1);
  std::vector<Value> out;
  for (const Value& one : *items) {
    if (!machine.step()) return {};
    out.push_back(apply(machine, *filter, one, rest));
  }
  return machine.generator(std::move(out));
}

// select and reject (`wanted` false), by the item or by an attribute of it.
Value choose(Machine& machine, const Value& input, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  if (!input.truthy()) return machine.generator({});
  const auto items = machine.iterate(input);
  if (!items) return {};
  if (items->empty()) return machine.generator({});
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) return machine.fail("an attribute must be named");
  const Test* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > first) {
    const Value& name = arguments.positional[first];
    test = name.is_text() ? find_test(name.bytes()) : nullptr;
    if (test == nullptr) return machine.fail("a test is named that is not known");
    rest = rest_of(arguments, first + 1);
  }
  std::vector<Value> out;
  for (const Value& one : *items) {
    if (!machine.step()) return {};
    const Value tested = by_attribute ? attribute_path(machine, one, arguments.positional[0]) : one;
    const bool found = test == nullptr ? tested.truthy() : holds(machine, *test, tested, rest);
    if (found == wanted) out.push_back(one);
  }
  return machine.generator(std::move(out));
}

Value apply_select(Machine& machine, const Value& input, const Bound& arguments) {
  return choose(machine, input, arguments.all(), false, true);
}
Value apply_reject(Machine& machine, const Value& input, const Bound& arguments) {
  return choose(machine, input, arguments.all(), false, false);
}
Value apply_selectattr(Machine& machine, const Value& input, const Bound& arguments) {
  return choose(machine, input, arguments.all(), true, true);
}
Value apply_rejectattr(Machine& machine, const Value& input, const Bound& arguments) {
  return choose(machine, input, arguments.all(), true, false);
}

constexpr std::array<Filter, 5> kFilters = {{
    {{"map", {}, 0, true, true}, apply_map},
    {{"select", {}, 0, true, true}, apply_select},
    {{"reject", {}, 0, true, true}, apply_reject},
    {{"selectattr", {}, 0, true, true}, apply_selectattr},
    {{"rejectattr", {}, 0, true, true}, apply_rejectattr},
}};

}  // namespace

std::span<const Filter> choosing_filters() {
  return kFilters;
}

}  // namespace nibble::text::jinja
