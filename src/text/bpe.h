// Byte-pair encoding of one piece of text: the model of tokenizer.json. Two neighbours with the
// best rank merge, the leftmost first, until none can; n log n steps for n bytes.
//
//   NIBBLE_ASSIGN_OR_RETURN(BpeModel model, BpeModel::make(std::move(vocabulary), where));
//   BpeModel::Workspace workspace;
//   model.encode(" hello", workspace, ids);   // appends
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/token_id.h"

namespace nibble::text {

// As the file says it; tokens are in the byte-level alphabet (text/byte_alphabet.h).
struct BpeDescription {
  std::vector<std::pair<std::string, TokenId>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::string unknown_token;                                // "" when there is none
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;
};

class BpeModel {
 public:
  struct Symbol {
    TokenId id = 0;
    std::int32_t before = -1;  // neighbours; -1 when there is none
    std::int32_t after = -1;
    bool merged_away = false;
  };
  // What can be merged at a place; stale when what stands there has changed since.
  struct Candidate {
    std::uint32_t rank = 0;
    std::int32_t place = 0;
    TokenId result = 0;
  };
  // Memory of one call after the other; one a thread.
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;  // a heap
  };

  static Result<BpeModel> make(const BpeDescription& description, std::string_view where);

  // Appends the ids of `piece`, which may hold any bytes.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    TokenId result = 0;
  };
  BpeModel() = default;
  Result<> read_bytes(const BpeDescription& description, std::string_view where);
  Result<> read_merges(const BpeDescription& description, std::string_view where);
  void find_whole_pieces(const BpeDescription& description);
  const Merge* find_merge(TokenId left, TokenId right) const;
  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  void offer(const std::vector<Symbol>& symbols, std::int32_t place,
             std::vector<Candidate>& queue) const;
  void merge(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

  struct PairHash {
    std::size_t operator()(std::uint64_t pair) const {
      pair *= 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads ids that lie close together
      return static_cast<std::size_t>(pair ^ pair >> 32);
    }
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::optional<TokenId> of_byte_[256];
  std::optional<TokenId> unknown_;
  bool fuse_unknown_ = false;
  std::unordered_map<std::uint64_t, Merge, PairHash> merges_;
  // Bytes of the tokens that stand for the whole piece when it is just these bytes: most pieces of
  // ordinary text, and one look-up is all that they take.
  std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> whole_pieces_;
};

}  // namespace nibble::text
