// Reads a template into statements and expressions by the grammar of jinja2 with the extension
// loopcontrols and the {% generation %} blocks of transformers; refuses what the interpreter does
// not do, with the line.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Program program, parse_program(source, "chat_template.jinja"));
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace nibble::text::jinja {

Result<Program> parse_program(std::string_view source, std::string_view where);

// The tokens and the first fault; after a fault only kEnd comes, so that every loop ends.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, std::string_view where);

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_operator(std::string_view text) const;
  bool at_name(std::string_view text) const;
  bool at_any_name(std::initializer_list<std::string_view> names) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect(TokenKind kind, std::string_view description);

  void fail(std::string_view what) { fail_at(current().line, what); }
  void fail_at(int line, std::string_view what);
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::string where_;
  std::optional<Error> error_;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Expression expression(bool conditional = true);
  // `a, b` is a tuple; ends before a name `end`.
  Expression tuple(bool conditional, std::string_view end = "");
  Expression assign_target(bool with_namespace, std::string_view end = "");
  // A chain of filters (`| trim | upper`) around kAbsent, innermost first.
  std::vector<Expression> filters();
  Expression filter(Expression input);  // at the name of the filter
  Expression make(ExpressionKind kind, int line, std::vector<Expression> children = {});

 private:
  Expression any_of();
  Expression all_of();
  Expression negation();
  Expression comparison();
  std::optional<std::string> comparison_operator();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  Expression unary(bool with_filter);
  Expression primary();
  Expression named_primary();
  Expression list();
  Expression dict();
  Expression postfix(Expression node);
  Expression subscript(Expression node);
  Expression subscribed(Expression node);
  Expression slice(Expression node, Expression start);
  Expression call(Expression node);
  Expression filter_expression(Expression node);
  Expression test(Expression node);
  void arguments(Expression& node);
  void argument(Expression& node);
  Expression tuple_of(bool simple, bool conditional, bool with_namespace, std::string_view end);
  Expression target_primary(bool with_namespace);
  void finish(Expression& node);

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace nibble::text::jinja
