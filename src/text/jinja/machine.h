// What one render may use up, and the first thing that went wrong in it. Work goes on with
// undefined values after a fault and ends at the next step, so that callers need not ask each time.
//
//   Machine machine({.max_steps = 1000});
//   Value value = machine.text("hello");
//   if (!machine.step()) return {};            // too much work, or a fault before
//   return machine.fail("no item {}", 3);      // keeps the first fault
#pragma once

#include <cstddef>
#include <ctime>
#include <deque>
#include <fmt/core.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace nibble::text::jinja {

struct Limits {
  std::size_t max_steps = 20'000'000;
  std::size_t max_made_bytes = std::size_t{512} << 20;   // of all values that a render makes
  std::size_t max_output_bytes = std::size_t{64} << 20;  // of one text
  int max_depth = 600;  // of the interpreter's own recursion: about 2 KB of stack each
};

class Machine {
 public:
  Machine(Limits limits, std::time_t now) : limits_(limits), now_(now) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Counts work; false when the render is to end.
  bool step(std::size_t amount = 1);
  bool failed() const { return fault_.has_value(); }
  const std::string& fault() const { return *fault_; }
  int fault_line() const { return fault_line_; }
  std::time_t now() const { return now_; }
  void set_line(int line) { line_ = line; }

  template <class... Args>
  Value fail(fmt::format_string<Args...> format, Args&&... args) {
    record(fmt::format(format, std::forward<Args>(args)...));
    return {};
  }
  // The template itself refuses what it was given.
  void raise(std::string message);
  bool raised() const { return raised_; }
  Value type_error(std::string_view what, const Value& value);

  Value text(std::string bytes, bool markup = false);
  Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), SequenceKind::kTuple); }
  // A later member replaces the value of an earlier one with the same key.
  Value mapping(std::vector<std::pair<Value, Value>> members);
  Value generator(std::vector<Value> items);
  Value undefined(std::string reason);
  Value method(std::string_view name, Value self);
  Namespace& new_namespace();
  Loop& new_loop();

  // Counts the work of looking for `wanted` bytes in `bytes`.
  bool can_search(std::size_t bytes, std::size_t wanted) {
    return step(bytes / 64 * (wanted / 64 + 1));
  }

  // Counts the work of asking whether a value equals others.
  bool can_compare(const Value& a, const Value& b) {
    return step(std::min(a.weight(), b.weight()) / 16);
  }

  // True when that many bytes may be made at once.
  bool can_make(std::size_t bytes);

  // The members of `value` in a vector, as Python's iter() goes through them.
  std::optional<std::vector<Value>> iterate(const Value& value);
  std::vector<Value> characters(const std::string& bytes);

  // Held while the interpreter goes one level deeper.
  class Level {
   public:
    explicit Level(Machine& machine) : machine_(machine) { ++machine_.depth_; }
    ~Level() { --machine_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool ok();

   private:
    Machine& machine_;
  };

 private:
  void record(std::string message);
  bool can_nest(int depth, std::size_t weight);

  Limits limits_;
  std::time_t now_ = 0;
  std::size_t steps_ = 0;
  std::size_t made_bytes_ = 0;
  int depth_ = 0;
  int line_ = 0;
  int fault_line_ = 0;
  bool raised_ = false;
  std::optional<std::string> fault_;
  std::deque<Namespace> namespaces_;  // these may hold each other: freed with the machine
  std::deque<Loop> loops_;
};

}  // namespace nibble::text::jinja
