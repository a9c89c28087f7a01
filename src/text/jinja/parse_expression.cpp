// The expressions of the grammar, each function one level of precedence, the loosest first.
#include <algorithm>

#include "base/text.h"
#include "text/jinja/parser.h"

namespace nibble::text::jinja {
namespace {

// Levels of an expression; the evaluator goes as deep.
constexpr int kMaxDepth = 120;

}  // namespace

Expression ExpressionParser::make(ExpressionKind kind, int line, std::vector<Expression> children) {
  Expression node;
  node.kind = kind;
  node.line = line;
  node.children = std::move(children);
  finish(node);
  return node;
}

// After its children are complete.
void ExpressionParser::finish(Expression& node) {
  int depth = 0;
  for (const Expression& child : node.children) depth = std::max(depth, child.depth);
  for (const auto& [name, child] : node.named) depth = std::max(depth, child.depth);
  node.depth = depth + 1;
  if (node.depth > kMaxDepth) {
    tokens_.fail(fmt::format("this expression is nested deeper than {} levels", kMaxDepth));
  }
}

Expression ExpressionParser::expression(bool conditional) {
  if (++depth_ > kMaxDepth) {
    tokens_.fail(fmt::format("this expression is nested deeper than {} levels", kMaxDepth));
  }
  Expression node = any_of();
  while (conditional && tokens_.at_name("if")) {
    const int line = tokens_.next().line;
    std::vector<Expression> children;
    children.push_back(std::move(node));
    children.push_back(any_of());
    children.push_back(tokens_.skip_name("else") ? expression() : Expression());
    node = make(ExpressionKind::kConditional, line, std::move(children));
  }
  --depth_;
  return node;
}

Expression ExpressionParser::any_of() {
  std::vector<Expression> children;
  const int line = tokens_.current().line;
  do {
    children.push_back(all_of());
  } while (tokens_.skip_name("or"));
  return children.size() == 1 ? std::move(children[0])
                              : make(ExpressionKind::kOr, line, std::move(children));
}

Expression ExpressionParser::all_of() {
  std::vector<Expression> children;
  const int line = tokens_.current().line;
  do {
    children.push_back(negation());
  } while (tokens_.skip_name("and"));
  return children.size() == 1 ? std::move(children[0])
                              : make(ExpressionKind::kAnd, line, std::move(children));
}

Expression ExpressionParser::negation() {
  int count = 0;
  const int line = tokens_.current().line;
  while (tokens_.skip_name("not")) ++count;
  Expression node = comparison();
  // Two negations make a bool; more only take turns.
  if (count > 2) count = 2 - count % 2;
  for (; count > 0; --count) {
    std::vector<Expression> children;
    children.push_back(std::move(node));
    node = make(ExpressionKind::kNot, line, std::move(children));
  }
  return node;
}

std::optional<std::string> ExpressionParser::comparison_operator() {
  for (const std::string_view name : {"==", "!=", "<", "<=", ">", ">="}) {
    if (tokens_.skip_operator(name)) return std::string(name);
  }
  if (tokens_.skip_name("in")) return "in";
  if (tokens_.at_name("not") && tokens_.ahead().kind == TokenKind::kName &&
      tokens_.ahead().text == "in") {
    tokens_.next();
    tokens_.next();
    return "not in";
  }
  return std::nullopt;
}

Expression ExpressionParser::comparison() {
  const int line = tokens_.current().line;
  std::vector<Expression> children;
  std::vector<std::string> operators;
  children.push_back(sum());
  while (auto name = comparison_operator()) {
    operators.push_back(std::move(*name));
    children.push_back(sum());
  }
  if (operators.empty()) return std::move(children[0]);
  Expression node = make(ExpressionKind::kCompare, line, std::move(children));
  node.operators = std::move(operators);
  return node;
}

Expression ExpressionParser::sum() {
  Expression node = concatenation();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const Token name = tokens_.next();
    std::vector<Expression> children;
    children.push_back(std::move(node));
    children.push_back(concatenation());
    node = make(ExpressionKind::kBinary, name.line, std::move(children));
    node.text = name.text;
  }
  return node;
}

Expression ExpressionParser::concatenation() {
  const int line = tokens_.current().line;
  std::vector<Expression> children;
  do {
    children.push_back(product());
  } while (tokens_.skip_operator("~"));
  return children.size() == 1 ? std::move(children[0])
                              : make(ExpressionKind::kConcat, line, std::move(children));
}

