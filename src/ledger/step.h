// The step ledger: what one decode step, or one prefill chunk, costs on the busiest rank.
//
//   Deployment deployment{.model = model, .machine = machine, .layout = {.tp = 8}};
//   NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(deployment));
//   NIBBLE_ASSIGN_OR_RETURN(const Step step, ledger.decode(1024));
//   step.step_us, step.tokens_per_s, step.ops
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/collective.h"
#include "ledger/layout.h"
#include "ledger/op.h"
#include "ledger/routing.h"
#include "ledger/tile.h"
#include "machine/spec.h"
#include "model/spec.h"

namespace nibble {

struct Deployment {
  ModelSpec model;
  MachineSpec machine;
  ParallelLayout layout;
  Routing routing = Routing::uniform();
  std::optional<Format> kv_format;             // default: the checkpoint's, else bf16
  std::optional<Format> activations;           // default: what the checkpoint's rules say
  double context = 4096;                       // tokens already in the cache per sequence
  double bandwidth_efficiency = 1.0;           // share of the machine's bandwidth taken as the roof
  std::optional<LinkSpeed> link;               // default: the machine's first link
  AllReduce all_reduce = AllReduce::kFastest;  // a floor: the better of one-shot and two-shot
  std::optional<double> launch_gap_us;         // default: the machine's, else 1
  std::int64_t draft_tokens = 0;    // speculative: rows per sequence are 1 + draft_tokens
  double memory_utilization = 0.9;  // share of memory that weights and KV may take
  std::optional<TileShape> tile;    // adds tile and wave coverage to GEMMs

  Format effective_kv_format() const;
  LinkSpeed effective_link() const;
  double effective_launch_gap_us() const;
};

struct Step {
  double concurrency = 0;   // sequences of the whole deployment
  double rows = 0;          // tokens that enter the model per step, whole deployment
  double step_us = 0;       // for every sequence to advance by one step
  double tokens_per_s = 0;  // whole deployment, one token per sequence and step
  double tokens_per_s_per_sequence = 0;
  std::optional<RoutingStats> routing;  // per microbatch; none for dense models
  // Per GPU and step (all microbatches), on the busiest rank of the slowest stage:
  double weight_bytes = 0;
  double scale_bytes = 0;  // of which
  double kv_bytes = 0;
  double activation_bytes = 0;
  double link_bytes = 0;
  double flop = 0;
  double memory_us = 0;   // sums over operations of bytes / bandwidth,
  double compute_us = 0;  // FLOP / peak,
  double link_us = 0;     // collectives and transfers,
  double launch_us = 0;   // and gaps between kernels
  // The same time by what binds each operation; with the bubble they add up to step_us:
  double bound_memory_us = 0;
  double bound_compute_us = 0;
  double bound_link_us = 0;
  double bound_launch_us = 0;       // gaps, and operations shorter than their gap
  double weights_and_kv_us = 0;     // (weights + KV) / bandwidth: what simple models call the step
  Regime regime = Regime::kMemory;  // the largest of the four bound times
  double tensor_activity = 0;
  double dram_activity = 0;
  double pipeline_bubble_us = 0;
  std::int64_t stage = 0;  // the stage that the ops are of
  double microbatches = 1;
  std::vector<Op> ops;  // counts are per step
};

struct Capacity {
  double weight_bytes_per_gpu = 0;  // resident, MTP left out
  double kv_bytes_per_token = 0;    // on one GPU, of one token of one sequence
  double budget_bytes = 0;          // memory x utilization - weights; negative: does not fit
  double tokens = 0;                // whole deployment
  std::int64_t stage = 0;           // the pipeline stage with least room, which these are of
  std::string limit;                // sentence when the weights alone do not fit
  double sequences(double tokens_each) const;  // whole sequences that fit
};

struct LayerClass;  // ledger/operations.h
struct Pass;

// A deployment whose weights are laid out once; each step is then cheap to price.
class Ledger {
 public:
  // Refuses a layout that does not divide the model (ledger/layout.h) and numbers out of range.
  static Result<Ledger> make(Deployment deployment);
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  const Deployment& deployment() const { return deployment_; }

  // Sequences are spread evenly over attention groups and microbatches; the busiest rank of the
  // slowest stage is priced.
  Result<Step> decode(double concurrency) const;
  // One chunk of `tokens` prompt tokens of `sequences` sequences with `past` tokens each in the
  // cache, over the whole deployment.
  Result<Step> prefill(double tokens, double sequences, double past) const;

  Capacity capacity() const;

 private:
  explicit Ledger(Deployment deployment);
  void classify_layers();
  Result<Step> price(const Pass& pass, double microbatches) const;
  std::vector<Op> stage_ops(const Pass& pass, const RoutingStats* routing, std::size_t stage) const;
  void price_op(Op& op) const;

  Deployment deployment_;
  std::vector<LayerClass> classes_;
  std::vector<Weight> outer_;
};

// Ledger::make and one call, for who needs a single answer.
Result<Step> decode_step(const Deployment& deployment, double concurrency);
Result<Step> prefill_chunk(const Deployment& deployment, double tokens, double sequences,
                           double past);
Result<Capacity> kv_capacity(const Deployment& deployment);

// Bytes of cache that a token occupies in one layer: bf16 MLA 1152, FlashMLA fp8 656, index 132.
double kv_bytes_per_token_and_layer(const AttentionSpec& attention, Format kv,
                                    std::int64_t attention_tp);
double index_bytes_per_token(const IndexerSpec& indexer);

Json to_json(const Op& op);
Json to_json(const Step& step);  // a member of `levels[]` of nibble.ledger/1
Json to_json(const Capacity& capacity);
// What the floor assumes, in sentences (`assumptions[]` of nibble.ledger/1).
std::vector<std::string> assumptions(const Deployment& deployment);

}  // namespace nibble
