// A deployment as somebody measured it: `nibble.case/1` (docs/schemas/nibble.case.1.json).
//
//   NIBBLE_ASSIGN_OR_RETURN(const Case found, load_case("glm5_rtxpro6000"));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/format.h"
#include "ledger/layout.h"

namespace nibble {

// A GEMM that somebody timed alone. Without m, n, k (`shape` in words) only the rate is known.
// `path`, here and below, is the field of the document that the numbers stand in: "kernels[1]".
struct MeasuredKernel {
  std::string path;
  std::string op;                 // "gemm"
  Format format = Format::kBf16;  // of the weights
  Format activations = Format::kBf16;
  std::string library;
  std::string shape;  // "large", when m, n, k are not stated
  std::optional<double> m, n, k;
  std::optional<double> tflops;  // one of the two is given
  std::optional<double> time_us;
  bool approximate = false;
  std::optional<bool> cold;  // weights from DRAM; nullopt: not stated
};

struct LatencySummary {
  std::optional<double> mean, p50, p95, p99, max;  // ms
};

struct GpuSamples {  // one number a GPU
  std::vector<double> power_w, utilization_pct, sm_mhz;
};

struct MeasuredLevel {
  std::string path;
  double concurrency = 0;
  std::optional<double> output_tok_s, total_tok_s;
  std::optional<LatencySummary> itl_ms, ttft_ms;
  std::optional<double> queue_length;
  std::optional<GpuSamples> gpus;
};

struct MeasuredLayout {
  std::string path;
  ParallelLayout layout;
  double concurrency = 0;
  std::optional<double> output_tok_s, total_tok_s;
  bool approximate = false;
};

// A number that somebody states about the model or the machine, to be held against our own.
struct Claim {
  std::string path;
  std::string what;    // "parameters"
  double value = 0;    // 405e9
  std::string unit;    // ""
  std::string source;  // "one account"
};

struct Case {
  std::string name;
  std::string source;
  // model: the name finds the catalog's configuration; the numbers override it.
  std::string model_name;
  std::optional<std::int64_t> experts, experts_per_token, hidden, moe_intermediate, layers;
  // machine: likewise.
  std::string gpu;
  std::int64_t gpus = 1;
  std::string link;  // in words
  std::optional<double> link_gb_s, link_latency_us;
  std::optional<double> sms, bandwidth_gb_s, power_limit_w, memory_gb;
  std::vector<double> fp4_tflops_quoted;  // one number or a range
  std::string fp4_tflops_quoted_is;       // "sparse (assumed)", "dense", ...
  std::optional<double> fp4_tflops_dense_assumed;
  std::vector<double> shared_memory_per_block_kb_reported;
  // server
  std::string engine;
  ParallelLayout layout;  // TP over all GPUs when the case states none
  bool layout_stated = false;
  std::optional<std::int64_t> max_running_requests;
  std::optional<Format> kv_format;
  std::vector<MeasuredKernel> kernels;
  std::vector<std::string> tactics_failed;  // "128x256"
  // load
  std::string dataset;
  std::optional<double> input_len, output_len;  // tokens
  std::string request_rate;
  std::vector<MeasuredLevel> levels;  // by concurrency
  std::vector<MeasuredLevel> after_tuning;
  std::vector<MeasuredLayout> layouts_compared;
  std::vector<Claim> claims;
  std::vector<std::string> notes;
};

// Unknown fields, impossible values (percent over 100, negative times) and contradictions are input
// errors that name the field.
Result<Case> parse_case(const Json& json, std::string_view where);

// A built-in case's name, or a file.
Result<Case> load_case(std::string_view name_or_path);
std::vector<std::string> case_catalog();
std::optional<std::string_view> built_in_case(std::string_view name);  // its JSON text

}  // namespace nibble
