// The filters of lists and mappings.
#include <algorithm>
#include <array>
#include <numeric>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"

namespace nibble::text::jinja {
namespace {

Value apply_default(Machine& machine, const Value& input, const Bound& arguments) {
  const bool replaced = input.is_undefined() || (arguments.truthy(1, false) && !input.truthy());
  if (!replaced) return input;
  return arguments.has(0) ? *arguments[0] : machine.text("");
}

Value apply_length(Machine& machine, const Value& input, const Bound&) {
  return Value(length_of(machine, input));
}

Value apply_first(Machine& machine, const Value& input, const Bound&) {
  if (const Sequence* sequence = input.sequence();
      sequence != nullptr && !sequence->items.empty()) {
    return sequence->items.front();
  }
  if (Generator* generator = input.generator(); generator != nullptr) {
    if (generator->next < generator->items.size()) return generator->items[generator->next++];
  }
  const auto items = machine.iterate(input);
  if (!items) return {};
  return items->empty() ? machine.undefined("there is no first item") : items->front();
}

Value apply_last(Machine& machine, const Value& input, const Bound&) {
  if (input.generator() != nullptr) return machine.type_error("last", input);
  if (const Sequence* sequence = input.sequence();
      sequence != nullptr && !sequence->items.empty()) {
    return sequence->items.back();
  }
  const auto items = machine.iterate(input);
  if (!items) return {};
  return items->empty() ? machine.undefined("there is no last item") : items->back();
}

Value apply_list(Machine& machine, const Value& input, const Bound&) {
  auto items = machine.iterate(input);
  return items ? machine.list(std::move(*items)) : Value();
}

Value apply_reverse(Machine& machine, const Value& input, const Bound&) {
  if (input.is_text()) return slice(machine, input, {}, {}, Value(std::int64_t{-1}));
  const bool one_pass = input.generator() == nullptr;
  auto items = machine.iterate(input);
  if (!items) return {};
  std::reverse(items->begin(), items->end());
  return one_pass ? machine.generator(std::move(*items)) : machine.list(std::move(*items));
}

Value apply_items(Machine& machine, const Value& input, const Bound&) {
  if (input.is_undefined()) return machine.generator({});
  const Mapping* mapping = input.mapping();
  if (mapping == nullptr) return machine.type_error("items", input);
  std::vector<Value> items;
  items.reserve(mapping->members.size());
  for (const auto& [key, value] : mapping->members) {
    if (!machine.step()) return {};
    items.push_back(machine.tuple({key, value}));
  }
  return machine.generator(std::move(items));
}

// The order of `keys`, equal ones as they came.
std::vector<std::size_t> order_of(Machine& machine, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (!machine.step()) return false;
    return reverse ? less(machine, keys[b], keys[a]) : less(machine, keys[a], keys[b]);
  });
  return order;
}

std::vector<Value> in_order(const std::vector<Value>& items,
                            const std::vector<std::size_t>& order) {
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

Value apply_sort(Machine& machine, const Value& input, const Bound& arguments) {
  const auto items = machine.iterate(input);
  if (!items) return {};
  const Value* path = arguments[2];
  if (path != nullptr && path->is_text() && path->bytes().find(',') != std::string::npos) {
    return machine.fail("sort by several attributes is not supported");
  }
  std::vector<Value> keys;
  for (const Value& one : *items) {
    keys.push_back(sort_key(machine, one, path, arguments.truthy(1, false)));
  }
  return machine.list(in_order(*items, order_of(machine, keys, arguments.truthy(0, false))));
}

Value apply_dictsort(Machine& machine, const Value& input, const Bound& arguments) {
  const Mapping* mapping = input.mapping();
  if (mapping == nullptr) return machine.type_error("dictsort", input);
  const std::string by = arguments.text(1, "key");
  if (by != "key" && by != "value") return machine.fail("dictsort sorts by \"key\" or \"value\"");
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : mapping->members) {
    if (!machine.step()) return {};
    items.push_back(machine.tuple({key, value}));
    keys.push_back(
        sort_key(machine, by == "key" ? key : value, nullptr, arguments.truthy(0, false)));
  }
  return machine.list(in_order(items, order_of(machine, keys, arguments.truthy(2, false))));
}

bool can_be_key(const Value& value) {
  if (value.mapping() != nullptr) return false;
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return true;
  return sequence->kind == SequenceKind::kTuple &&
         std::all_of(sequence->items.begin(), sequence->items.end(), can_be_key);
}

