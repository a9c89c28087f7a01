// Texts from outside (names in a case, a model's title) made safe to show: control characters could
// move a terminal's cursor or hide in a page.
//
//   const Document shown = cleaned(document);
#pragma once

#include "report/document.h"

namespace nibble {

// The document with every control character of its texts replaced by '?'; `data` stays as it is,
// since JSON escapes them.
Document cleaned(const Document& document);

}  // namespace nibble
