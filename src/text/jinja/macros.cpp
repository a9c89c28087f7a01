// Macros and what they see (text/jinja/interpreter.h).
#include <algorithm>

#include "text/jinja/interpreter.h"

namespace nibble::text::jinja {

Interpreter::Block::Block(Interpreter& interpreter, Scope* parent)
    : interpreter_(interpreter), outer_(interpreter.scope_), scope_(std::make_unique<Scope>()) {
  scope_->parent = parent;
  interpreter_.scope_ = scope_.get();
}

Interpreter::Block::~Block() {
  interpreter_.scope_ = outer_;
  if (scope_->captured) interpreter_.kept_.push_back(std::move(scope_));
}

// The macro with all that it sees from here.
Value Interpreter::capture(const Macro& macro) {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
    scope->captured = true;
  }
  return Value(std::make_shared<const Callable>(Callable{&macro, macro.name, {}, scope_}));
}

bool Interpreter::bind_parameters(const Macro& macro, Arguments& arguments, Scope& scope) {
  const std::size_t first_default = macro.parameters.size() - macro.defaults.size();
  for (std::size_t index = 0; index < macro.parameters.size(); ++index) {
    const std::string& name = macro.parameters[index];
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&name](const auto& one) { return one.first == name; });
    if (index < arguments.positional.size()) {
      scope.set(name, arguments.positional[index]);
    } else if (named != arguments.named.end()) {
      scope.set(name, std::move(named->second));
      arguments.named.erase(named);
    } else if (index >= first_default) {
      scope.set(name, evaluate(macro.defaults[index - first_default]));
    } else {
      scope.set(name, machine_.undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
  return !machine_.failed();
}

// What is left behind the parameters.
bool Interpreter::bind_rest(const Macro& macro, Arguments& arguments, Scope& scope) {
  if (macro.uses_caller) {
    const auto caller = std::find_if(arguments.named.begin(), arguments.named.end(),
                                     [](const auto& one) { return one.first == "caller"; });
    const bool given = caller != arguments.named.end();
    scope.set("caller", given ? caller->second : machine_.undefined("No caller defined"));
    if (given) arguments.named.erase(caller);
  }
  if (macro.uses_kwargs) {
    std::vector<std::pair<Value, Value>> members;
    for (auto& [name, value] : arguments.named) {
      members.emplace_back(machine_.text(name), std::move(value));
    }
    scope.set("kwargs", machine_.mapping(std::move(members)));
  } else if (!arguments.named.empty()) {
    machine_.fail("the macro {} takes no argument of the name {}", macro.name,
                  arguments.named.front().first);
  }
  const std::size_t count = std::min(macro.parameters.size(), arguments.positional.size());
  std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                          arguments.positional.end());
  if (macro.uses_varargs) {
    scope.set("varargs", machine_.tuple(std::move(rest)));
  } else if (!rest.empty()) {
    machine_.fail("the macro {} takes at most {} arguments", macro.name, macro.parameters.size());
  }
  return !machine_.failed();
}

Value Interpreter::call_macro(const Callable& callable, Arguments arguments) {
  Machine::Level level(machine_);
  if (!level.ok()) return {};
  const Macro& macro = *callable.macro;
  Block block(*this, callable.scope);
  // Defaults may read parameters before them, and caller.
  if (!bind_parameters(macro, arguments, block.scope())) return {};
  if (!bind_rest(macro, arguments, block.scope())) return {};
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  execute(macro.body);
  out_ = outer;
  return machine_.text(std::move(text));
}

}  // namespace nibble::text::jinja
