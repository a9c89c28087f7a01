// Documents by hand for the tests of the readers.
#pragma once

#include <string_view>

#include "base/json.h"

namespace nibble::diagnose {

inline Json json_of(std::string_view text) {
  return Json::parse(text, "test").value();
}

// Two GPUs, a server with its counters, a steady window of 10 s that is long enough.
inline constexpr std::string_view kLoadText = R"({
  "schema": "nibble.load/1", "date": "20261130-101500", "model_id": "toy",
  "setup": {
    "dataset": "random", "dataset_options": {"random_prefix_len": 0}, "notes": ["a note"],
    "host": {"cpu": "client"},
    "server": {"engine": "sglang", "version": "0.5", "models": null, "props": null,
               "server_info": {"max_running_requests": 32, "tp_size": 2}}},
  "series": {
    "t0_ns": 1000000000, "bin_s": 1, "telemetry_reason": null,
    "levels": [{"name": "64 users", "start_s": 4, "end_s": 14}],
    "signals": [{"name": "gpu0.power", "unit": "W", "points": [[0.5, 300], [1.5, 310]]}]},
  "levels": [{
    "level": 0, "max_concurrency": 64, "request_rate": "inf", "complete": true,
    "completed": 90, "failed": 10, "mean_in_flight": 60, "output_throughput": 900,
    "mean_ttft_ms": 1, "mean_tpot_ms": 1, "median_itl_ms": 1, "p99_itl_ms": 1,
    "rate_drift": -0.1, "repeated_prompts": 0.25,
    "output_throughput_ci": {"half_width": 0.02, "reason": null},
    "steady": {
      "reason": null, "enough": true, "start_ns": 5000000000, "stop_ns": 15000000000,
      "completed": 40, "failed": 10, "mean_in_flight": 64, "output_throughput": 1000,
      "request_throughput": 4, "total_input_tokens": 4000, "total_output_tokens": 10000,
      "cached_fraction": 0.5, "degenerate": 2, "repeated_prompts": 0.5,
      "mean_ttft_ms": 800, "mean_tpot_ms": 55, "median_itl_ms": 50, "p99_itl_ms": 90},
    "joined": {
      "window": "steady window", "server_running": 32, "server_waiting": 30,
      "server_kv_usage": 0.4, "server_preemptions": 10, "gpu_power_w": 640,
      "gpu_tensor_activity": null, "gpu_dram_activity": 0.5, "gpu_sm_activity": 0.9,
      "gpu_sm_clock_mhz": 1500, "gpu_throttled": 0.3, "host_cpu": 0.2,
      "joules_per_output_token": 0.64, "joules_per_total_token": 0.3,
      "reasons": {"gpu_tensor_activity": "not from Hopper on"}},
    "telemetry": {"begin_ns": 5000000000, "end_ns": 15000000000, "signals": [
      {"name": "gpu0.power", "unit": "W", "n": 9, "mean": 300, "p50": 300, "min": 1, "max": 400},
      {"name": "gpu1.power", "unit": "W", "n": 9, "mean": 340, "p50": 340, "min": 1, "max": 400},
      {"name": "gpu0.power_limit", "unit": "W", "n": 2, "mean": 400, "p50": 400, "min": 400,
       "max": 400},
      {"name": "gpu0.utilization", "unit": "%", "n": 2, "mean": 98, "p50": 98},
      {"name": "gpu1.utilization", "unit": "%", "n": 2, "mean": 100, "p50": 100},
      {"name": "gpu0.dram_active", "unit": "%", "n": 2, "mean": 40, "p50": 40},
      {"name": "gpu1.dram_active", "unit": "%", "n": 2, "mean": 60, "p50": 60},
      {"name": "gpu0.temperature", "unit": "C", "n": 2, "mean": 60, "p50": 60, "max": 66},
      {"name": "gpu1.temperature", "unit": "C", "n": 2, "mean": 61, "p50": 61, "max": 71},
      {"name": "gpu0.pcie_generation", "unit": "", "n": 2, "mean": 5, "p50": 5, "min": 1},
      {"name": "gpu1.pcie_generation", "unit": "", "n": 2, "mean": 3, "p50": 3, "min": 3},
      {"name": "gpu0.pcie_generation_max", "unit": "", "n": 2, "mean": 5, "p50": 5},
      {"name": "gpu0.throttle_power", "unit": "s", "difference": 2, "per_s": 0.2},
      {"name": "gpu1.throttle_power", "unit": "s", "difference": 4, "per_s": 0.4},
      {"name": "gpu0.throttle_thermal", "unit": "s", "difference": 0, "per_s": 0},
      {"name": "gpu1.throttle_thermal", "unit": "s", "difference": 0, "per_s": 0},
      {"name": "gpu0.clock_sm_max", "unit": "MHz", "n": 1, "mean": 1980, "p50": 1980},
      {"name": "server.steps", "unit": "steps", "difference": 200, "per_s": 20},
      {"name": "server.step_time", "unit": "s", "difference": 8, "per_s": 0.8},
      {"name": "server.prompt_tokens", "unit": "tokens", "difference": 5000, "per_s": 500},
      {"name": "server.prefix_hits", "unit": "tokens", "difference": 2000, "per_s": 200},
      {"name": "server.expert_load_ratio", "unit": "ratio", "n": 5, "mean": 2.5, "p50": 2.5}]},
    "client_overhead": {"loop_lag_p99_ms": 0.5, "loop_cpu_share": 0.25}
  }]})";

}  // namespace nibble::diagnose
