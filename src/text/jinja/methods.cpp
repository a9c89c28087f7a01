#include "text/jinja/methods.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/jinja/operators.h"

namespace nibble::text::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

const Names kMappingMethods = {"get", "items", "keys", "values", "copy"};
const Names kMappingUnsafe = {"clear", "pop", "popitem", "setdefault", "update"};
const Names kListMethods = {"count", "index", "copy"};
const Names kListUnsafe = {"append", "clear", "pop",    "reverse",
                           "insert", "sort",  "extend", "remove"};
const Names kLoopMethods = {"cycle", "changed"};
const Names kTextUnsupported = {"casefold", "center",    "encode",    "expandtabs",   "format_map",
                                "isascii",  "isdecimal", "isnumeric", "isidentifier", "isprintable",
                                "istitle",  "maketrans", "swapcase",  "translate",    "rindex"};
const Names kNumberUnsupported = {"real",       "imag",       "numerator",        "denominator",
                                  "bit_length", "conjugate",  "bit_count",        "to_bytes",
                                  "from_bytes", "is_integer", "as_integer_ratio", "hex",
                                  "fromhex"};

std::string_view among(Names names, std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::string_view() : *found;
}

MethodFinding finding_of(Names known, Names unsafe, Names unsupported, std::string_view name) {
  if (const auto found = among(known, name); !found.empty()) return {MethodKind::kKnown, found};
  if (!among(unsafe, name).empty()) return {MethodKind::kUnsafe, {}};
  if (!among(unsupported, name).empty()) return {MethodKind::kUnsupported, {}};
  return {};
}

MethodFinding find_sequence_method(const Sequence& sequence, std::string_view name) {
  switch (sequence.kind) {
    case SequenceKind::kList:
      return finding_of(kListMethods, kListUnsafe, {}, name);
    case SequenceKind::kTuple:
      return finding_of({"count", "index"}, {}, {}, name);
    case SequenceKind::kRange:
      return finding_of({}, {}, {"count", "index", "start", "stop", "step"}, name);
    default:
      return finding_of({}, {}, {"isdisjoint", "mapping"}, name);
  }
}

Value call_mapping(Machine& machine, std::string_view name, const Mapping& mapping,
                   const Arguments& arguments) {
  Signature signature;
  signature.name = name;
  signature.by_name = false;
  if (name == "get") {
    signature.parameters = {"key", "default"};
    signature.required = 1;
  }
  const Bound bound(machine, signature, arguments);
  if (machine.failed()) return {};
  if (name == "get") {
    const Value* found = mapping.find(*bound[0]);
    return found != nullptr ? *found : bound.has(1) ? *bound[1] : Value(None{});
  }
  if (name == "copy") return machine.mapping(mapping.members);
  std::vector<Value> items;
  items.reserve(mapping.members.size());
  for (const auto& [key, value] : mapping.members) {
    if (!machine.step()) return {};
    items.push_back(name == "keys" ? key : name == "values" ? value : machine.tuple({key, value}));
  }
  return machine.list(std::move(items), name == "keys"     ? SequenceKind::kKeys
                                        : name == "values" ? SequenceKind::kValues
                                                           : SequenceKind::kItems);
}

Value call_sequence(Machine& machine, std::string_view name, const Sequence& sequence,
                    const Arguments& arguments) {
  Signature signature;
  signature.name = name;
  signature.by_name = false;
  if (name != "copy") {
    signature.parameters = {"value"};
    signature.required = 1;
  }
  const Bound bound(machine, signature, arguments);
  if (machine.failed()) return {};
  if (name == "copy") return machine.list(sequence.items);
  std::int64_t count = 0;
  for (std::size_t index = 0; index < sequence.items.size() && machine.step(); ++index) {
    if (!machine.can_compare(sequence.items[index], *bound[0])) return {};
    if (!equal(sequence.items[index], *bound[0])) continue;
    if (name == "index") return Value(static_cast<std::int64_t>(index));
    ++count;
  }
  if (name == "count") return Value(count);
  return machine.fail("the list does not hold the value that index looks for");
}

Value call_loop(Machine& machine, std::string_view name, Loop& loop, const Arguments& arguments) {
  if (!arguments.named.empty()) return machine.fail("loop.{} takes no names", name);
  if (name == "cycle") {
    if (arguments.positional.empty()) return machine.fail("loop.cycle needs an argument");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  const auto& now = arguments.positional;
  const bool same = loop.has_changed && std::equal(now.begin(), now.end(), loop.changed.begin(),
                                                   loop.changed.end(), equal);
  loop.has_changed = true;
  loop.changed = now;
  return Value(!same);
}

}  // namespace

MethodFinding find_method(const Value& object, std::string_view name) {
  if (!name.empty() && name.front() == '_') return {};  // the sandbox hides these as undefined
  if (object.is_text()) {
    const TextMethod* found = find_text_method(name);
    if (found != nullptr) return {MethodKind::kKnown, found->signature.name};
    return finding_of({}, {}, kTextUnsupported, name);
  }
  if (object.mapping() != nullptr) {
    return finding_of(kMappingMethods, kMappingUnsafe, {"fromkeys"}, name);
  }
  if (const Sequence* sequence = object.sequence()) return find_sequence_method(*sequence, name);
  if (object.is_number()) return finding_of({}, {}, kNumberUnsupported, name);
  if (object.callable() != nullptr) {
    return finding_of({}, {}, {"name", "arguments", "catch_kwargs", "catch_varargs", "caller"},
                      name);
  }
  return {};
}

bool is_method_name(std::string_view name) {
  for (const Names names :
       {kMappingMethods, kMappingUnsafe, kListMethods, kListUnsafe, kLoopMethods}) {
    if (!among(names, name).empty()) return true;
  }
  return find_text_method(name) != nullptr;
}

Value call_method(Machine& machine, const Callable& method, const Arguments& arguments) {
  const Value& self = method.self;
  if (const Mapping* mapping = self.mapping()) {
    return call_mapping(machine, method.name, *mapping, arguments);
  }
  if (const Sequence* sequence = self.sequence()) {
    return call_sequence(machine, method.name, *sequence, arguments);
  }
  if (Loop* loop = self.loop()) return call_loop(machine, method.name, *loop, arguments);
  const TextMethod* found = find_text_method(method.name);
  NIBBLE_CHECK(found != nullptr && self.is_text());
  const Bound bound(machine, found->signature, arguments);
  if (machine.failed() || !machine.step(self.bytes().size() / 64)) return {};
  return found->call(machine, self, bound);
}

}  // namespace nibble::text::jinja
