#include "text/unicode_additions.h"

namespace nibble::text {

std::span<const AddedCharacters> added_characters() {
  static constexpr AddedCharacters kAdded[] = {
#include "text/unicode_additions.inc"
  };
  return kAdded;
}

}  // namespace nibble::text
