// What an engine and its GPUs are made of, in a script: the mechanisms of a step. Times, queues and
// telemetry follow from them; nothing that a load test or a diagnosis looks at is scripted itself.
//
//   MockScript script;
//   script.steps = StepsScript{.weights_ms = 8, .per_sequence_ms = 0.05};
//   script.steps->collectives = {.count = 120, .latency_us = 10};
//   script.gpu.power_cap_w = 400;
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nibble::mock {

// Nothing leaves a collective before all ranks have come and the bytes have travelled:
// count x (latency + rows x bytes_per_row / gb_s), a row for each token of the step.
struct Collectives {
  std::int64_t count = 0;  // a step
  double latency_us = 10;
  double bytes_per_row = 0;
  double gb_s = 450;  // of the whole link; that of GpuScript may be a worse one
};

struct StepsScript {
  std::int64_t prefill_chunk_tokens = 2048;  // of prompts in one step, at most
  double weights_ms = 10;                    // to read all weights
  double kv_ms_per_1k_tokens = 0.02;   // to read so much of the cache, of requests that decode
  double per_sequence_ms = 0.02;       // to compute the row of a request that decodes
  double prefill_ms_per_token = 0.02;  // to compute a token of a prompt
  Collectives collectives = {};
  double host_gap_ms = 0;       // after each step the device idles so long
  std::int64_t ranks = 1;       // GPUs
  double slow_rank_factor = 1;  // the last of them takes so much longer for weights and computing
  double clock_factor = 1;      // the clock as it was set; computing takes so much longer
  double noise = 0;             // relative standard deviation of a step's length
};

// Temperature follows power with a lag; above the limit the clock falls by 2 % a degree.
struct Heat {
  double ambient_c = 30;
  double c_per_w = 0.05;
  double seconds = 10;  // after which 63 % of a change has come
  double limit_c = 87;
};

struct GpuScript {
  std::string name = "NVIDIA H200";
  double idle_w = 117;
  double copy_w = 419;     // while it reads weights or cache
  double matrix_w = 691;   // while it computes
  double waiting_w = 140;  // in collectives
  double limit_w = 700;
  std::optional<double> power_cap_w = std::nullopt;  // a lower limit that somebody has set
  Heat heat = {};
  double clock_mhz = 1980;
  std::int64_t link_generation = 5;
  std::int64_t link_generation_max = 5;
  std::int64_t link_width = 16;
  std::int64_t link_width_max = 16;
};

// W that the GPU may draw.
double power_limit_w(const GpuScript& gpu);
// Of the link's best bandwidth, which doubles with each generation.
double link_share(const GpuScript& gpu);

}  // namespace nibble::mock
