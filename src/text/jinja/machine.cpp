#include "text/jinja/machine.h"

#include "base/utf8.h"

namespace nibble::text::jinja {
namespace {

// Lists within lists; the reader of JSON allows 100.
constexpr int kMaxNesting = 150;
// Lists that hold a list twice, which holds a list twice, ... would take for ever to compare.
constexpr std::size_t kMaxWeight = std::size_t{1} << 24;

}  // namespace

bool Machine::step(std::size_t amount) {
  if (failed()) return false;
  steps_ += amount;
  if (steps_ <= limits_.max_steps) return true;
  fail("the template takes more than {} steps", limits_.max_steps);
  return false;
}

bool Machine::can_make(std::size_t bytes) {
  if (failed()) return false;
  if (bytes > limits_.max_output_bytes) {
    fail("the template makes a text of more than {} bytes", limits_.max_output_bytes);
    return false;
  }
  if (made_bytes_ + bytes > limits_.max_made_bytes) {
    fail("the template makes more than {} bytes", limits_.max_made_bytes);
    return false;
  }
  return true;
}

void Machine::record(std::string message) {
  if (failed()) return;
  fault_ = std::move(message);
  fault_line_ = line_;
}

void Machine::raise(std::string message) {
  if (failed()) return;
  record(std::move(message));
  raised_ = true;
}

Value Machine::type_error(std::string_view what, const Value& value) {
  if (value.is_undefined()) return fail("{}", value.undefined_reason());
  return fail("{} does not take a value of type {}", what, value.type_name());
}

Value Machine::text(std::string bytes, bool markup) {
  if (!can_make(bytes.size() + sizeof(Text))) return {};
  made_bytes_ += bytes.size() + sizeof(Text);
  return Value(std::make_shared<const Text>(Text{std::move(bytes), markup}));
}

Value Machine::list(std::vector<Value> items, SequenceKind kind) {
  const std::size_t size = sizeof(Sequence) + items.size() * sizeof(Value);
  if (!can_make(size)) return {};
  made_bytes_ += size;
  int depth = 1;
  std::size_t weight = 1;
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
    weight += item.weight();
  }
  if (!can_nest(depth, weight)) return {};
  return Value(std::make_shared<const Sequence>(Sequence{kind, std::move(items), depth, weight}));
}

bool Machine::can_nest(int depth, std::size_t weight) {
  if (depth > kMaxNesting) fail("values are nested deeper than {} levels", kMaxNesting);
  if (weight > kMaxWeight) fail("one value holds more than {} others", kMaxWeight);
  return !failed();
}

Value Machine::mapping(std::vector<std::pair<Value, Value>> members) {
  const std::size_t size = sizeof(Mapping) + members.size() * 4 * sizeof(Value);
  if (!can_make(size)) return {};
  made_bytes_ += size;
  auto made = std::make_shared<Mapping>();
  for (auto& [key, value] : members) {
    if (!step()) return {};
    made->depth = std::max({made->depth, key.depth() + 1, value.depth() + 1});
    made->weight += key.weight() + value.weight();
    if (const std::size_t found = made->position(key); found < made->members.size()) {
      made->members[found].second = std::move(value);
      continue;
    }
    const bool is_text = key.is_text();
    if (!is_text && !step(made->members.size() - made->by_text.size())) return {};
    made->members.emplace_back(std::move(key), std::move(value));
    if (!is_text) continue;
    made->by_text.emplace(made->members.back().first.bytes(), made->members.size() - 1);
  }
  if (!can_nest(made->depth, made->weight)) return {};
  return Value(std::shared_ptr<const Mapping>(std::move(made)));
}

Value Machine::generator(std::vector<Value> items) {
  // A generator of generators of ... would be freed recursively.
  for (const Value& item : items) {
    if (item.generator() != nullptr) return fail("a generator cannot hold generators here");
  }
  const Value holder = list(std::move(items));
  if (failed()) return {};
  return Value(std::make_shared<Generator>(Generator{holder.sequence()->items, 0}));
}

Value Machine::undefined(std::string reason) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
}

Value Machine::method(std::string_view name, Value self) {
  return Value(std::make_shared<const Callable>(Callable{nullptr, name, std::move(self)}));
}

Namespace& Machine::new_namespace() {
  made_bytes_ += sizeof(Namespace);
  return namespaces_.emplace_back();
}

Loop& Machine::new_loop() {
  made_bytes_ += sizeof(Loop);
  return loops_.emplace_back();
}

std::vector<Value> Machine::characters(const std::string& bytes) {
  std::vector<Value> items;
  if (!can_make(bytes.size() * sizeof(Text))) return items;
  for (std::size_t at = 0; at < bytes.size() && step();) {
    const std::size_t start = at;
    static_cast<void>(next_character(bytes, at));
    items.push_back(text(bytes.substr(start, at - start)));
  }
  return items;
}

std::optional<std::vector<Value>> Machine::iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const Sequence* sequence = value.sequence()) {
    items = sequence->items;
  } else if (const Mapping* members = value.mapping()) {
    items.reserve(members->members.size());
    for (const auto& member : members->members) items.push_back(member.first);
  } else if (value.is_text()) {
    items = characters(value.bytes());
  } else if (Generator* generator = value.generator()) {
    const auto offset = static_cast<std::ptrdiff_t>(generator->next);
    items.assign(generator->items.begin() + offset, generator->items.end());
    generator->next = generator->items.size();
  } else {
    fail("a value of type {} cannot be gone through", value.type_name());
    return std::nullopt;
  }
  if (!step(items.size() / 8)) return std::nullopt;
  return items;
}

bool Machine::Level::ok() {
  if (machine_.depth_ <= machine_.limits_.max_depth) return !machine_.failed();
  machine_.fail("the template calls itself, or nests, too deeply");
  return false;
}

}  // namespace nibble::text::jinja
