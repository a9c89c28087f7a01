// What is known of a deployment under load, from whatever told it: the input of every conclusion.
// A fact is a number with its source, or the reason why there is none.
//
//   Evidence evidence;
//   evidence.levels.push_back({.name = "64 users"});
//   evidence.levels[0][Fact::kRunning] = measured(32, "load: levels[3].joined.server_running");
//   evidence.levels[0][Fact::kDram] = missing("no GPU: libnvidia-ml.so.1 is not there");
//
// Facts are measurements and what follows from one alone; what compares them (a share of a roof, a
// cause) is a conclusion and lives in clues. Recorded and live runs are read by the same readers,
// so that a diagnosis of a document is the diagnosis of the run that wrote it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "ledger/step.h"
#include "machine/gpu_roofs.h"

namespace nibble::diagnose {

// Of one level of load, over its steady window where it has one. Times are ms, shares 0 to 1.
enum class Fact : std::uint8_t {
  // The load, as the client saw it.
  kUsers,            // of a closed loop: requests in flight that were asked for
  kInFlight,         // requests in flight, mean
  kOutputRate,       // output tokens/s
  kRateNoise,        // half of the rate's 95 % interval over it
  kRequestRate,      // requests/s that ended
  kTtft,             // ms, mean
  kTpot,             // ms, mean over requests
  kItlP50,           // ms, gaps between tokens pooled
  kItlP99,           // ms
  kPromptTokens,     // of a request, mean
  kOutputTokens,     // of a request, mean
  kCachedShare,      // of prompt tokens, said to come from the prefix cache
  kRepeatedShare,    // of prompts that were sent before in this level, by content
  kDegenerateShare,  // of answers that repeat one thing over and over
  kFailedShare,      // of requests
  kRateDrift,        // output rate of the level's last third over that of its first third, minus 1
  // The client itself.
  kClientLag,  // ms: how late its loops were, P99
  kClientCpu,  // share of one core that the busiest loop took
  // The server, by its own count.
  kRunning,        // requests in the batch, mean
  kWaiting,        // requests in the queue, mean
  kKvUsage,        // share of the KV cache
  kPreemptions,    // a request that ended
  kOccupancy,      // share of the wall time that the engine spent in steps
  kServerStep,     // ms, mean length of an engine step
  kStepRate,       // engine steps/s
  kPromptRate,     // prompt tokens/s that were computed, cached ones left out
  kBusiestExpert,  // tokens of the busiest expert over the mean of all, mean over layers
  // The machine that serves. Of several GPUs: means, unless they say otherwise.
  kPower,           // W of one GPU
  kPowerShare,      // of the power limit
  kUtilization,     // share of time with any kernel resident
  kSmActive,        // share
  kTensor,          // share
  kDram,            // share
  kSmClock,         // MHz
  kThrottledPower,  // share of the window in which a power cap held the clock down
  kThrottledHeat,   // likewise heat
  kTemperature,     // C, the hottest
  kLinkGeneration,  // PCIe, the lowest of the GPUs, under load
  kLinkWidth,       // lanes, likewise
  kGpuSpread,       // (most - least) / most of the GPUs' DRAM activity
  kHostCpu,         // share of all cores of the server's host
  // Floor and kernels, of one step at kRunning sequences; ms.
  kFloor,            // by the ledger, gaps and collectives included
  kKernels,          // the step's kernels alone on this machine, without a server
  kPrefillPerToken,  // ms of kernels for one more prompt token in a step
};
inline constexpr std::size_t kFacts = static_cast<std::size_t>(Fact::kPrefillPerToken) + 1;

struct FactInfo {
  Fact fact;
  std::string_view name;   // of the JSON: "server_running"
  std::string_view title;  // for people: "running requests"
  std::string_view unit;   // "ms", "%", "W", "tok/s", ""; shares are shown as %
};
std::span<const FactInfo> fact_infos();  // in the order of Fact
const FactInfo& info_of(Fact fact);
std::optional<Fact> fact_from_name(std::string_view name);
// "12 %", "445 W", "32", "10.5 ms".
std::string fact_text(Fact fact, double value);

enum class Origin : std::uint8_t {
  kMeasured,   // in this run
  kRecorded,   // read from a file
  kDataSheet,  // of the catalog
  kDerived,    // computed from others
};
std::string_view to_string(Origin origin);  // "measured", "recorded", "data sheet", "derived"

struct Datum {
  std::optional<double> value;
  std::string source;  // where it stands: "load.json: levels[3].joined.server_running"
  Origin origin = Origin::kMeasured;
  std::string reason;  // why there is no value
  bool known() const { return value.has_value(); }
};

Datum measured(double value, std::string source);
Datum recorded(double value, std::string source);
Datum derived(double value, std::string source);
Datum missing(std::string reason);

// The floor of a level's step in its parts, ms; null without a model and a machine.
struct FloorParts {
  double expert_weights = 0, other_weights = 0, kv = 0, activations = 0, compute = 0;
  double collectives = 0, launches = 0, pipeline_bubble = 0;
  double total() const {
    return expert_weights + other_weights + kv + activations + compute + collectives + launches +
           pipeline_bubble;
  }
};

// An operation of a rank's step, or the two products of a layer of experts, which one measurement
// covers; `count` times a step.
struct CoveredOp {
  std::string op;  // the ledger's name: "attn.q", "moe.gate_up + moe.down"
  double count = 0;
  double tokens = 0;              // that enter one
  double floor_us = 0;            // of one, by the ledger, launch included
  std::optional<double> time_us;  // of one, alone
  std::string kernel;             // whose: "nibble w4a16", "cuBLASLt bf16"
  std::string reason;             // why there is no time
};

// The operations of a step and which of them were timed alone: a partial sum, never the step.
struct KernelCover {
  std::vector<CoveredOp> ops;
  std::size_t covered() const;
  double ms() const;             // a step, of the covered ones
  double floor_ms() const;       // of the same
  double open_floor_ms() const;  // of those that nothing covers
};

struct LevelEvidence {
  std::string name;  // "64 users"
  std::array<Datum, kFacts> facts;
  Datum& operator[](Fact fact) { return facts[static_cast<std::size_t>(fact)]; }
  const Datum& operator[](Fact fact) const { return facts[static_cast<std::size_t>(fact)]; }
  std::optional<double> get(Fact fact) const { return (*this)[fact].value; }
  std::optional<FloorParts> floor;
  std::string floor_reason;             // why there is none
  std::optional<KernelCover> cover;     // on a GPU like the one that served; see Evidence::gpu
  std::optional<double> prefill_floor;  // ms a step: the ledger's price of the prompts that come in
                                        // while one step runs
  std::optional<double> joules_per_token;  // of the GPUs, an output token; measured
  bool counts = true;                      // complete, or with a steady window
  double start_s = 0, end_s = 0;  // of its window, on the clock of the series; both 0: unknown
};

// A signal over time, thinned; times in s since the run began.
struct Series {
  std::string name;  // "gpu0.power", "server.running", "client.output_rate"
  std::string unit;
  std::vector<std::pair<double, double>> points;
};

// One operation of the served step, from a trace.
struct ServedOp {
  std::string op;                    // the ledger's name; "unmapped"
  double ms = 0;                     // a step
  double count = 0;                  // kernels a step
  std::vector<std::string> kernels;  // the longest first, a few
};
struct TraceEvidence {
  std::string source;
  std::string engine;  // "" where the trace does not tell
  double steps = 0;
  double step_ms = 0;  // mean wall time of a step
  double busy_ms = 0;  // of it with a kernel running
  std::vector<ServedOp> ops;
};

// A kernel timed alone, beside its floor: a row of nibble.bench/1 or of a case.
struct KernelEvidence {
  std::string op;      // the ledger's name, or "gemm"
  std::string kernel;  // whose, which tactic: "nibble avx2", "cuBLASLt"
  std::string shape;
  double tokens = 0;
  double time_us = 0;
  double floor_us = 0;
  double intensity = 0;  // FLOP/B; 0: unknown
  double tflops = 0;     // reached
  std::string source;
};

// A kernel timed alone on a GPU: a row of nibble.bench/1 that names one.
struct GpuRow {
  std::string part;    // "layer" with routing and combine, "dense", ...
  std::string format;  // of the weights: "nvfp4"
  double experts = 1, top_k = 1, n = 0, k = 0, tokens = 0;
  std::optional<double> time_us;  // none: `error` says why
  std::string kernel;
  std::string error;
  GpuConditions conditions;
};

// A rank's step of so many sequences on that GPU.
struct GpuStep {
  std::optional<std::size_t> level;  // of Evidence::levels
  double sequences = 0;
  double floor_ms = 0;  // of the whole step, by the ledger
  KernelCover cover;
};

// The GPU that kernels were timed on, beside the load.
struct GpuEvidence {
  std::string on;                      // "cuda:0"
  GpuRoofs roofs;                      // as measured there, with what the board did meanwhile
  std::optional<MachineSpec> catalog;  // what the data sheet says of it
  std::string source;                  // "bench.json"
  std::vector<GpuRow> rows;
  std::vector<GpuStep> steps;    // of the levels, or of what was timed where there are none
  std::string steps_reason;      // why there is none
  std::string served_elsewhere;  // that the load was not served by such a GPU: nothing of it is
                                 // explained then
};

// What the board did while all of these ran: the middle of clocks, the mean of power, the highest
// temperature, every reason that held.
GpuConditions conditions_over(const std::vector<GpuRow>& rows);

// What does not change from level to level.
struct Setting {
  std::string title;   // "nibble-tiny on AMD EPYC, 2 cores"
  std::string engine;  // "nibble", "vllm", "sglang", "trtllm", "llamacpp"; "" unknown
  std::string engine_version;
  std::string model;
  std::string machine;
  bool is_cpu = false;
  std::int64_t gpus = 1, tp = 1, pp = 1, ep = 1;
  std::optional<double> max_running;  // the server's configured cap
  std::optional<double> power_limit_w;
  std::optional<double> copy_power_w;                 // of one GPU that copies its memory
  std::optional<double> clock_mhz;                    // the most that the data sheet gives
  std::optional<double> link_generation, link_width;  // what the link should be under load
  std::optional<double> throttle_temperature_c;
  std::optional<bool> prompts_unique;  // the load's prompts were drawn to be
  std::string tactic;                  // that the server says it runs: "avx2"
  std::string best_tactic;             // that this machine could run
  std::vector<std::string> notes;
};

struct Evidence {
  Setting setting;
  std::vector<LevelEvidence> levels;  // by kUsers, ascending
  // The level that the whole is told by, where a document says which; else the classifier chooses.
  std::optional<std::size_t> told_by = std::nullopt;
  std::vector<Series> series;
  std::vector<std::pair<std::string, std::pair<double, double>>> phases;  // level name, start, end
  std::optional<TraceEvidence> trace;
  std::string trace_reason;
  std::vector<KernelEvidence> kernels;
  std::string kernels_reason;
  std::optional<GpuEvidence> gpu;
  Json roofs;                // of the machine, with sources, for the roofline; null: none
  Json sources;              // provenance: what was read or run, in order: [{what, from, when}]
  std::int64_t zero_ns = 0;  // CLOCK_MONOTONIC of the client's host at 0 s of series and windows
};

}  // namespace nibble::diagnose
