// The expressions; statements are in execute.cpp, macros in macros.cpp.
#include "text/jinja/interpreter.h"

#include "base/check.h"
#include "text/jinja/filters.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace nibble::text::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const auto& [other, value] : variables) {
    if (other == name) return &value;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [other, old] : variables) {
    if (other != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(Machine& machine) : machine_(machine), scope_(&root_) {}

void Interpreter::define(std::string_view name, Value value) {
  root_.set(name, std::move(value));
}

Value Interpreter::evaluate(const Expression& node) {
  Machine::Level level(machine_);
  if (!machine_.step() || !level.ok()) return {};
  machine_.set_line(node.line);
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return look_up(node.text);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_list(node);
    case ExpressionKind::kDict:
      return evaluate_dict(node);
    case ExpressionKind::kAttribute:
      return attribute(machine_, evaluate(node.children[0]), node.text);
    case ExpressionKind::kItem: {
      const Value object = evaluate(node.children[0]);
      return item(machine_, object, evaluate(node.children[1]));
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(node);
    case ExpressionKind::kCall:
      return evaluate_call(node, nullptr);
    case ExpressionKind::kFilter:
      return evaluate_filter(node, evaluate(node.children[0]));
    case ExpressionKind::kTest:
      return evaluate_test(node);
    case ExpressionKind::kNot:
      return Value(!evaluate(node.children[0]).truthy());
    case ExpressionKind::kUnary:
      return unary(machine_, node.text, evaluate(node.children[0]));
    case ExpressionKind::kBinary: {
      const Value left = evaluate(node.children[0]);
      return binary(machine_, node.text, left, evaluate(node.children[1]));
    }
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kNamespaceMember:  // stands only where something is assigned
    case ExpressionKind::kAbsent:
      return {};
    default:
      return evaluate_logic(node);
  }
}

Value Interpreter::look_up(std::string_view name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* found = scope->find(name)) return *found;
  }
  if (const std::string_view function = find_function(name); !function.empty()) {
    return machine_.method(function, {});
  }
  return machine_.undefined(fmt::format("'{}' is undefined", name));
}

Value Interpreter::evaluate_list(const Expression& node) {
  std::vector<Value> items;
  items.reserve(node.children.size());
  for (const Expression& child : node.children) items.push_back(evaluate(child));
  if (machine_.failed()) return {};
  const bool is_list = node.kind == ExpressionKind::kList;
  return machine_.list(std::move(items), is_list ? SequenceKind::kList : SequenceKind::kTuple);
}

Value Interpreter::evaluate_dict(const Expression& node) {
  std::vector<std::pair<Value, Value>> members;
  for (std::size_t index = 0; index + 1 < node.children.size(); index += 2) {
    Value key = evaluate(node.children[index]);
    const bool fits = key.is_text() || key.is_number() || key.is_none();
    if (!fits) return machine_.type_error("the key of a mapping", key);
    members.emplace_back(std::move(key), evaluate(node.children[index + 1]));
  }
  if (machine_.failed()) return {};
  return machine_.mapping(std::move(members));
}

Value Interpreter::evaluate_logic(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      Value value;
      for (const Expression& child : node.children) {
        value = evaluate(child);
        if (value.truthy() == (node.kind == ExpressionKind::kOr)) break;
      }
      return value;
    }
    case ExpressionKind::kConditional:
      if (evaluate(node.children[1]).truthy()) return evaluate(node.children[0]);
      if (node.children[2].kind != ExpressionKind::kAbsent) return evaluate(node.children[2]);
      return machine_.undefined("an inline if was false and has no else");
    default:
      return evaluate_compare(node);
  }
}

Value Interpreter::evaluate_compare(const Expression& node) {
  Value left = evaluate(node.children[0]);
  for (std::size_t index = 0; index < node.operators.size(); ++index) {
    Value right = evaluate(node.children[index + 1]);
    if (machine_.failed()) return {};
    if (!compare(machine_, node.operators[index], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Expression& node) {
  std::string text;
  for (const Expression& child : node.children) {
    text += print(machine_, evaluate(child));
    if (!machine_.can_make(text.size())) return {};
  }
  return machine_.text(std::move(text));
}

Value Interpreter::evaluate_slice(const Expression& node) {
  const Value object = evaluate(node.children[0]);
  std::vector<Value> parts;
  for (std::size_t index = 1; index < 4; ++index) {
    const bool given = node.children[index].kind != ExpressionKind::kAbsent;
    parts.push_back(given ? evaluate(node.children[index]) : Value(None{}));
    if (parts.back().is_undefined()) return machine_.type_error("a slice", parts.back());
  }
  return slice(machine_, object, parts[0], parts[1], parts[2]);
}

Arguments Interpreter::evaluate_arguments(const Expression& node) {
  Arguments arguments;
  for (std::size_t index = 1; index < node.children.size(); ++index) {
    arguments.positional.push_back(evaluate(node.children[index]));
  }
  for (const auto& [name, child] : node.named) {
    arguments.named.emplace_back(name, evaluate(child));
  }
  return arguments;
}

Value Interpreter::evaluate_filter(const Expression& node, const Value& input) {
  const Arguments arguments = evaluate_arguments(node);
  if (machine_.failed()) return {};
  machine_.set_line(node.line);
  const Filter* filter = find_filter(node.text);
  NIBBLE_CHECK(filter != nullptr);  // check_program has looked
  return apply(machine_, *filter, input, arguments);
}

Value Interpreter::evaluate_test(const Expression& node) {
  const Value value = evaluate(node.children[0]);
  const Arguments arguments = evaluate_arguments(node);
  if (machine_.failed()) return {};
  const Test* test = find_test(node.text);
  NIBBLE_CHECK(test != nullptr);  // check_program has looked
  return Value(holds(machine_, *test, value, arguments));
}

Value Interpreter::evaluate_call(const Expression& node, const Value* caller) {
  const Value callee = evaluate(node.children[0]);
  Arguments arguments = evaluate_arguments(node);
  if (machine_.failed()) return {};
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  machine_.set_line(node.line);
  return call(callee, std::move(arguments));
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  const Callable* callable = callee.callable();
  if (callable == nullptr) return machine_.type_error("a call", callee);
  if (callable->macro != nullptr) return call_macro(*callable, std::move(arguments));
  if (callable->self.is_undefined()) {
    return call_function(machine_, callable->name, arguments);
  }
  return call_method(machine_, *callable, arguments);
}

}  // namespace nibble::text::jinja
