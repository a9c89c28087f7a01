#include "serve/token_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace nibble::serve {
namespace {

// Normalization to NFC makes at most three bytes one (U+212A, U+1FEF); one more for safety.
constexpr double kMostShrinking = 4;

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

}  // namespace

// A token of L bytes holds only bytes whose longest token has at least L: their shares add up to at
// most 1, and those of a text to at most its tokens.
TokenBound::TokenBound(const text::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::array<std::size_t, 256> longest = {};
  std::size_t longest_of_all = 1;
  for (std::int64_t id = 0; id < vocabulary; ++id) {
    const auto bytes = tokenizer.token_bytes(static_cast<text::TokenId>(id));
    if (!bytes) continue;
    longest_of_all = std::max(longest_of_all, bytes->size());
    for (const char byte : *bytes) {
      std::size_t& most = longest[static_cast<unsigned char>(byte)];
      most = std::max(most, bytes->size());
    }
  }
  for (std::size_t byte = 0; byte < longest.size(); ++byte) {
    if (longest[byte] > 0) share_[byte] = 1 / static_cast<double>(longest[byte]);
  }
  changed_share_ = 1 / (kMostShrinking * static_cast<double>(longest_of_all));
}

std::int64_t TokenBound::least_tokens(std::string_view text) const {
  double tokens = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // A letter before something that is not ASCII may become one character with it.
    const bool stays = is_ascii(text[at]) && (at + 1 == text.size() || is_ascii(text[at + 1]));
    tokens += stays ? share_[static_cast<unsigned char>(text[at])] : changed_share_;
  }
  constexpr double kRounding = 1 - 1e-9;
  return static_cast<std::int64_t>(std::ceil(tokens * kRounding - 1e-9));
}

}  // namespace nibble::serve
