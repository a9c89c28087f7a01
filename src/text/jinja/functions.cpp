#include "text/jinja/functions.h"

#include <array>
#include <ctime>

#include "base/check.h"
#include "base/utf8.h"
#include "text/jinja/printing.h"

namespace nibble::text::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // MAX_RANGE of jinja2's sandbox

Value make_range(Machine& machine, const Arguments& arguments) {
  constexpr Signature kSignature{"range", {"start", "stop", "step"}, 1, false};
  const Bound bound(machine, kSignature, arguments);
  if (machine.failed()) return {};
  const bool only_stop = !bound.has(1);
  std::int64_t at = only_stop ? 0 : bound.integer(0, 0);
  const std::int64_t stop = bound.integer(only_stop ? 0 : 1, 0);
  const std::int64_t step = bound.integer(2, 1);
  if (machine.failed()) return {};
  if (step == 0) return machine.fail("range takes no step of 0");
  std::vector<Value> items;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(items.size()) == kMaxRange) {
      return machine.fail("a range has more than {} items", kMaxRange);
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  if (!machine.step(items.size() / 8)) return {};
  return machine.list(std::move(items), SequenceKind::kRange);
}

// The members that dict() and namespace() are given: a mapping, then names.
std::vector<std::pair<Value, Value>> members_of(Machine& machine, std::string_view name,
                                                const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> members;
  if (arguments.positional.size() > 1) machine.fail("{} takes at most one argument by place", name);
  if (!arguments.positional.empty()) {
    const Mapping* mapping = arguments.positional[0].mapping();
    if (mapping == nullptr) {
      machine.type_error(name, arguments.positional[0]);
      return members;
    }
    members = mapping->members;
  }
  for (const auto& [key, value] : arguments.named) members.emplace_back(machine.text(key), value);
  return members;
}

Value make_dict(Machine& machine, const Arguments& arguments) {
  return machine.mapping(members_of(machine, "dict", arguments));
}

Value make_namespace(Machine& machine, const Arguments& arguments) {
  Namespace& made = machine.new_namespace();
  for (auto& [key, value] : members_of(machine, "namespace", arguments)) {
    if (!key.is_text()) return machine.type_error("namespace", key);
    made.members.insert_or_assign(key.bytes(), std::move(value));
  }
  return Value(&made);
}

Value raise(Machine& machine, const Arguments& arguments) {
  constexpr Signature kSignature{"raise_exception", {"message"}, 1};
  const Bound bound(machine, kSignature, arguments);
  if (machine.failed()) return {};
  const std::string message = print(machine, *bound[0]);
  if (machine.failed()) return {};
  machine.raise(message);
  return {};
}

Value time_now(Machine& machine, const Arguments& arguments) {
  constexpr Signature kSignature{"strftime_now", {"format"}, 1};
  const Bound bound(machine, kSignature, arguments);
  const std::string format = bound.text(0, "");
  if (machine.failed() || format.empty()) return machine.text("");
  const std::time_t now = machine.now();
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return machine.fail("the clock has no local time");
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  if (size == 0) return machine.fail("strftime_now makes nothing, or too much, of its format");
  return machine.text(make_valid(std::string_view(buffer.data(), size)));
}

struct Function {
  std::string_view name;
  Value (*call)(Machine& machine, const Arguments& arguments);
};

constexpr std::array<Function, 5> kFunctions = {{
    {"range", make_range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"raise_exception", raise},
    {"strftime_now", time_now},
}};

const Function* find(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace

std::string_view find_function(std::string_view name) {
  const Function* found = find(name);
  return found == nullptr ? std::string_view() : found->name;
}

Value call_function(Machine& machine, std::string_view name, const Arguments& arguments) {
  const Function* found = find(name);
  NIBBLE_CHECK(found != nullptr);
  return found->call(machine, arguments);
}

}  // namespace nibble::text::jinja
