// Before the load: is anybody there, which model, and what does this server take? Servers differ in
// the fields that they refuse, and a load test of refused requests tells nothing.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Wire wire, negotiate(target, 30'000'000'000, interrupted));
//   wire.target      // with a model, and without the fields that the server refuses
//   wire.notes       // "the server refuses stream_options.continuous_usage_stats (400: ...)"
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"
#include "drive/run.h"
#include "drive/server_identity.h"

namespace nibble::drive {

struct Wire {
  Target target;
  WireFacts facts;
  ServerIdentity identity;
  std::vector<std::string> notes;
};

// A few requests of a handful of tokens. Waits up to `patience` for a server that does not listen
// or is not ready yet. An error when there is none, when it wants a key, or when it refuses even
// the plainest form of a request.
Result<Wire> negotiate(Target target, Nanoseconds patience, const std::atomic<bool>& interrupted);

}  // namespace nibble::drive
