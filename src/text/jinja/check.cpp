#include "text/jinja/check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "text/jinja/filters.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"

namespace nibble::text::jinja {
namespace {

// Goes through all statements and expressions; `visit` sees each expression once.
template <class Visit>
class Walk {
 public:
  explicit Walk(Visit visit) : visit_(std::move(visit)) {}

  void expression(const Expression& node) {
    visit_(node);
    for (const Expression& child : node.children) expression(child);
    for (const auto& [name, child] : node.named) expression(child);
  }

  void statements(const std::vector<Statement>& body) {
    for (const Statement& one : body) statement(one);
  }

  void macro(const Macro& macro) {
    for (const Expression& one : macro.defaults) expression(one);
    statements(macro.body);
  }

 private:
  void statement(const Statement& one) {
    expression(one.target);
    for (const Expression& node : one.targets) expression(node);
    for (const Expression& node : one.values) expression(node);
    for (const Expression& node : one.filters) expression(node);
    for (const Branch& branch : one.branches) {
      expression(branch.condition);
      statements(branch.body);
    }
    statements(one.body);
    statements(one.otherwise);
    if (one.macro != nullptr) macro(*one.macro);
  }

  Visit visit_;
};

using Names = std::set<std::string, std::less<>>;

// Names that a template gives a value to, wherever it does.
class Definitions {
 public:
  Names names;
  Names members;  // of namespaces

  void statements(std::vector<Statement>& body) {
    for (Statement& one : body) statement(one);
  }

 private:
  void target(const Expression& node) {
    if (node.kind == ExpressionKind::kName) names.insert(node.text);
    if (node.kind == ExpressionKind::kNamespaceMember) members.insert(node.member);
    for (const Expression& child : node.children) target(child);
  }

  void macro(Macro& made) {
    names.insert(made.name);
    names.insert(made.parameters.begin(), made.parameters.end());
    Walk walk([&made](const Expression& node) {
      if (node.kind != ExpressionKind::kName) return;
      const bool own = std::count(made.parameters.begin(), made.parameters.end(), node.text) > 0;
      if (own) return;
      made.uses_caller = made.uses_caller || node.text == "caller";
      made.uses_varargs = made.uses_varargs || node.text == "varargs";
      made.uses_kwargs = made.uses_kwargs || node.text == "kwargs";
    });
    walk.macro(made);
    statements(made.body);
  }

  void statement(Statement& one) {
    target(one.target);
    for (const Expression& node : one.targets) target(node);
    for (Branch& branch : one.branches) statements(branch.body);
    statements(one.body);
    statements(one.otherwise);
    if (one.macro != nullptr) macro(*one.macro);
  }
};

class Checker {
 public:
  Checker(const Program& program, const Definitions& known) : program_(program), known_(known) {}

  Result<> run() {
    Walk walk([this](const Expression& node) { check(node); });
    walk.statements(program_.body);
    if (error_) return *error_;
    return {};
  }

 private:
  void refuse(const Expression& node, std::string_view what, std::string_view name) {
    if (error_) return;
    error_ = input_error("{}, line {}: the {} {} is not supported", program_.where, node.line, what,
                         printable(name));
  }

  void check(const Expression& node) {
    switch (node.kind) {
      case ExpressionKind::kFilter:
        if (find_filter(node.text) == nullptr) refuse(node, "filter", node.text);
        return check_named(node);
      case ExpressionKind::kTest:
        if (find_test(node.text) == nullptr) refuse(node, "test", node.text);
        return;
      case ExpressionKind::kCall:
        return check_call(node);
      default:
        return;
    }
  }

  // map("upper"), select("odd"), selectattr("role", "equalto", ...): the name in quotes.
  void check_named(const Expression& node) {
    const bool by_attribute = node.text == "selectattr" || node.text == "rejectattr";
    const bool by_test = by_attribute || node.text == "select" || node.text == "reject";
    if (!by_test && node.text != "map") return;
    const std::size_t place = by_attribute ? 2 : 1;  // behind the input
    if (node.children.size() <= place) return;
    const Value& name = node.children[place].constant;
    if (!name.is_text()) return;
    if (by_test && find_test(name.bytes()) == nullptr) refuse(node, "test", name.bytes());
    if (!by_test && find_filter(name.bytes()) == nullptr) refuse(node, "filter", name.bytes());
  }

  void check_call(const Expression& node) {
    const Expression& called = node.children[0];
    if (called.kind == ExpressionKind::kName) {
      const bool known = known_.names.count(called.text) > 0 || called.text == "caller" ||
                         !find_function(called.text).empty();
      if (!known) refuse(node, "function", called.text);
    } else if (called.kind == ExpressionKind::kAttribute) {
      const bool known = known_.members.count(called.text) > 0 || is_method_name(called.text);
      if (!known) refuse(node, "method", called.text);
    }
  }

  const Program& program_;
  const Definitions& known_;
  std::optional<Error> error_;
};

}  // namespace

Result<> check_program(Program& program) {
  Definitions known;
  known.statements(program.body);
  return Checker(program, known).run();
}

}  // namespace nibble::text::jinja
