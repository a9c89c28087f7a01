// Attributes, items and slices (text/jinja/operators.h).
#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

// As jinja2 names a value in its messages.
std::string owner(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", value.type_name());
}

Value missing(Machine& machine, const Value& object, const Value& key) {
  if (key.is_text()) {
    return machine.undefined(fmt::format("'{}' has no attribute '{}'", owner(object), key.bytes()));
  }
  if (!key.is_number())
    return machine.undefined(fmt::format("'{}' has no such element", owner(object)));
  return machine.undefined(
      fmt::format("'{}' has no element {}", owner(object), represent(machine, key)));
}

Value missing(Machine& machine, const Value& object, std::string_view name) {
  return machine.undefined(fmt::format("'{}' has no attribute '{}'", owner(object), name));
}

Value neighbour(Machine& machine, Loop& loop, bool previous) {
  if (previous ? loop.index > 0 : loop.has(loop.index + 1)) {
    return loop.items[previous ? loop.index - 1 : loop.index + 1];
  }
  return machine.undefined(previous ? "there is no previous item" : "there is no next item");
}

std::int64_t size_of(Loop& loop) {
  return static_cast<std::int64_t>(loop.size());
}

// What Python's getattr finds on the variable loop.
std::optional<Value> loop_attribute(Machine& machine, const Value& self, std::string_view name) {
  Loop& loop = *self.loop();
  const auto index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(!loop.has(loop.index + 1));
  if (name == "length") return Value(size_of(loop));
  if (name == "revindex") return Value(size_of(loop) - index);
  if (name == "revindex0") return Value(size_of(loop) - index - 1);
  if (name == "depth") return Value(std::int64_t{1});
  if (name == "depth0") return Value(std::int64_t{0});
  if (name == "previtem") return neighbour(machine, loop, true);
  if (name == "nextitem") return neighbour(machine, loop, false);
  if (name == "cycle") return machine.method("cycle", self);
  if (name == "changed") return machine.method("changed", self);
  return std::nullopt;
}

// getattr(object, name): a method or a member that is no item.
std::optional<Value> python_attribute(Machine& machine, const Value& object,
                                      std::string_view name) {
  if (object.loop() != nullptr) return loop_attribute(machine, object, name);
  if (const Namespace* space = object.name_space()) {
    const auto found = space->members.find(name);
    if (found == space->members.end()) return std::nullopt;
    return found->second;
  }
  switch (const MethodFinding finding = find_method(object, name); finding.kind) {
    case MethodKind::kNone:
      return std::nullopt;
    case MethodKind::kKnown:
      return machine.method(finding.name, object);
    case MethodKind::kUnsafe:
      return machine.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe",
                                           name, object.type_name()));
    case MethodKind::kUnsupported:
      return machine.fail("the attribute {} of a value of type {} is not supported", name,
                          object.type_name());
  }
  return std::nullopt;
}

std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < -count || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + count : index);
}

Value character(Machine& machine, const Text& text, std::size_t index) {
  const std::size_t start = byte_offset(text.bytes, index);
  std::size_t end = start;
  static_cast<void>(next_character(text.bytes, end));
  if (!machine.step(start / 64)) return {};
  return machine.text(text.bytes.substr(start, end - start), text.markup);
}

bool is_indexed(const Value& object) {
  if (object.is_text()) return true;
  const Sequence* sequence = object.sequence();
  return sequence != nullptr &&
         (sequence->kind <= SequenceKind::kTuple || sequence->kind == SequenceKind::kRange);
}

// object[key] of Python, or nothing.
std::optional<Value> python_item(Machine& machine, const Value& object, const Value& key) {
  if (const Mapping* mapping = object.mapping()) {
    if (const Value* found = mapping->find(key)) return *found;
    return std::nullopt;
  }
  if (!is_indexed(object) || !key.is_integral()) return std::nullopt;
  const std::size_t size =
      object.is_text() ? length(object.bytes()) : object.sequence()->items.size();
  const auto index = position(key.integer(), size);
  if (!index) return std::nullopt;
  if (object.is_text()) return character(machine, *object.text(), *index);
  return object.sequence()->items[*index];
}

