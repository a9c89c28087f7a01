#include "text/tokenizer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/tokenizer_file.h"

namespace nibble::text {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;  // places in a piece are 32 bit

struct Token {
  std::string text;
  std::string bytes;
  bool exists = false;
  bool special = false;
};

}  // namespace

struct Tokenizer::Parts {
  // What one call of encode() needs.
  struct Work {
    SearchRegex::Workspace search;
    BpeModel::Workspace merging;
    std::vector<std::string_view> pieces;
    std::vector<std::string_view> next_pieces;
    std::string prefixed;
    std::vector<TokenId> ids;
  };

  // Text between added tokens, not yet normalized; normalized; one piece behind the file's splits.
  Result<> encode_text(std::string_view text, Work& work) const;
  Result<> encode_normalized(std::string_view text, Work& work) const;
  Result<> encode_piece(std::string_view piece, Work& work) const;
  const Token* find(TokenId id) const {
    const bool exists = id >= 0 && static_cast<std::size_t>(id) < tokens.size() &&
                        tokens[static_cast<std::size_t>(id)].exists;
    return exists ? &tokens[static_cast<std::size_t>(id)] : nullptr;
  }
  Result<> add_tokens(const TokenizerFile& file, std::string_view where);

  bool normalize_nfc = false;
  bool add_prefix_space = false;
  std::vector<SplitRule> splits;
  std::optional<SplitRule> byte_level_split;
  BpeModel model;
  AddedTokenFinder added;             // looked for in the text as it comes
  AddedTokenFinder added_normalized;  // looked for after normalization
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
  std::vector<Token> tokens;  // by id
  std::size_t size = 0;
};

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

// A token's characters are bytes where all of them are of the alphabet; else they are themselves,
// as in Hugging Face's decoder.
Result<> Tokenizer::Parts::add_tokens(const TokenizerFile& file, std::string_view where) {
  const auto put = [&](TokenId id, const std::string& text, bool special) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens.size()) tokens.resize(std::max(index + 1, 2 * tokens.size()));
    if (!tokens[index].exists) ++size;
    tokens[index] = {text, bytes_of(text).value_or(text), true, special};
  };
  for (const auto& [text, id] : file.model.vocabulary) put(id, text, false);
  for (const AddedToken& token : file.added) put(token.id, token.content, token.special);
  for (const std::vector<TokenId>* side : {&before, &behind}) {
    for (const TokenId id : *side) {
      if (find(id) != nullptr) continue;
      return input_error("{}: post_processor puts id {} around a text, which no token has", where,
                         id);
    }
  }
  return {};
}

Result<> Tokenizer::Parts::encode_piece(std::string_view piece, Work& work) const {
  if (add_prefix_space && piece.front() != ' ') {
    work.prefixed.assign(" ").append(piece);
    piece = work.prefixed;
  }
  if (!byte_level_split) {
    model.encode(piece, work.merging, work.ids);
    return {};
  }
  work.next_pieces.clear();
  NIBBLE_RETURN_IF_ERROR(byte_level_split->apply(piece, work.search, work.next_pieces));
  for (const std::string_view part : work.next_pieces) model.encode(part, work.merging, work.ids);
  return {};
}

Result<> Tokenizer::Parts::encode_normalized(std::string_view text, Work& work) const {
  work.pieces.assign(1, text);
  for (const SplitRule& split : splits) {
    work.next_pieces.clear();
    for (const std::string_view piece : work.pieces) {
      NIBBLE_RETURN_IF_ERROR(split.apply(piece, work.search, work.next_pieces));
    }
    work.pieces.swap(work.next_pieces);
  }
  for (const std::string_view piece : work.pieces) {
    NIBBLE_RETURN_IF_ERROR(encode_piece(piece, work));
  }
  return {};
}

