#include "text/bpe.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "base/utf8.h"
#include "text/byte_alphabet.h"

namespace nibble::text {
namespace {

using TokenIds = std::unordered_map<std::string_view, TokenId>;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// The heap's top is the smallest rank, then the leftmost place.
bool comes_later(const BpeModel::Candidate& a, const BpeModel::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

TokenIds ids_by_text(const BpeDescription& description) {
  TokenIds ids;
  ids.reserve(description.vocabulary.size());
  for (const auto& [token, id] : description.vocabulary) ids.emplace(token, id);
  return ids;
}

}  // namespace

Result<BpeModel> BpeModel::make(const BpeDescription& description, std::string_view where) {
  BpeModel model;
  NIBBLE_RETURN_IF_ERROR(model.read_bytes(description, where));
  NIBBLE_RETURN_IF_ERROR(model.read_merges(description, where));
  model.find_whole_pieces(description);
  return model;
}

Result<> BpeModel::read_bytes(const BpeDescription& description, std::string_view where) {
  const TokenIds ids = ids_by_text(description);
  bool complete = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    append_character(character, character_of(static_cast<std::uint8_t>(byte)));
    const auto found = ids.find(character);
    if (found != ids.end()) of_byte_[byte] = found->second;
    complete = complete && found != ids.end();
  }
  if (description.byte_fallback && !complete) {
    return input_error(
        "{}: model.byte_fallback is set and the vocabulary lacks some of the 256 bytes: this is no "
        "byte-level vocabulary, and others are not supported",
        where);
  }
  fuse_unknown_ = description.fuse_unknown;
  if (description.unknown_token.empty()) return {};
  const auto unknown = ids.find(description.unknown_token);
  if (unknown == ids.end()) {
    return input_error("{}: model.unk_token \"{}\" is not in the vocabulary", where,
                       printable(description.unknown_token));
  }
  unknown_ = unknown->second;
  return {};
}

Result<> BpeModel::read_merges(const BpeDescription& description, std::string_view where) {
  const TokenIds ids = ids_by_text(description);
  merges_.reserve(description.merges.size());
  std::string joined;
  std::uint32_t rank = 0;
  for (const auto& [left, right] : description.merges) {
    joined.assign(left).append(right);
    const auto left_id = ids.find(left);
    const auto right_id = ids.find(right);
    const auto result = ids.find(joined);
    if (left_id == ids.end() || right_id == ids.end() || result == ids.end()) {
      return input_error(
          "{}: model.merges[{}] makes \"{}\" of \"{}\" and \"{}\", which are not "
          "all in the vocabulary",
          where, rank, printable(joined), printable(left), printable(right));
    }
    // Of a pair that is there twice the later rank counts, as in Hugging Face's tokenizers.
    merges_[pair_key(left_id->second, right_id->second)] = {rank++, result->second};
  }
  return {};
}

void BpeModel::find_whole_pieces(const BpeDescription& description) {
  whole_pieces_.reserve(description.vocabulary.size());
  Workspace workspace;
  std::vector<TokenId> ids;
  for (const auto& [token, id] : description.vocabulary) {
    std::optional<std::string> bytes = bytes_of(token);
    if (!bytes || bytes->empty()) continue;
    ids.clear();
    if (!description.ignore_merges) merge(*bytes, workspace, ids);
    const bool whole = description.ignore_merges || (ids.size() == 1 && ids.front() == id);
    if (whole) whole_pieces_.emplace(std::move(*bytes), id);
  }
}

const BpeModel::Merge* BpeModel::find_merge(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeModel::encode(std::string_view piece, Workspace& workspace,
                      std::vector<TokenId>& ids) const {
  if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
    ids.push_back(whole->second);
    return;
  }
  merge(piece, workspace, ids);
}

// One symbol a byte. Bytes that no token stands for become the unknown token, a run of them one
// where the model fuses; without an unknown token they are left out.
void BpeModel::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  bool after_unknown = false;
  for (const char byte : piece) {
    const std::optional<TokenId>& id = of_byte_[static_cast<std::uint8_t>(byte)];
    const bool unknown = !id.has_value();
    const bool left_out = unknown && (!unknown_ || (fuse_unknown_ && after_unknown));
    after_unknown = unknown;
    if (left_out) continue;
    const auto place = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({unknown ? *unknown_ : *id, place - 1, place + 1, false});
  }
  if (!symbols.empty()) symbols.back().after = -1;
}

void BpeModel::offer(const std::vector<Symbol>& symbols, std::int32_t place,
                     std::vector<Candidate>& queue) const {
  if (place < 0) return;
  const Symbol& left = symbols[static_cast<std::size_t>(place)];
  if (left.after < 0) return;
  const Merge* merge = find_merge(left.id, symbols[static_cast<std::size_t>(left.after)].id);
  if (merge != nullptr) queue.push_back({merge->rank, place, merge->result});
}

void BpeModel::merge(std::string_view piece, Workspace& workspace,
                     std::vector<TokenId>& ids) const {
  std::vector<Symbol>& symbols = workspace.symbols;
  std::vector<Candidate>& queue = workspace.queue;
  start(piece, symbols);
  queue.clear();
  for (std::size_t place = 0; place + 1 < symbols.size(); ++place) {
    offer(symbols, static_cast<std::int32_t>(place), queue);
  }
  std::make_heap(queue.begin(), queue.end(), comes_later);
  const auto offer_again = [&](std::int32_t place) {
    const std::size_t before = queue.size();
    offer(symbols, place, queue);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), comes_later);
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), comes_later);
    const Candidate best = queue.back();
    queue.pop_back();
    Symbol& left = symbols[static_cast<std::size_t>(best.place)];
    if (left.merged_away || left.after < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.after)];
    const Merge* current = find_merge(left.id, right.id);
    if (current == nullptr || current->result != best.result) continue;  // stale
    left.id = best.result;
    left.after = right.after;
    right.merged_away = true;
    if (left.after >= 0) symbols[static_cast<std::size_t>(left.after)].before = best.place;
    offer_again(left.before);
    offer_again(best.place);
  }
  for (const Symbol& symbol : symbols) {
    if (!symbol.merged_away) ids.push_back(symbol.id);
  }
}

}  // namespace nibble::text
