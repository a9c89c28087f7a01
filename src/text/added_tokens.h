// Tokens that are found in the text as they are written, before anything is split or merged:
// "<|im_start|>" and the like. The added_tokens of tokenizer.json.
//
//   NIBBLE_ASSIGN_OR_RETURN(const AddedTokenFinder finder, AddedTokenFinder::make(tokens));
//   finder.find("<|im_start|>user", parts);   // {id 151644}, {text "user"}
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/regex.h"
#include "base/result.h"
#include "text/bpe.h"

namespace nibble::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and that behind it
  bool normalized = false;   // is looked for after normalization, in its normalized form
  bool special = false;      // decode may leave it out
};

class AddedTokenFinder {
 public:
  // Either an added token or text between such tokens.
  struct Part {
    std::optional<TokenId> id;
    std::string_view text;
  };

  static Result<AddedTokenFinder> make(std::vector<AddedToken> tokens);

  // Appends the parts of `text`, valid UTF-8; the leftmost token wins, then the longest.
  void find(std::string_view text, std::vector<Part>& parts) const;

 private:
  struct Node {
    std::int32_t token = -1;  // the one that ends here
  };
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };
  AddedTokenFinder(std::vector<AddedToken> tokens, SearchRegex word);
  void insert(std::size_t index);
  std::optional<Found> next(std::string_view text, std::size_t from) const;
  bool is_within_word(std::string_view text, const Found& found) const;
  bool is_word(std::string_view character) const;

  std::vector<AddedToken> tokens_;
  SearchRegex word_;
  std::vector<Node> nodes_;                                 // of a trie; [0] is its root
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node << 8 | byte -> node
  std::array<bool, 256> begins_ = {};                       // the first bytes of tokens
};

}  // namespace nibble::text
