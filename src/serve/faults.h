// Faults on purpose: what `nibble serve --inject` makes slow or uneven, so that a diagnosis can be
// held to a cause that is known.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Faults faults, parse_faults({"step_stall_ms=5,router_bias=4"}));
//   engine_options.step_stall = faults.step_stall;
//   json.set("inject", to_json(faults));        // {"step_stall_ms": 5, ...}
#pragma once

#include <span>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace nibble::serve {

struct Faults {
  Nanoseconds step_stall = 0;  // the engine's thread sleeps so long between two steps
  // An event loop sleeps so long for each request for an answer that arrives and for each update
  // (a token, an end) that it hands on: a front end of limited speed.
  Nanoseconds front_end_block = 0;
  double router_bias = 0;  // added to the router's logit of one expert a layer
  bool any() const { return step_stall > 0 || front_end_block > 0 || router_bias > 0; }
};

// Each word is "KEY=VALUE[,KEY=VALUE]". A usage error names what is unknown, out of range or there
// twice.
Result<Faults> parse_faults(std::span<const std::string> words);
// Under the names of the keys, all of them.
Json to_json(const Faults& faults);
// "step_stall_ms=5, router_bias=4"; empty: none.
std::string describe(const Faults& faults);

}  // namespace nibble::serve
