// What a template computes with: the values of Python that a chat template meets. Lists, mappings
// and text never change once made, as the sandbox of jinja2 lets no template change them.
//
//   const Value numbers = machine.list({Value(1), Value(2)});
//   if (const Sequence* list = numbers.sequence()) use(list->items[0].integer());
//   numbers.truthy();      // true
//   numbers.type_name();   // "list"
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace nibble::text::jinja {

struct Sequence;
struct Mapping;
struct Generator;
struct Namespace;
struct Callable;
struct Loop;

struct Text {
  std::string bytes;    // valid UTF-8
  bool markup = false;  // went through the filters safe or escape: `+` escapes what it joins to it
};

struct None {};

// No value, and why: "'x' is undefined".
struct Undefined {
  std::shared_ptr<const std::string> reason;
};

class Value {
 public:
  Value() = default;  // undefined, for no particular reason
  explicit Value(None) : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(std::int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(Undefined value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Text> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Sequence> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Mapping> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<Generator> value) : data_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Callable> value) : data_(std::move(value)) {}
  explicit Value(Namespace* value) : data_(value) {}
  explicit Value(Loop* value) : data_(value) {}
  // Text that a program holds (constants); what a render makes goes through Machine.
  static Value constant(std::string text);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  // Of Python's type int, which True and False are as well.
  bool is_integral() const { return is_boolean() || std::holds_alternative<std::int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_text() const { return text() != nullptr; }
  bool is_markup() const { return is_text() && text()->markup; }

  // For values whose kind has been checked.
  bool boolean() const { return *std::get_if<bool>(&data_); }
  std::int64_t integer() const;  // of an integral value
  double number() const;         // of a number
  const std::string& bytes() const { return text()->bytes; }

  // nullptr where the value is of another kind.
  const Text* text() const { return shared<const Text>(); }
  const Sequence* sequence() const { return shared<const Sequence>(); }
  const Mapping* mapping() const { return shared<const Mapping>(); }
  Generator* generator() const { return shared<Generator>(); }
  const Callable* callable() const { return shared<const Callable>(); }
  Namespace* name_space() const { return plain<Namespace>(); }
  Loop* loop() const { return plain<Loop>(); }

  bool truthy() const;
  std::string_view type_name() const;  // Python's: "str", "list", "dict_items", ...
  std::string undefined_reason() const;

  // Levels of lists and mappings within, itself included; 0 for anything else.
  int depth() const;
  // Values within, itself included, those that stand in several places as often.
  std::size_t weight() const;

 private:
  template <class T>
  T* shared() const {
    const auto* found = std::get_if<std::shared_ptr<T>>(&data_);
    return found == nullptr ? nullptr : found->get();
  }
  template <class T>
  T* plain() const {
    T* const* found = std::get_if<T*>(&data_);
    return found == nullptr ? nullptr : *found;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Mapping>,
               std::shared_ptr<Generator>, std::shared_ptr<const Callable>, Namespace*, Loop*>
      data_;
};

enum class SequenceKind { kList, kTuple, kKeys, kValues, kItems, kRange };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;
  std::size_t weight = 1;
};

// A dict: members in the order of insertion, keys unique.
struct Mapping {
  std::vector<std::pair<Value, Value>> members;
  std::unordered_map<std::string_view, std::size_t> by_text;  // of the keys that are text
  int depth = 1;
  std::size_t weight = 1;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  // The place of a key among the members; their number where it is none of them.
  std::size_t position(const Value& key) const;
};

// What map, select and their like give: it can be gone through once, and has no length.
struct Generator {
  std::vector<Value> items;
  std::size_t next = 0;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> members;
};

struct Macro;
struct Scope;

// A macro and what it sees, a function of the environment (`name`), or a method `name` of `self`.
struct Callable {
  const Macro* macro = nullptr;
  std::string_view name;
  Value self;
  Scope* scope = nullptr;
};

// The variable `loop` of one loop. A loop with a condition asks for its next item when that is
// needed, since the body may change what the condition sees.
struct Loop {
  std::vector<Value> items;    // so far
  std::function<bool()> pull;  // appends to them; empty when there are no more
  std::size_t index = 0;       // from 0
  std::vector<Value> changed;
  bool has_changed = false;

  bool has(std::size_t wanted);
  std::size_t size();
};

// Python's ==, which never fails.
bool equal(const Value& a, const Value& b);

}  // namespace nibble::text::jinja
