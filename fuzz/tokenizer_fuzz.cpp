// The reader of tokenizer.json and its tokenizer on any bytes: no crash and no hang; what is read
// encodes any text, and what it encodes decodes the same whole and token by token.
//
// The input is a tokenizer.json, then a NUL byte, then a text; without the NUL byte the text is the
// input itself.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/pattern.h"
#include "text/tokenizer.h"

namespace {

using nibble::text::Tokenizer;

// A pattern of the file may take quadratic time on a text; that of a text so short stays small.
constexpr std::size_t kMaxText = 2048;

void check_error(const nibble::Error& error) {
  NIBBLE_CHECK(!error.message.empty());
}

void check_encoding(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
  const auto ids = tokenizer.encode(text, {.add_special = add_special});
  if (!ids.ok()) return check_error(ids.error());
  const std::string decoded = tokenizer.decode(*ids);
  NIBBLE_CHECK(nibble::is_valid_utf8(decoded));
  nibble::text::Detokenizer detokenizer(tokenizer);
  std::string streamed;
  for (const nibble::text::TokenId id : *ids) {
    NIBBLE_CHECK(tokenizer.token_text(id).has_value());
    streamed += detokenizer.feed(id);
  }
  streamed += detokenizer.finish();
  NIBBLE_CHECK(streamed == decoded);
}

// A byte-level vocabulary of every byte and nothing else gives a text back as it came.
void check_round_trip(std::string_view text) {
  static const Tokenizer tokenizer = [] {
    std::string vocabulary;
    for (int byte = 0; byte < 256; ++byte) {
      const bool own = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      static int others = 0x100;
      const int code = own ? byte : others++;
      vocabulary += fmt::format("{}\"\\u{:04x}\":{}", byte == 0 ? "" : ",", code, byte);
    }
    const std::string json = R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                             R"("decoder":{"type":"ByteLevel","add_prefix_space":false},)"
                             R"("model":{"type":"BPE","merges":[],"vocab":{)" +
                             vocabulary + "}}}";
    return nibble::text::parse_tokenizer(json, "bytes").value();
  }();
  const auto ids = tokenizer.encode(text);
  NIBBLE_CHECK(ids.ok());
  const std::string valid = nibble::make_valid(text);
  NIBBLE_CHECK(ids->size() == valid.size());
  NIBBLE_CHECK(tokenizer.decode(*ids) == valid);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  const std::string_view json = input.substr(0, nul);
  const std::string_view text =
      (nul == std::string_view::npos ? input : input.substr(nul + 1)).substr(0, kMaxText);
  check_round_trip(text);
  static_cast<void>(nibble::text::translate_pattern(text));
  const auto tokenizer = nibble::text::parse_tokenizer(json, "fuzz");
  if (!tokenizer.ok()) {
    check_error(tokenizer.error());
    return 0;
  }
  check_encoding(*tokenizer, text, true);
  check_encoding(*tokenizer, text, false);
  return 0;
}
