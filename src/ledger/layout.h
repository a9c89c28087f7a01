// How a deployment is cut over GPUs.
//
//   ParallelLayout{.tp = 8}                            attention and experts split over 8 GPUs
//   ParallelLayout{.tp = 8, .dp_attention = true}      SGLang: attention data-parallel, experts
//   over 8 ParallelLayout{.tp = 1, .dp = 8, .ep = 8}          vLLM's words for the same with whole
//   experts ParallelLayout{.tp = 4, .pp = 2}                   two stages of 4
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/spec.h"

namespace nibble {

struct ParallelLayout {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;            // data-parallel attention groups of `tp` GPUs each
  std::int64_t ep = 1;            // divides tp * dp; experts are split over ep ranks
  bool dp_attention = false;      // attention data-parallel inside the tp group
  std::int64_t microbatches = 0;  // in flight over pipeline stages; 0: pp of them

  std::int64_t gpus() const { return tp * pp * dp; }
  std::int64_t stage_gpus() const { return tp * dp; }                  // GPUs of one stage
  std::int64_t attention_tp() const { return dp_attention ? 1 : tp; }  // heads are split over
  std::int64_t attention_dp() const {
    return stage_gpus() / attention_tp();
  }  // sequences are split over
  std::int64_t moe_ep() const { return ep; }
  std::int64_t moe_tp() const { return stage_gpus() / ep; }  // an expert is split over
  std::int64_t in_flight() const { return microbatches > 0 ? microbatches : pp; }

  std::string describe() const;  // "TP4 x PP2", "TP8 + DP attention, EP8"
  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};

// Refuses zero and negative numbers, an ep that does not divide tp*dp or exceeds the experts, more
// stages than layers, heads or intermediate sizes that do not divide; the sentence has the numbers.
Result<> validate(const ParallelLayout& layout, const ModelSpec& model);

Json to_json(const ParallelLayout& layout);

}  // namespace nibble
