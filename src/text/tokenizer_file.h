// What a tokenizer.json says, field by field, before it is made into a Tokenizer. Everything that
// would change ids or text and is not done here is refused by its name.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TokenizerFile file, read_tokenizer_file(json, "tokenizer.json"));
//   file.normalize_nfc;
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/split.h"

namespace nibble::text {

inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;

struct TokenizerFile {
  BpeDescription model;
  std::vector<AddedToken> added;
  bool normalize_nfc = false;
  std::vector<SplitRule> splits;  // those of ByteLevel's own pattern not among them
  bool add_prefix_space = false;  // ByteLevel's
  bool use_regex = false;         // ByteLevel's
  std::vector<TokenId> before;    // what the post_processor puts before and behind a text
  std::vector<TokenId> behind;
};

Result<TokenizerFile> read_tokenizer_file(std::string_view json, std::string_view where);

// The parts of it that have files of their own.
Result<BpeDescription> read_model(const Json& model, const std::string& where);
Result<std::vector<AddedToken>> read_added_tokens(const Json& tokens, const BpeDescription& model,
                                                  const std::string& where);
Result<> read_pre_tokenizer(const Json& pre_tokenizer, const std::string& where,
                            TokenizerFile& file);
Result<> read_post_processor(const Json& processor, const std::string& where, TokenizerFile& file);

}  // namespace nibble::text
