// The characters that Unicode has gained since version 14, whose tables Debian 12's PCRE2 has, up
// to the version that Hugging Face's tokenizers has: without them a text with such a character is
// split in other places.
//
//   for (const AddedCharacters& added : added_characters()) use(added.first, added.last);
#pragma once

#include <span>
#include <string_view>

namespace nibble::text {

struct AddedCharacters {
  std::string_view
      name;  // a general category ("Lo"), a script ("Han"), or a class of its own ("w")
  char32_t first = 0;
  char32_t last = 0;
};

std::span<const AddedCharacters> added_characters();

}  // namespace nibble::text
