// Text to token ids and back, by the tokenizer.json of a model: byte-level BPE as Qwen, GLM,
// Llama-3, DeepSeek, GPT-2 and gpt-oss have it. Exact against Hugging Face's tokenizers, or
// refused.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Tokenizer tokenizer, load_tokenizer("models/Qwen3-8B"));
//   NIBBLE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.encode("Grüße", {}));
//   Detokenizer detokenizer(tokenizer);
//   for (const TokenId id : ids) out += detokenizer.feed(id);   // whole characters only
//   out += detokenizer.finish();                                // out is tokenizer.decode(ids)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/utf8.h"
#include "text/token_id.h"

namespace nibble::text {

struct EncodeOptions {
  bool add_special = true;  // what the file's post_processor puts around a text
};

struct DecodeOptions {
  bool skip_special = false;  // leave special tokens out
};

// Never changes: one object may be used by many threads; copies share it.
class Tokenizer {
 public:
  // Bytes that are not valid UTF-8 count as U+FFFD (text/utf8.h). Special tokens written in the
  // text become these tokens. An error when the text is larger than 1 GiB, or a pattern of the file
  // takes more steps on it than any honest pattern does.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;

  // Always valid UTF-8. Ids that no token has are left out.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  // The number of tokens, added ones included.
  std::size_t size() const;
  // As the file writes it ("Ġhello"); nullopt for ids that no token has.
  std::optional<std::string_view> token_text(TokenId id) const;
  // The bytes that the token stands for, which may be a part of a character (" hello").
  std::optional<std::string_view> token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;

 private:
  friend Result<Tokenizer> parse_tokenizer(std::string_view json, std::string_view where);
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

  std::shared_ptr<const Parts> parts_;  // shared by copies: made once, never changed
};

// `path` is the file, or a folder with a tokenizer.json. What the file holds and this reader does
// not do is an error that names the field.
Result<Tokenizer> load_tokenizer(const std::filesystem::path& path);
Result<Tokenizer> parse_tokenizer(std::string_view json, std::string_view where);

// Decodes a stream of tokens: gives each character when its last byte has come.
class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, DecodeOptions options = {});
  std::string feed(TokenId id);
  // Nothing follows: a character that has only begun becomes U+FFFD.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  Utf8Stream stream_;
};

}  // namespace nibble::text
