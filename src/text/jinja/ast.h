// A template as the parser leaves it.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Program program, parse_program("{{ 1 + x }}", "t.jinja"));
//   program.body[0].kind;                   // StatementKind::kOutput
//   program.body[0].values[0].kind;         // ExpressionKind::kBinary
//   program.body[0].values[0].children[1];  // kName "x"
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace nibble::text::jinja {

enum class ExpressionKind {
  kConstant,
  kName,             // text
  kList,             // children
  kTuple,            // children
  kDict,             // children: key, value, key, value, ...
  kAttribute,        // children[0].text
  kItem,             // children[0][children[1]]
  kSlice,            // children[0][children[1]:children[2]:children[3]]; kAbsent where not given
  kCall,             // children[0](the others, named)
  kFilter,           // children[0]|text(the others, named); kAbsent in a filter block
  kTest,             // children[0] is text(the others, named)
  kNot,              // children[0]
  kUnary,            // text children[0]
  kBinary,           // children[0] text children[1]
  kCompare,          // children[0] operators[0] children[1] operators[1] ...
  kAnd,              // children
  kOr,               // children
  kConcat,           // children joined as text
  kConditional,      // children[0] if children[1] else children[2], which may be kAbsent
  kNamespaceMember,  // text.member, as the target of a set
  kAbsent,
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kAbsent;
  int line = 0;
  int depth = 1;     // levels of children
  std::string text;  // names and operators
  std::string member;
  Value constant;
  std::vector<Expression> children;
  std::vector<std::string> operators;
  std::vector<std::pair<std::string, Expression>> named;  // arguments with a name
};

enum class StatementKind {
  kData,         // text
  kOutput,       // values
  kSet,          // target = values[0]
  kSetBlock,     // target = body, through filters
  kFor,          // target in values[0] if values[1]; body, otherwise
  kIf,           // branches; otherwise
  kMacro,        // macro
  kCall,         // values[0] with macro as its caller
  kFilterBlock,  // body through filters
  kWith,         // targets = values: body
  kScope,        // body ({% generation %})
  kBreak,
  kContinue,
};

struct Statement;

struct Branch {
  Expression condition;
  std::vector<Statement> body;
};

// The variables caller, varargs and kwargs are there for macros that name them.
struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Expression> defaults;  // of the last parameters
  std::vector<Statement> body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  int line = 0;
  std::string text;
  Value data;  // of kData
  Expression target;
  std::vector<Expression> targets;
  std::vector<Expression> values;
  std::vector<Expression> filters;  // around kAbsent, the innermost first
  std::vector<Branch> branches;
  std::vector<Statement> body;
  std::vector<Statement> otherwise;
  std::unique_ptr<Macro> macro;
};

struct Program {
  std::string where;
  std::vector<Statement> body;
};

}  // namespace nibble::text::jinja