Result<> Tokenizer::Parts::encode_text(std::string_view text, Work& work) const {
  const std::string normalized = normalize_nfc ? nfc(text) : std::string();
  std::vector<AddedTokenFinder::Part> parts;
  added_normalized.find(normalize_nfc ? normalized : text, parts);
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.id) {
      work.ids.push_back(*part.id);
    } else {
      NIBBLE_RETURN_IF_ERROR(encode_normalized(part.text, work));
    }
  }
  return {};
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxText) {
    return input_error("a text of {} bytes is too large to encode; at most {} are taken",
                       text.size(), kMaxText);
  }
  std::string valid;
  if (!is_valid_utf8(text)) {
    valid = make_valid(text);
    text = valid;
  }
  Parts::Work work;
  if (options.add_special) work.ids = parts_->before;
  std::vector<AddedTokenFinder::Part> parts;
  parts_->added.find(text, parts);
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.id) {
      work.ids.push_back(*part.id);
    } else {
      NIBBLE_RETURN_IF_ERROR(parts_->encode_text(part.text, work));
    }
  }
  if (options.add_special) {
    work.ids.insert(work.ids.end(), parts_->behind.begin(), parts_->behind.end());
  }
  return std::move(work.ids);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string bytes;
  for (const TokenId id : ids) {
    const Token* token = parts_->find(id);
    if (token != nullptr && !(token->special && options.skip_special)) bytes += token->bytes;
  }
  return is_valid_utf8(bytes) ? bytes : make_valid(bytes);
}

std::size_t Tokenizer::size() const {
  return parts_->size;
}

std::optional<std::string_view> Tokenizer::token_text(TokenId id) const {
  const Token* token = parts_->find(id);
  return token == nullptr ? std::nullopt : std::optional<std::string_view>(token->text);
}

std::optional<std::string_view> Tokenizer::token_bytes(TokenId id) const {
  const Token* token = parts_->find(id);
  return token == nullptr ? std::nullopt : std::optional<std::string_view>(token->bytes);
}

bool Tokenizer::is_special(TokenId id) const {
  const Token* token = parts_->find(id);
  return token != nullptr && token->special;
}

Result<Tokenizer> parse_tokenizer(std::string_view json, std::string_view where) {
  NIBBLE_ASSIGN_OR_RETURN(TokenizerFile file, read_tokenizer_file(json, where));
  NIBBLE_ASSIGN_OR_RETURN(BpeModel model, BpeModel::make(file.model, where));
  std::optional<SplitRule> byte_level_split;
  if (file.use_regex) {
    NIBBLE_ASSIGN_OR_RETURN(byte_level_split,
                            SplitRule::make(kByteLevelPattern, SplitBehavior::kIsolated, false));
  }
  std::vector<AddedToken> as_is;
  std::vector<AddedToken> normalized;
  for (const AddedToken& token : file.added) {
    std::vector<AddedToken>& list = token.normalized ? normalized : as_is;
    list.push_back(token);
    if (token.normalized && file.normalize_nfc) list.back().content = nfc(token.content);
  }
  NIBBLE_ASSIGN_OR_RETURN(AddedTokenFinder finder, AddedTokenFinder::make(std::move(as_is)));
  NIBBLE_ASSIGN_OR_RETURN(AddedTokenFinder later, AddedTokenFinder::make(std::move(normalized)));
  auto parts = std::make_shared<Tokenizer::Parts>(Tokenizer::Parts{
      .normalize_nfc = file.normalize_nfc,
      .add_prefix_space = file.add_prefix_space,
      .splits = std::move(file.splits),
      .byte_level_split = std::move(byte_level_split),
      .model = std::move(model),
      .added = std::move(finder),
      .added_normalized = std::move(later),
      .before = std::move(file.before),
      .behind = std::move(file.behind),
      .tokens = {},
      .size = 0,
  });
  NIBBLE_RETURN_IF_ERROR(parts->add_tokens(file, where));
  return Tokenizer(std::move(parts));
}

Result<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  NIBBLE_ASSIGN_OR_RETURN(const std::string json, read_file(file, kMaxTokenizerBytes));
  return parse_tokenizer(json, file.string());
}

Detokenizer::Detokenizer(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string Detokenizer::feed(TokenId id) {
  std::string out;
  const std::optional<std::string_view> bytes = tokenizer_.token_bytes(id);
  const bool skipped = options_.skip_special && tokenizer_.is_special(id);
  if (bytes && !skipped) stream_.feed(*bytes, out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  stream_.finish(out);
  return out;
}

}  // namespace nibble::text
