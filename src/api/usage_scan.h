// Reads the objects in which servers state token counts.
//
//   for (scan.open_object(); scan.next_member();) {
//     if (scan.key() == "usage") read_usage(scan, usage); else scan.skip();
//   }
#pragma once

#include "api/json_scan.h"
#include "api/usage.h"

namespace nibble::api {

// The value of "usage": an object or null. Counts are taken as they stand, negative ones too.
void read_usage(JsonScanner& scan, Usage& usage);

// llama.cpp's "timings": prompt_n is what was computed of the prompt, cache_n what was not (newer
// servers; without it the prompt's length is unknown).
void read_timings(JsonScanner& scan, Usage& usage);

}  // namespace nibble::api
