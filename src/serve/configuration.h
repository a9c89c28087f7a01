// Everything that was configured, with what every default stands for: what `nibble serve` prints,
// its
// --json and /server_info.
//
//   fmt::print("{}\n", configuration(core).dump(0));   // {"version", "url", "model", "sampling",
//   ...}
#pragma once

#include "base/json.h"
#include "serve/core.h"

namespace nibble::serve {

Json configuration(const Core& core);

}  // namespace nibble::serve
