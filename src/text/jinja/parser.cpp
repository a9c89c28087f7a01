#include "text/jinja/parser.h"

#include <algorithm>

#include "base/text.h"
#include "text/jinja/check.h"

namespace nibble::text::jinja {
namespace {

// Blocks within blocks.
constexpr int kMaxNesting = 60;

class StatementParser {
 public:
  StatementParser(TokenStream& tokens, ExpressionParser& expressions)
      : tokens_(tokens), expressions_(expressions) {}

  std::vector<Statement> program() {
    std::vector<Statement> body = statements({});
    if (!tokens_.failed() && !tokens_.at(TokenKind::kEnd)) {
      tokens_.fail("this block closes none that is open");
    }
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Up to a tag of one of the names `ends`, whose "{%" is taken and whose name is not.
  std::vector<Statement> statements(Names ends) {
    std::vector<Statement> body;
    if (++nesting_ > kMaxNesting) tokens_.fail("blocks are nested too deeply");
    const int line = tokens_.current().line;
    while (!tokens_.at(TokenKind::kEnd)) {
      if (tokens_.at(TokenKind::kData)) {
        body.push_back(data());
      } else if (tokens_.at(TokenKind::kOutputBegin)) {
        body.push_back(output());
      } else {
        tokens_.expect(TokenKind::kBlockBegin, "a block");
        if (tokens_.at_any_name(ends)) break;
        body.push_back(statement());
        tokens_.expect(TokenKind::kBlockEnd, "the end of the block (%})");
      }
    }
    --nesting_;
    if (ends.size() > 0 && tokens_.at(TokenKind::kEnd)) {
      tokens_.fail_at(
          line, fmt::format("the block that starts here has no {{% {} %}}", *(ends.end() - 1)));
    }
    return body;
  }

  // The rest of an opening tag, then statements.
  std::vector<Statement> block(Names ends) {
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::kBlockEnd, "the end of the block (%})");
    return statements(ends);
  }

  // A block with a single end, which is taken.
  std::vector<Statement> whole_block(std::string_view end) {
    std::vector<Statement> body = block({end});
    tokens_.skip_name(end);
    return body;
  }

  Statement begin(StatementKind kind) const {
    Statement made;
    made.kind = kind;
    made.line = tokens_.current().line;
    return made;
  }

  Statement data() {
    Statement made = begin(StatementKind::kData);
    made.text = tokens_.next().text;
    return made;
  }

  Statement output() {
    Statement made = begin(StatementKind::kOutput);
    tokens_.next();
    made.values.push_back(expressions_.tuple(true));
    tokens_.expect(TokenKind::kOutputEnd, "the end of the expression (}})");
    return made;
  }

  Statement statement() {
    if (tokens_.skip_name("set")) return set();
    if (tokens_.skip_name("for")) return for_loop();
    if (tokens_.skip_name("if")) return condition();
    if (tokens_.skip_name("macro")) return macro();
    if (tokens_.skip_name("call")) return call();
    if (tokens_.skip_name("filter")) return filter_block();
    if (tokens_.skip_name("with")) return with();
    if (tokens_.skip_name("generation")) return generation();
    if (tokens_.skip_name("print")) return print();
    if (tokens_.at_any_name({"break", "continue"})) return jump();
    tokens_.fail(fmt::format("the block {{% {} %}} is not supported here",
                             printable(tokens_.current().text)));
    return {};
  }

  Statement set() {
    Statement made = begin(StatementKind::kSet);
    made.target = expressions_.assign_target(true);
    if (tokens_.skip_operator("=")) {
      made.values.push_back(expressions_.tuple(true));
      return made;
    }
    made.kind = StatementKind::kSetBlock;
    made.filters = expressions_.filters();
    made.body = whole_block("endset");
    return made;
  }

  Statement for_loop() {
    Statement made = begin(StatementKind::kFor);
    made.target = expressions_.assign_target(false, "in");
    if (!tokens_.skip_name("in")) tokens_.fail("\"in\" is expected here");
    made.values.push_back(expressions_.tuple(false, "recursive"));
    if (tokens_.skip_name("if")) made.values.push_back(expressions_.expression());
    if (tokens_.at_name("recursive")) tokens_.fail("recursive loops are not supported");
    ++loops_;
    made.body = block({"else", "endfor"});
    --loops_;
    if (tokens_.skip_name("else")) made.otherwise = block({"endfor"});
    tokens_.skip_name("endfor");
    return made;
  }

  Statement condition() {
    Statement made = begin(StatementKind::kIf);
    do {
      Branch branch;
      branch.condition = expressions_.tuple(false);
      branch.body = block({"elif", "else", "endif"});
      made.branches.push_back(std::move(branch));
    } while (tokens_.skip_name("elif"));
    if (tokens_.skip_name("else")) made.otherwise = block({"endif"});
    tokens_.skip_name("endif");
    return made;
  }

