// Renders a program: statements write to the output, expressions make values.
//
//   Machine machine(limits, now);
//   Interpreter interpreter(machine);
//   interpreter.define("name", machine.text("you"));
//   const std::string text = interpreter.render(program);   // then ask machine.failed()
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/ast.h"
#include "text/jinja/machine.h"

namespace nibble::text::jinja {

// The variables of a block; names are those of the program, which outlives it.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool captured = false;  // a macro sees it, who may outlive its block

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

class Interpreter {
 public:
  explicit Interpreter(Machine& machine);

  // A variable of the whole template. `name` must outlive the interpreter.
  void define(std::string_view name, Value value);
  std::string render(const Program& program);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // A scope that lasts as long as a block of C++, or until the end where a macro saw it.
  class Block;

  Value evaluate(const Expression& node);
  Value look_up(std::string_view name);
  Value evaluate_list(const Expression& node);
  Value evaluate_dict(const Expression& node);
  Value evaluate_logic(const Expression& node);
  Value evaluate_compare(const Expression& node);
  Value evaluate_concat(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_filter(const Expression& node, const Value& input);
  Value evaluate_test(const Expression& node);
  Value evaluate_call(const Expression& node, const Value* caller);
  Arguments evaluate_arguments(const Expression& node);

  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const Callable& callable, Arguments arguments);
  bool bind_parameters(const Macro& macro, Arguments& arguments, Scope& scope);
  bool bind_rest(const Macro& macro, Arguments& arguments, Scope& scope);
  Value capture(const Macro& macro);

  Flow execute(const std::vector<Statement>& body);
  Flow execute_one(const Statement& statement);
  Flow execute_set_block(const Statement& statement);
  Flow execute_for(const Statement& statement);
  Flow execute_items(const Statement& statement, Loop& loop, bool& finished_one);
  Flow execute_if(const Statement& statement);
  Flow execute_with(const Statement& statement);
  Flow execute_filter_block(const Statement& statement);
  void write(std::string_view text);
  void assign(const Expression& target, Value value);
  // The body as text, in a scope of its own.
  Flow capture_body(const std::vector<Statement>& body, std::string& text);
  Value filtered(const std::vector<Expression>& filters, Value value);

  Machine& machine_;
  std::vector<std::unique_ptr<Scope>> kept_;  // captured scopes whose blocks have ended
  Scope root_;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
};

class Interpreter::Block {
 public:
  explicit Block(Interpreter& interpreter, Scope* parent);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Scope& scope() { return *scope_; }

 private:
  Interpreter& interpreter_;
  Scope* outer_ = nullptr;
  std::unique_ptr<Scope> scope_;
};

}  // namespace nibble::text::jinja
