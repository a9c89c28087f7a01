// Every number that a verdict turns on, with where it comes from; docs/diagnosis.md shows them in
// the tables of the classes. Each signal has two: from the first on it speaks for a class, from the
// second on against; between them it says nothing.
//
//   if (share >= kOutsideMany) return holds(...);
//   if (share <= kOutsideFew) return against(...);
#pragma once

namespace nibble::diagnose {

// From which confidence on a verdict is called what. `likely` and better is named. Four fifths:
// whatever is missing or against is less than a fifth of what there could be. 0.55: more than half
// of all evidence holds, with the margin of one small clue. 0.3: a needed clue and one more.
inline constexpr double kCertainFrom = 0.80;
inline constexpr double kLikelyFrom = 0.55;
inline constexpr double kPossibleFrom = 0.30;
// The most with a veto unknown (never certain) and with a needed clue unknown (never named).
inline constexpr double kMostWithoutVeto = 0.79;
inline constexpr double kMostWithoutNeeded = 0.54;

// The whole is told by the highest level of which as much is known as of the others: of a recorded
// case the telemetry is often of one level alone.
inline constexpr double kAsWellKnown = 0.80;

// Requests that fail are told with the verdict from here on; a few are lost in any long run.
inline constexpr double kFailedSome = 0.01;

// --- Where the requests are.
// Little's law is checked to 2 % (docs/load_metrics.md); requests between two steps of their life
// (sent and not yet read, ended and not yet replaced) make up to some per cent more where they are
// short. So a tenth is common and a seventh is not. Less than half a request is none.
inline constexpr double kShortMany = 0.15;  // of those in flight do not run
inline constexpr double kShortFew = 0.07;
inline constexpr double kWholeRequest = 0.5;
inline constexpr double kWaitMany = 0.10;  // of those in flight wait in the queue
inline constexpr double kWaitFew = 0.02;
inline constexpr double kOutsideMany = 0.25;  // neither run nor wait: beyond what short requests do
inline constexpr double kOutsideFew = 0.10;
// Slots are refilled between steps: a capped batch is a little below its cap on average.
inline constexpr double kAtCap = 0.80;  // of the configured cap run
inline constexpr double kBelowCap = 0.75;
inline constexpr double kCapReached = 0.95;
inline constexpr double kSameBatch = 1.10;  // running, to that of the level below: does not grow
inline constexpr double kMoreUsers = 1.20;  // a level below is another load from here on
inline constexpr double kTtftGrew = 2.0;    // to the lowest level: a queue in front, not noise

// --- The KV cache.
// Schedulers admit up to about 95 %; below 90 % there is room. A cache of few requests is full long
// before: when another request of the mean size does not fit.
inline constexpr double kKvFull = 0.95;
inline constexpr double kKvRoom = 0.90;
inline constexpr double kKvOneMoreFull = 1.0;   // use with one more request
inline constexpr double kPreemptedMany = 0.10;  // preemptions a request
inline constexpr double kPreemptedSome = 0.02;

// --- The client. drive's own audit doubts single gaps from a tenth of a gap on; for the client to
// be what holds a server back its loops must be late by about as long as a token takes. 80 % of a
// core is full, as there (src/load/client_audit.h).
inline constexpr double kClientLate = 0.50;  // lag P99 to the gap between tokens
inline constexpr double kClientFull = 0.80;  // of a core

// --- Time in and between steps.
inline constexpr double kBusy = 0.90;      // below: gaps; a launch-bound decode has well less
inline constexpr double kBusyAll = 0.95;   // utilization, which counts any resident kernel
inline constexpr double kGapShare = 0.10;  // of the time without a step although requests run
inline constexpr double kNoGapShare = 0.05;
// A small machine hands tokens over on the processors that it computes on: the embedded model,
// whose steps take 0.2 to 10 ms, is in none 8 to 15 % of the time when all is well
// (docs/measured.md).
inline constexpr double kGapShareCpu = 0.25;
inline constexpr double kNoGapShareCpu = 0.18;
inline constexpr double kGapAlike = 2.0;  // gaps in ms at two levels within this factor
inline constexpr double kGapOther = 3.0;
// docs/measured.md: a step is the sum of its operations to 2 %; the client's share of a small
// machine adds to that.
inline constexpr double kStepNear = 1.3;  // to kernels or floor
inline constexpr double kStepFar = 2.0;
inline constexpr double kSlowerSurely = 1.3;  // served step to that of the best tactic
inline constexpr double kSlowerNot = 1.1;
inline constexpr double kRoofFar = 1.6;      // to the floor: no longer at the roof
inline constexpr double kBelowFloor = 0.90;  // faster than the floor: an accounting error
// Kernels to their floor. GPUs: good ones are within 1.5. CPUs: docs/measured.md has 2 to 3 for the
// embedded model when all is well and 5.6 beside a busy neighbour, as its matrices are small.
inline constexpr double kKernelsFar = 2.0;
inline constexpr double kKernelsNear = 1.5;
inline constexpr double kKernelsFarCpu = 8.0;
inline constexpr double kKernelsNearCpu = 6.0;
inline constexpr double kExcessGrew = 1.2;  // time above the floor, to the lowest level

// --- Prompts among the decodes: a step with a chunk of a prompt is several decodes long.
inline constexpr double kTailLong = 3.0;  // ITL P99 to P50
inline constexpr double kTailShort = 1.5;
inline constexpr double kPromptTimeMuch = 0.25;  // of the time, or of the step
inline constexpr double kPromptTimeLittle = 0.10;
inline constexpr double kPromptRowsMost = 0.80;  // of all tokens computed, their price unknown
inline constexpr double kMeanAboveMedian = 1.15;
inline constexpr double kMeanAtMedian = 1.05;

// --- GPUs.
// Below 40 to 50 % of the limit with all SMs busy is waiting: on an RTX PRO 6000 ranks
// that spin draw 140 of 600 W, a copy 365 W (data/machines).
inline constexpr double kPowerLow = 0.45;
inline constexpr double kPowerHigh = 0.80;
inline constexpr double kPowerAtLimit = 0.95;
inline constexpr double kPowerBelowLimit = 0.85;
inline constexpr double kDramLow = 0.50;
inline constexpr double kDramHigh = 0.70;
inline constexpr double kDramRoof =
    0.75;  // 0.8 of what a step at its floor would show, which reaches 0.94
inline constexpr double kDramIdle =
    0.30;  // with tensor units idle too: neither copies nor computes
inline constexpr double kTensorIdle = 0.10;
inline constexpr double kThrottled = 0.10;  // of the window
inline constexpr double kThrottledNot = 0.02;
inline constexpr double kClockDown = 0.95;  // of the data sheet's
inline constexpr double kClockFull = 0.98;
inline constexpr double kClockFell = 0.95;  // to the lowest level
inline constexpr double kHotMargin = 5;     // C below the limit
inline constexpr double kCoolMargin = 15;
inline constexpr double kThrottleCelsius = 87;  // where the limit is not known: usual for boards
inline constexpr double kRateDrifts = 0.03;     // the rate of the last third is below the first's
inline constexpr double kRanksDiffer = 0.20;    // spread of DRAM activity
inline constexpr double kRanksAlike = 0.10;
// From here on the others wait for the slow one, and not for the link.
inline constexpr double kRanksUneven = 0.30;
// Trained routers: the busiest expert has about twice the mean over many tokens.
inline constexpr double kHotExpert = 3.0;
inline constexpr double kEvenExperts = 2.0;
inline constexpr double kLinkLess = 0.99;          // generations and lanes are whole numbers
inline constexpr double kTraceAlike = 1.5;         // its step to the level's, either way
inline constexpr double kTraceCollectives = 0.30;  // of the time with a kernel running

// --- What was sent and what came back. A tiny model repeats itself in about 1 % of its answers.
inline constexpr double kDegenerateSome = 0.05;
inline constexpr double kDegenerateFew = 0.02;
inline constexpr double kDegenerateMany = 0.20;
// Prompts of random text share a template's first block; from a fifth on TTFT is another one.
inline constexpr double kCachedMuch = 0.20;
inline constexpr double kCachedMost = 0.50;  // of unique prompts: more than a shared beginning
inline constexpr double kCachedLittle = 0.05;
inline constexpr double kRepeatedMuch = 0.20;
inline constexpr double kRepeatedLittle = 0.05;
inline constexpr double kFailedFew = 0.01;

// --- Growth with the load.
inline constexpr double kGrowsAsPredicted = 0.85;  // of what kernels or floor predict
inline constexpr double kGrowsLess = 0.70;
inline constexpr double kGrowsWell = 0.50;  // slope in logarithms, where nothing predicts it

}  // namespace nibble::diagnose
