// Joins the samples of another host, served by `nibble watch --listen`, to ours on our clock.
//
//   sources.push_back(remote_source(url, store));       // signals "node7:9753/gpu0.power", ...
#pragma once

#include <memory>
#include <optional>

#include "net/url.h"
#include "telemetry/clock_offset.h"
#include "telemetry/source.h"

namespace nibble::telemetry {

// Asks /clock now and then, follows /stream, and connects again when either breaks. The signal
// "HOST/clock.offset_bound" tells how well the two clocks are joined.
Result<std::unique_ptr<Source>> remote_source(const net::Url& url, SampleStore& store);

// The answer of /clock; the two times of the other host alone are set.
Result<ClockExchange> parse_clock_answer(std::string_view body);

}  // namespace nibble::telemetry
