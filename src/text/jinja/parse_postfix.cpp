// What follows an expression: attributes, items, calls, filters, tests; and what can be assigned
// to.
#include "text/jinja/parser.h"

namespace nibble::text::jinja {

Expression ExpressionParser::postfix(Expression node) {
  while (true) {
    if (tokens_.at_operator(".") || tokens_.at_operator("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

Expression ExpressionParser::filter_expression(Expression node) {
  while (true) {
    if (tokens_.skip_operator("|")) {
      node = filter(std::move(node));
    } else if (tokens_.at_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

Expression ExpressionParser::subscript(Expression node) {
  const Token token = tokens_.next();
  if (token.text == "[") return subscribed(std::move(node));
  std::vector<Expression> children;
  children.push_back(std::move(node));
  if (tokens_.at(TokenKind::kInteger)) {
    Expression index = make(ExpressionKind::kConstant, token.line);
    index.constant = Value(tokens_.next().integer);
    children.push_back(std::move(index));
    return make(ExpressionKind::kItem, token.line, std::move(children));
  }
  Expression attribute = make(ExpressionKind::kAttribute, token.line, std::move(children));
  attribute.text = tokens_.expect_name();
  return attribute;
}

Expression ExpressionParser::subscribed(Expression node) {
  const int line = tokens_.current().line;
  Expression start;
  if (!tokens_.at_operator(":")) start = expression();
  if (tokens_.at_operator(":")) return slice(std::move(node), std::move(start));
  std::vector<Expression> children;
  children.push_back(std::move(node));
  children.push_back(std::move(start));
  tokens_.expect_operator("]");
  return make(ExpressionKind::kItem, line, std::move(children));
}

Expression ExpressionParser::slice(Expression node, Expression start) {
  const int line = tokens_.next().line;
  std::vector<Expression> children;
  children.push_back(std::move(node));
  children.push_back(std::move(start));
  const auto part = [&] {
    const bool given = !tokens_.at_operator(":") && !tokens_.at_operator("]");
    children.push_back(given ? expression() : Expression());
  };
  part();
  if (tokens_.skip_operator(":")) {
    part();
  } else {
    children.emplace_back();
  }
  tokens_.expect_operator("]");
  return make(ExpressionKind::kSlice, line, std::move(children));
}

void ExpressionParser::argument(Expression& node) {
  if (tokens_.at_operator("*") || tokens_.at_operator("**")) {
    tokens_.fail("arguments from a list or a mapping (* and **) are not supported");
  }
  const bool is_named = tokens_.at(TokenKind::kName) &&
                        tokens_.ahead().kind == TokenKind::kOperator && tokens_.ahead().text == "=";
  if (!is_named) {
    if (!node.named.empty()) tokens_.fail("an argument without a name follows one with a name");
    node.children.push_back(expression());
    return;
  }
  std::string name = tokens_.expect_name();
  tokens_.expect_operator("=");
  for (const auto& [other, value] : node.named) {
    if (other == name) tokens_.fail("this argument is given twice");
  }
  node.named.emplace_back(std::move(name), expression());
}

// ( ... ), appended to the children of `node`.
void ExpressionParser::arguments(Expression& node) {
  tokens_.expect_operator("(");
  bool first = true;
  while (!tokens_.failed() && !tokens_.at_operator(")")) {
    if (!first) tokens_.expect_operator(",");
    if (tokens_.at_operator(")")) break;
    argument(node);
    first = false;
  }
  tokens_.expect_operator(")");
  finish(node);
}

Expression ExpressionParser::call(Expression node) {
  std::vector<Expression> children;
  children.push_back(std::move(node));
  Expression made = make(ExpressionKind::kCall, tokens_.current().line, std::move(children));
  arguments(made);
  return made;
}

Expression ExpressionParser::filter(Expression input) {
  std::vector<Expression> children;
  children.push_back(std::move(input));
  Expression node = make(ExpressionKind::kFilter, tokens_.current().line, std::move(children));
  node.text = tokens_.expect_name();
  while (tokens_.skip_operator(".")) node.text += "." + tokens_.expect_name();
  if (tokens_.at_operator("(")) arguments(node);
  return node;
}

std::vector<Expression> ExpressionParser::filters() {
  std::vector<Expression> chain;
  while (tokens_.skip_operator("|")) chain.push_back(filter(Expression()));
  return chain;
}

Expression ExpressionParser::test(Expression node) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  std::vector<Expression> children;
  children.push_back(std::move(node));
  Expression made = make(ExpressionKind::kTest, line, std::move(children));
  made.text = tokens_.expect_name();
  while (tokens_.skip_operator(".")) made.text += "." + tokens_.expect_name();
  const bool literal = tokens_.at(TokenKind::kName) || tokens_.at(TokenKind::kText) ||
                       tokens_.at(TokenKind::kInteger) || tokens_.at(TokenKind::kFloat) ||
                       tokens_.at_operator("[") || tokens_.at_operator("{");
  if (tokens_.at_operator("(")) {
    arguments(made);
  } else if (literal && !tokens_.at_any_name({"else", "or", "and"})) {
    if (tokens_.at_name("is")) tokens_.fail("tests cannot follow each other");
    made.children.push_back(postfix(primary()));
    finish(made);
  }
  if (!negated) return made;
  children.clear();
  children.push_back(std::move(made));
  return make(ExpressionKind::kNot, line, std::move(children));
}

Expression ExpressionParser::target_primary(bool with_namespace) {
  const int line = tokens_.current().line;
  if (tokens_.skip_operator("(")) {
    if (++depth_ > 20) tokens_.fail("the names to assign to are nested too deeply");
    Expression inner = tuple_of(true, false, with_namespace, "()");
    --depth_;
    tokens_.expect_operator(")");
    return inner;
  }
  Expression node = make(ExpressionKind::kName, line);
  node.text = tokens_.expect_name();
  for (const std::string_view taken : {"true", "True", "false", "False", "none", "None"}) {
    if (node.text == taken) tokens_.fail_at(line, "this name cannot be assigned to");
  }
  if (with_namespace && tokens_.skip_operator(".")) {
    node.kind = ExpressionKind::kNamespaceMember;
    node.member = tokens_.expect_name();
  }
  return node;
}

Expression ExpressionParser::assign_target(bool with_namespace, std::string_view end) {
  // The tuple of a set ends before its "=", to which no comma leads.
  return tuple_of(true, false, with_namespace, end);
}

}  // namespace nibble::text::jinja