  void signature(Macro& made) {
    tokens_.expect_operator("(");
    while (!tokens_.failed() && !tokens_.at_operator(")")) {
      if (!made.parameters.empty()) tokens_.expect_operator(",");
      std::string name = tokens_.expect_name();
      if (std::count(made.parameters.begin(), made.parameters.end(), name) > 0) {
        tokens_.fail("this parameter is given twice");
      }
      made.parameters.push_back(std::move(name));
      if (tokens_.skip_operator("=")) {
        made.defaults.push_back(expressions_.expression());
      } else if (!made.defaults.empty()) {
        tokens_.fail("a parameter without a default follows one with a default");
      }
    }
    tokens_.expect_operator(")");
  }

  // A body that is called: no loop around it can be left from within.
  std::vector<Statement> called_body(std::string_view end) {
    const int loops = loops_;
    loops_ = 0;
    std::vector<Statement> body = whole_block(end);
    loops_ = loops;
    return body;
  }

  Statement macro() {
    Statement made = begin(StatementKind::kMacro);
    made.macro = std::make_unique<Macro>();
    made.macro->name = tokens_.expect_name();
    signature(*made.macro);
    made.macro->body = called_body("endmacro");
    return made;
  }

  Statement call() {
    Statement made = begin(StatementKind::kCall);
    made.macro = std::make_unique<Macro>();
    made.macro->name = "caller";
    if (tokens_.at_operator("(")) signature(*made.macro);
    made.values.push_back(expressions_.expression());
    if (made.values[0].kind != ExpressionKind::kCall) tokens_.fail("a call is expected here");
    made.macro->body = called_body("endcall");
    return made;
  }

  Statement filter_block() {
    Statement made = begin(StatementKind::kFilterBlock);
    made.filters.push_back(expressions_.filter(Expression()));
    for (Expression& more : expressions_.filters()) made.filters.push_back(std::move(more));
    made.body = whole_block("endfilter");
    return made;
  }

  Statement with() {
    Statement made = begin(StatementKind::kWith);
    while (!tokens_.failed() && !tokens_.at(TokenKind::kBlockEnd)) {
      if (!made.targets.empty()) tokens_.expect_operator(",");
      made.targets.push_back(expressions_.assign_target(false));
      tokens_.expect_operator("=");
      made.values.push_back(expressions_.expression());
    }
    made.body = whole_block("endwith");
    return made;
  }

  Statement generation() {
    Statement made = begin(StatementKind::kScope);
    made.body = called_body("endgeneration");
    return made;
  }

  Statement print() {
    Statement made = begin(StatementKind::kOutput);
    while (!tokens_.failed() && !tokens_.at(TokenKind::kBlockEnd)) {
      if (!made.values.empty()) tokens_.expect_operator(",");
      made.values.push_back(expressions_.expression());
    }
    return made;
  }

  Statement jump() {
    const bool leaves = tokens_.at_name("break");
    Statement made = begin(leaves ? StatementKind::kBreak : StatementKind::kContinue);
    if (loops_ == 0) tokens_.fail("this block stands in no loop");
    tokens_.next();
    return made;
  }

  TokenStream& tokens_;
  ExpressionParser& expressions_;
  int nesting_ = 0;
  int loops_ = 0;
};

}  // namespace

TokenStream::TokenStream(std::vector<Token> tokens, std::string_view where)
    : tokens_(std::move(tokens)), where_(where) {}

Token TokenStream::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::at_operator(std::string_view text) const {
  return at(TokenKind::kOperator) && current().text == text;
}

bool TokenStream::at_name(std::string_view text) const {
  return at(TokenKind::kName) && current().text == text;
}

bool TokenStream::at_any_name(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(),
                     [this](std::string_view name) { return at_name(name); });
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  next();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(fmt::format("\"{}\" is expected here", text));
}

std::string TokenStream::expect_name() {
  if (at(TokenKind::kName)) return next().text;
  fail("a name is expected here");
  return "";
}

void TokenStream::expect(TokenKind kind, std::string_view description) {
  if (at(kind)) {
    next();
    return;
  }
  fail(fmt::format("{} is expected here", description));
}

void TokenStream::fail_at(int line, std::string_view what) {
  if (failed()) return;
  error_ = input_error("{}, line {}: {}", where_, line, what);
  at_ = tokens_.size() - 1;
}

Result<Program> parse_program(std::string_view source, std::string_view where) {
  NIBBLE_ASSIGN_OR_RETURN(std::vector<Token> list, tokenize(source, where));
  TokenStream tokens(std::move(list), where);
  ExpressionParser expressions(tokens);
  Program program;
  program.where = where;
  program.body = StatementParser(tokens, expressions).program();
  if (tokens.failed()) return tokens.error();
  NIBBLE_RETURN_IF_ERROR(check_program(program));
  return program;
}

}  // namespace nibble::text::jinja