struct SliceRange {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};

// PySlice_AdjustIndices
std::int64_t adjusted(const Value& given, std::int64_t size, std::int64_t otherwise,
                      bool backward) {
  if (!given.is_integral()) return otherwise;
  const std::int64_t lowest = backward ? -1 : 0;
  const std::int64_t index = given.integer();
  if (index < 0) return index < -size ? lowest : std::max(index + size, lowest);
  return index >= size ? (backward ? size - 1 : size) : index;
}

std::vector<std::size_t> slice_indices(const SliceRange& range) {
  std::vector<std::size_t> indices;
  const auto within = [&](std::int64_t at) {
    return range.step > 0 ? at < range.stop : at > range.stop;
  };
  for (std::int64_t at = range.start; within(at);) {
    indices.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, range.step, &at)) break;
  }
  return indices;
}

Value slice_text(Machine& machine, const Text& text, const SliceRange& range) {
  if (range.step == 1) {
    const std::size_t start = byte_offset(text.bytes, static_cast<std::size_t>(range.start));
    const auto count =
        static_cast<std::size_t>(std::max(range.stop - range.start, std::int64_t{0}));
    const std::size_t bytes = byte_offset(std::string_view(text.bytes).substr(start), count);
    return machine.text(text.bytes.substr(start, bytes), text.markup);
  }
  std::u32string characters;
  for (std::size_t at = 0; at < text.bytes.size();) {
    characters += next_character(text.bytes, at);
  }
  std::string out;
  for (const std::size_t index : slice_indices(range)) append_character(out, characters[index]);
  return machine.text(std::move(out), text.markup);
}

}  // namespace

Value attribute(Machine& machine, const Value& object, std::string_view name) {
  if (object.is_undefined()) return machine.fail("{}", object.undefined_reason());
  if (auto found = python_attribute(machine, object, name)) return *found;
  if (const Mapping* mapping = object.mapping()) {
    if (const Value* found = mapping->find(name)) return *found;
  }
  return missing(machine, object, name);
}

Value item(Machine& machine, const Value& object, const Value& key) {
  if (object.is_undefined()) return machine.fail("{}", object.undefined_reason());
  if (auto found = python_item(machine, object, key)) return *found;
  if (key.is_text()) {
    if (auto found = python_attribute(machine, object, key.bytes())) return *found;
  }
  return missing(machine, object, key);
}

Value slice(Machine& machine, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.is_undefined()) return machine.fail("{}", object.undefined_reason());
  for (const Value* part : {&start, &stop, &step}) {
    const bool fits = part->is_undefined() || part->is_none() || part->is_integral();
    if (!fits) return machine.type_error("a slice", *part);
  }
  if (!is_indexed(object)) return machine.type_error("a slice", object);
  SliceRange range;
  if (step.is_integral()) range.step = step.integer();
  if (range.step == 0) return machine.fail("the step of a slice is zero");
  const std::int64_t size = length_of(machine, object);
  const bool backward = range.step < 0;
  range.start = adjusted(start, size, backward ? size - 1 : 0, backward);
  range.stop = adjusted(stop, size, backward ? -1 : size, backward);
  if (!machine.step(static_cast<std::size_t>(size) / 16)) return {};
  if (object.is_text()) return slice_text(machine, *object.text(), range);
  if (object.sequence()->kind == SequenceKind::kRange) {
    return machine.fail("slices of a range are not supported; put |list behind it");
  }
  std::vector<Value> items;
  for (const std::size_t index : slice_indices(range)) {
    items.push_back(object.sequence()->items[index]);
  }
  return machine.list(std::move(items), object.sequence()->kind);
}

}  // namespace nibble::text::jinja
