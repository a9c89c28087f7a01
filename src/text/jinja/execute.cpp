// The statements (text/jinja/interpreter.h).
#include "text/jinja/interpreter.h"
#include "text/jinja/printing.h"

namespace nibble::text::jinja {

std::string Interpreter::render(const Program& program) {
  std::string text;
  out_ = &text;
  execute(program.body);
  out_ = nullptr;
  return text;
}

void Interpreter::write(std::string_view text) {
  if (machine_.can_make(out_->size() + text.size())) *out_ += text;
}

Interpreter::Flow Interpreter::execute(const std::vector<Statement>& body) {
  Machine::Level level(machine_);
  if (!level.ok()) return Flow::kNext;
  for (const Statement& statement : body) {
    if (!machine_.step()) return Flow::kNext;
    const Flow flow = execute_one(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_one(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kData:
      write(statement.text);
      return Flow::kNext;
    case StatementKind::kOutput:
      for (const Expression& value : statement.values) write(print(machine_, evaluate(value)));
      return Flow::kNext;
    case StatementKind::kSet:
      assign(statement.target, evaluate(statement.values[0]));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      return execute_set_block(statement);
    case StatementKind::kFor:
      return execute_for(statement);
    case StatementKind::kIf:
      return execute_if(statement);
    case StatementKind::kMacro:
      scope_->set(statement.macro->name, capture(*statement.macro));
      return Flow::kNext;
    case StatementKind::kCall: {
      const Value caller = capture(*statement.macro);
      write(print(machine_, evaluate_call(statement.values[0], &caller)));
      return Flow::kNext;
    }
    case StatementKind::kFilterBlock:
      return execute_filter_block(statement);
    case StatementKind::kWith:
      return execute_with(statement);
    case StatementKind::kScope: {
      Block block(*this, scope_);
      return execute(statement.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::assign(const Expression& target, Value value) {
  if (machine_.failed()) return;
  machine_.set_line(target.line);
  if (target.kind == ExpressionKind::kName) {
    scope_->set(target.text, std::move(value));
    return;
  }
  if (target.kind == ExpressionKind::kNamespaceMember) {
    Namespace* space = look_up(target.text).name_space();
    if (space == nullptr) {
      machine_.fail("{} is no namespace, so that its member cannot be set", target.text);
      return;
    }
    space->members.insert_or_assign(target.member, std::move(value));
    return;
  }
  auto items = machine_.iterate(value);
  if (!items) return;
  if (items->size() != target.children.size()) {
    machine_.fail("{} values are assigned to {} names", items->size(), target.children.size());
    return;
  }
  for (std::size_t index = 0; index < items->size(); ++index) {
    assign(target.children[index], std::move((*items)[index]));
  }
}

Interpreter::Flow Interpreter::capture_body(const std::vector<Statement>& body, std::string& text) {
  Block block(*this, scope_);
  std::string* const outer = std::exchange(out_, &text);
  const Flow flow = execute(body);
  out_ = outer;
  return flow;
}

Value Interpreter::filtered(const std::vector<Expression>& filters, Value value) {
  for (const Expression& filter : filters) value = evaluate_filter(filter, value);
  return value;
}

Interpreter::Flow Interpreter::execute_set_block(const Statement& statement) {
  std::string text;
  const Flow flow = capture_body(statement.body, text);
  if (flow != Flow::kNext) return flow;
  assign(statement.target, filtered(statement.filters, machine_.text(std::move(text))));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter_block(const Statement& statement) {
  std::string text;
  const Flow flow = capture_body(statement.body, text);
  if (flow != Flow::kNext) return flow;
  const Value value = filtered(statement.filters, machine_.text(std::move(text)));
  write(print(machine_, value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    const bool taken = evaluate(branch.condition).truthy();
    if (machine_.failed()) return Flow::kNext;
    if (taken) return execute(branch.body);
  }
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  std::vector<Value> values;
  for (const Expression& value : statement.values) values.push_back(evaluate(value));
  Block block(*this, scope_);
  for (std::size_t index = 0; index < values.size(); ++index) {
    assign(statement.targets[index], std::move(values[index]));
  }
  return execute(statement.body);
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement) {
  auto source = machine_.iterate(evaluate(statement.values[0]));
  if (!source || machine_.failed()) return Flow::kNext;
  Loop& loop = machine_.new_loop();
  std::size_t next = 0;
  Scope* const outer = scope_;
  if (statement.values.size() == 1) {
    loop.items = std::move(*source);
  } else {
    loop.pull = [this, &statement, &source, &next, &loop, outer] {
      while (next < source->size() && machine_.step()) {
        Value& candidate = (*source)[next++];
        Block block(*this, outer);
        assign(statement.target, candidate);
        if (!evaluate(statement.values[1]).truthy()) continue;
        loop.items.push_back(candidate);
        return true;
      }
      return false;
    };
  }
  bool finished_one = false;
  const Flow flow = execute_items(statement, loop, finished_one);
  loop.pull = nullptr;
  // As jinja2 does: also when every turn was left by break or continue.
  if (flow != Flow::kNext || finished_one) return flow;
  Block block(*this, scope_);
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::execute_items(const Statement& statement, Loop& loop,
                                             bool& finished_one) {
  for (std::size_t index = 0; loop.has(index) && machine_.step(); ++index) {
    loop.index = index;
    Block block(*this, scope_);
    block.scope().set("loop", Value(&loop));
    const Value current = loop.items[index];
    assign(statement.target, current);
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) finished_one = true;
  }
  return Flow::kNext;
}

}  // namespace nibble::text::jinja