Expression ExpressionParser::product() {
  Expression node = power();
  while (tokens_.at_operator("*") || tokens_.at_operator("/") || tokens_.at_operator("//") ||
         tokens_.at_operator("%")) {
    const Token name = tokens_.next();
    std::vector<Expression> children;
    children.push_back(std::move(node));
    children.push_back(power());
    node = make(ExpressionKind::kBinary, name.line, std::move(children));
    node.text = name.text;
  }
  return node;
}

// From left to right, other than in Python; jinja2 has it so.
Expression ExpressionParser::power() {
  Expression node = unary(true);
  while (tokens_.at_operator("**")) {
    const Token name = tokens_.next();
    std::vector<Expression> children;
    children.push_back(std::move(node));
    children.push_back(unary(true));
    node = make(ExpressionKind::kBinary, name.line, std::move(children));
    node.text = name.text;
  }
  return node;
}

Expression ExpressionParser::unary(bool with_filter) {
  Expression node;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Token name = tokens_.next();
    if (++depth_ > kMaxDepth) tokens_.fail("too many signs follow each other");
    std::vector<Expression> children;
    children.push_back(unary(false));
    --depth_;
    node = make(ExpressionKind::kUnary, name.line, std::move(children));
    node.text = name.text;
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filter_expression(std::move(node)) : node;
}

Expression ExpressionParser::named_primary() {
  const Token token = tokens_.next();
  const std::string& name = token.text;
  Expression node = make(ExpressionKind::kConstant, token.line);
  if (name == "true" || name == "True") {
    node.constant = Value(true);
  } else if (name == "false" || name == "False") {
    node.constant = Value(false);
  } else if (name == "none" || name == "None") {
    node.constant = Value(None{});
  } else {
    node.kind = ExpressionKind::kName;
    node.text = name;
  }
  return node;
}

Expression ExpressionParser::primary() {
  const int line = tokens_.current().line;
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return named_primary();
    case TokenKind::kText: {
      std::string text;
      while (tokens_.at(TokenKind::kText)) text += tokens_.next().text;
      Expression node = make(ExpressionKind::kConstant, line);
      node.constant = Value::constant(std::move(text));
      return node;
    }
    case TokenKind::kInteger: {
      Expression node = make(ExpressionKind::kConstant, line);
      node.constant = Value(tokens_.next().integer);
      return node;
    }
    case TokenKind::kFloat: {
      Expression node = make(ExpressionKind::kConstant, line);
      node.constant = Value(tokens_.next().number);
      return node;
    }
    default:
      break;
  }
  if (tokens_.at_operator("[")) return list();
  if (tokens_.at_operator("{")) return dict();
  if (tokens_.skip_operator("(")) {
    Expression node = tuple(true, "()");
    tokens_.expect_operator(")");
    return node;
  }
  tokens_.fail("an expression is expected here");
  return {};
}

Expression ExpressionParser::list() {
  const int line = tokens_.next().line;
  std::vector<Expression> children;
  while (!tokens_.failed() && !tokens_.at_operator("]")) {
    if (!children.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    children.push_back(expression());
  }
  tokens_.expect_operator("]");
  return make(ExpressionKind::kList, line, std::move(children));
}

Expression ExpressionParser::dict() {
  const int line = tokens_.next().line;
  std::vector<Expression> children;
  while (!tokens_.failed() && !tokens_.at_operator("}")) {
    if (!children.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    children.push_back(expression());
    tokens_.expect_operator(":");
    children.push_back(expression());
  }
  tokens_.expect_operator("}");
  return make(ExpressionKind::kDict, line, std::move(children));
}

// `end`: the name before which the tuple ends; "()" for one in parentheses, which may be empty.
Expression ExpressionParser::tuple_of(bool simple, bool conditional, bool with_namespace,
                                      std::string_view end) {
  const int line = tokens_.current().line;
  const auto ended = [&] {
    return tokens_.at(TokenKind::kOutputEnd) || tokens_.at(TokenKind::kBlockEnd) ||
           tokens_.at_operator(")") || (!end.empty() && tokens_.at_name(end));
  };
  std::vector<Expression> children;
  bool is_tuple = false;
  while (!ended() && !tokens_.failed()) {
    children.push_back(simple ? target_primary(with_namespace) : expression(conditional));
    if (!tokens_.skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !children.empty()) return std::move(children[0]);
  if (!is_tuple && end != "()") tokens_.fail("an expression is expected here");
  return make(ExpressionKind::kTuple, line, std::move(children));
}

Expression ExpressionParser::tuple(bool conditional, std::string_view end) {
  return tuple_of(false, conditional, false, end);
}

}  // namespace nibble::text::jinja
