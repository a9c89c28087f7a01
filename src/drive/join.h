// What the telemetry of a run says of one level: the joined numbers, each a value or a reason.
//
//   wait_for_samples(window);
//   result.joined = join(&telemetry, window, metrics);
//   result.joined[load::Seen::kPower]        // {445.1, ""} or {nullopt, "gpu0.power: ..."}
//   result.telemetry = telemetry::telemetry_json(telemetry, {window.start, window.stop});
//
// Whose GPUs and processor: those of the hosts that are joined as remotes ("HOST:PORT/gpu0", a
// `nibble watch --listen` there) where one of them has a GPU or has not been heard of; then the
// server runs there, and this host's GPUs are the client's. Otherwise this host's. A server that
// runs on this host and on others is joined whole by listening here too. All GPUs of those hosts
// count, also those that the server leaves idle.
//
// Of several: power, energy, requests and preemptions are sums, and one that is missing voids the
// sum; activities, clocks and shares are means over those that tell theirs; cache use is that of
// the fullest server. Servers are those scraped from here ("server", "server1", ...).
#pragma once

#include "drive/server_counters.h"
#include "load/joined.h"
#include "load/metrics.h"
#include "telemetry/telemetry.h"

namespace nibble::drive {

// Over `window`; tokens of `metrics` are those of the same window. Without telemetry (nullptr)
// every value has a reason. A gauge of which less than half of the window is covered (a hole of
// more than 5 s that is longer than the rest) has a reason too.
load::Joined join(const telemetry::Telemetry* telemetry, const load::Window& window,
                  const load::LevelMetrics& metrics);

// Counters and energy need a sample from after the window, and servers are scraped once a second:
// sleeps until there can be one. No time at all where the window ended 1.2 s ago.
void wait_for_samples(const load::Window& window);

}  // namespace nibble::drive