Value apply_unique(Machine& machine, const Value& input, const Bound& arguments) {
  const auto items = machine.iterate(input);
  if (!items) return {};
  std::vector<Value> seen;
  std::vector<Value> unique;
  for (const Value& one : *items) {
    Value key = sort_key(machine, one, arguments[1], arguments.truthy(0, false));
    if (!can_be_key(key)) return machine.type_error("unique", key);
    if (!machine.step(seen.size() + 1)) return {};
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&key](const Value& other) { return equal(other, key); });
    if (known) continue;
    seen.push_back(std::move(key));
    unique.push_back(one);
  }
  return machine.generator(std::move(unique));
}

Value extreme(Machine& machine, const Value& input, const Bound& arguments, bool largest) {
  const auto items = machine.iterate(input);
  if (!items) return {};
  if (items->empty()) return machine.undefined("no aggregated item, the sequence was empty");
  const bool case_sensitive = arguments.truthy(0, false);
  std::size_t best = 0;
  Value best_key = sort_key(machine, items->front(), arguments[1], case_sensitive);
  for (std::size_t index = 1; index < items->size() && machine.step(); ++index) {
    Value key = sort_key(machine, (*items)[index], arguments[1], case_sensitive);
    const bool better = largest ? less(machine, best_key, key) : less(machine, key, best_key);
    if (!better) continue;
    best = index;
    best_key = std::move(key);
  }
  return (*items)[best];
}

Value apply_min(Machine& machine, const Value& input, const Bound& arguments) {
  return extreme(machine, input, arguments, false);
}
Value apply_max(Machine& machine, const Value& input, const Bound& arguments) {
  return extreme(machine, input, arguments, true);
}

Value apply_sum(Machine& machine, const Value& input, const Bound& arguments) {
  const auto items = machine.iterate(input);
  if (!items) return {};
  Value total = arguments.has(1) ? *arguments[1] : Value(std::int64_t{0});
  if (total.is_text()) return machine.type_error("sum", total);
  const Value* path = arguments[0];
  const bool has_path = path != nullptr && !path->is_none();
  for (const Value& one : *items) {
    if (!machine.step()) return {};
    total = binary(machine, "+", total, has_path ? attribute_path(machine, one, *path) : one);
  }
  return total;
}

Value apply_batch(Machine& machine, const Value& input, const Bound& arguments) {
  const auto items = machine.iterate(input);
  const std::int64_t size = arguments.integer(0, 1);
  if (!items || machine.failed()) return {};
  if (size < 1 || size > 1'000'000) return machine.fail("batch takes 1 to 1000000 items");
  const Value* fill = arguments[1];
  std::vector<Value> batches;
  const auto step = static_cast<std::size_t>(size);
  for (std::size_t at = 0; at < items->size(); at += std::min(step, items->size() - at)) {
    const std::size_t end = at + std::min(step, items->size() - at);
    std::vector<Value> batch(items->begin() + static_cast<std::ptrdiff_t>(at),
                             items->begin() + static_cast<std::ptrdiff_t>(end));
    if (fill != nullptr && !fill->is_none() && batch.size() < step) {
      if (!machine.can_make((step - batch.size()) * sizeof(Value))) return {};
      batch.resize(step, *fill);
    }
    batches.push_back(machine.list(std::move(batch)));
  }
  return machine.generator(std::move(batches));
}

constexpr std::array<Filter, 17> kFilters = {{
    {{"default", {"default_value", "boolean"}, 0}, apply_default},
    {{"d", {"default_value", "boolean"}, 0}, apply_default},
    {{"length", {}, 0}, apply_length},
    {{"count", {}, 0}, apply_length},
    {{"first", {}, 0}, apply_first},
    {{"last", {}, 0}, apply_last},
    {{"list", {}, 0}, apply_list},
    {{"reverse", {}, 0}, apply_reverse},
    {{"items", {}, 0}, apply_items},
    {{"sort", {"reverse", "case_sensitive", "attribute"}, 0}, apply_sort},
    {{"dictsort", {"case_sensitive", "by", "reverse"}, 0}, apply_dictsort},
    {{"unique", {"case_sensitive", "attribute"}, 0}, apply_unique},
    {{"min", {"case_sensitive", "attribute"}, 0}, apply_min},
    {{"max", {"case_sensitive", "attribute"}, 0}, apply_max},
    {{"sum", {"attribute", "start"}, 0}, apply_sum},
    {{"batch", {"linecount", "fill_with"}, 1}, apply_batch},
    {{"attr", {"name"}, 1},
     [](Machine& machine, const Value& input, const Bound& arguments) {
       // foo|attr("bar") never falls back to an item, and no template's value has attributes
       // of its own but namespaces.
       if (input.name_space() == nullptr) {
         return machine.fail("the filter attr is supported for namespaces alone");
       }
       return attribute(machine, input, arguments.text(0, ""));
     }},
}};

}  // namespace

std::span<const Filter> list_filters() {
  return kFilters;
}

}  // namespace nibble::text::jinja
