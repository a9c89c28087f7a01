// How many tokens a text has at least, without cutting it into tokens: what is far too long is
// refused in the time that it takes to look at each byte once.
//
//   const TokenBound bound(tokenizer, vocabulary);
//   if (bound.least_tokens(text) > max_model_len) ...
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

namespace nibble::serve {

class TokenBound {
 public:
  TokenBound(const text::Tokenizer& tokenizer, std::int64_t vocabulary);

  // Beside added tokens that swallow the white space around them (lstrip, rstrip), which counts
  // here as any other text.
  std::int64_t least_tokens(std::string_view text) const;

 private:
  std::array<double, 256> share_ = {};  // of a token, by byte: at most so little
  double changed_share_ = 0;            // of bytes that normalization may change
};

}  // namespace nibble::serve
