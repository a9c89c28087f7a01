// The words of a template, as the lexer of jinja2 cuts them with trim_blocks and lstrip_blocks:
// white space around tags is already gone, comments too, and raw blocks are text.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::vector<Token> tokens, tokenize("Hi {{ name }}", "t.jinja"));
//   tokens[0];   // kData "Hi "
//   tokens[1];   // kOutputBegin
//   tokens[2];   // kName "name"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble::text::jinja {

enum class TokenKind {
  kData,
  kBlockBegin,
  kBlockEnd,
  kOutputBegin,
  kOutputEnd,
  kName,
  kText,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of data, names, text (escapes done) and operators
  std::int64_t integer = 0;
  double number = 0;
};

// The last token is kEnd. Errors name `where` and the line.
Result<std::vector<Token>> tokenize(std::string_view source, std::string_view where);

}  // namespace nibble::text::jinja
