#include "engine/models/qwen3_moe.h"

#include <utility>

#include "kernels/moe/activation.h"
#include "kernels/norm/rms_norm.h"

namespace nibble::engine {
namespace {

// About what a value of a head takes: its norm and its rotation.
constexpr double kHeadValueNs = 0.7;

}  // namespace

Qwen3Moe::Qwen3Moe(Qwen3MoeWeights weights)
    : weights_(std::move(weights)), moe_ended_([this](std::string_view op) { ended(op); }) {}

void Qwen3Moe::forward(const ForwardBatch& batch, std::span<float> logits, ThreadPool& pool,
                       StepProbe* probe) {
  const Qwen3MoeConfig& config = weights_.config;
  probe_ = probe;
  begin(batch);
  const std::span<float> residual = rows(residual_, config.hidden);
  const std::span<float> normed = rows(normed_, config.hidden);
  const std::span<float> delta = rows(delta_, config.hidden);
  weights_.embedding.look_up(batch.tokens, residual);
  ended("embed");
  for (std::size_t number = 0; number < weights_.layers.size(); ++number) {
    const Layer& layer = weights_.layers[number];
    rms_norm({.x = residual,
              .add = number == 0 ? std::span<float>() : delta,
              .weight = layer.attention_norm,
              .columns = config.hidden,
              .epsilon = config.epsilon,
              .output = normed},
             pool);
    ended("attn.norm");
    layer.qkv.multiply(normed, inputs_, rows(qkv_, qkv_width()), pool);
    ended("attn.qkv");
    attend(layer, static_cast<std::int64_t>(number), pool);
    ended("attn.core");
    layer.out.multiply(rows(attended_, config.heads * config.head_dim), inputs_, delta, pool);
    ended("attn.out");
    rms_norm({.x = residual,
              .add = delta,
              .weight = layer.ffn_norm,
              .columns = config.hidden,
              .epsilon = config.epsilon,
              .output = normed},
             pool);
    ended("ffn.norm");
    feed_forward(number, pool);
  }
  const std::span<float> wanted = take_wanted_rows(batch);
  rms_norm({.x = wanted,
            .weight = weights_.norm,
            .columns = config.hidden,
            .epsilon = config.epsilon,
            .output = wanted},
           pool);
  weights_.head.multiply(wanted, inputs_, logits, pool);
  ended("lm_head");
}

// Norms of heads, rotation, the cache, attention: qkv_ -> attended_.
void Qwen3Moe::attend(const Layer& layer, std::int64_t number, ThreadPool& pool) {
  const Qwen3MoeConfig& config = weights_.config;
  const std::int64_t width = qkv_width();
  const std::int64_t key_column = config.heads * config.head_dim;
  const std::span<float> qkv = rows(qkv_, width);
  WorkQueue queue(rows_);
  pool.run_for(kHeadValueNs * static_cast<double>(qkv.size()), [&](int) {
    while (const auto row = queue.next()) turn_heads(layer, *row);
  });
  cache_.write({.rows = qkv,
                .stride = width,
                .key_column = key_column,
                .value_column = key_column + config.kv_heads * config.head_dim,
                .sequences = sequences_},
               number, pool);
  attention({.queries = qkv,
             .stride = width,
             .heads = config.heads,
             .cache = cache_,
             .layer = number,
             .sequences = sequences_,
             .workspace = attention_,
             .output = rows(attended_, key_column)},
            config.options.isa, pool);
}

// Norms and rotation of one row's heads, on the calling thread.
void Qwen3Moe::turn_heads(const Layer& layer, std::int64_t row) {
  const Qwen3MoeConfig& config = weights_.config;
  const std::int64_t width = qkv_width();
  const std::int64_t half = config.head_dim / 2;
  const auto of_row = [row](std::span<float> all, std::int64_t columns) {
    return all.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns));
  };
  const std::span<float> qkv = of_row(rows(qkv_, width), width);
  if (!layer.q_norm.empty()) {
    norm_heads(qkv, 0, config.heads, layer.q_norm);
    norm_heads(qkv, config.heads * config.head_dim, config.kv_heads, layer.k_norm);
  }
  rotate({.x = qkv,
          .stride = width,
          .heads = config.heads + config.kv_heads,
          .head_dim = config.head_dim,
          .cosines = of_row(rows(cosines_, half), half),
          .sines = of_row(rows(sines_, half), half)},
         alone_);
}

void Qwen3Moe::norm_heads(std::span<float> qkv, std::int64_t begin, std::int64_t heads,
                          std::span<const float> weight) {
  rms_norm({.x = qkv,
            .weight = weight,
            .columns = weights_.config.head_dim,
            .begin = begin,
            .vectors = heads,
            .stride = qkv_width(),
            .epsilon = weights_.config.epsilon,
            .output = qkv},
           alone_);
}

// normed_ -> delta_.
void Qwen3Moe::feed_forward(std::size_t number, ThreadPool& pool) {
  const Layer& layer = weights_.layers[number];
  if (!layer.moe) {
    run_mlp(*layer.mlp, "dense.gate_up", "dense.down", pool);
    return;
  }
  const std::span<float> x = rows(normed_, weights_.config.hidden);
  const std::span<float> delta = rows(delta_, weights_.config.hidden);
  std::span<const float> shared;
  if (layer.mlp) {
    run_mlp(*layer.mlp, "shared.gate_up", "shared.down", pool);
    if (!layer.shared_gate.empty()) weigh_rows({.x = x, .gate = layer.shared_gate, .rows = delta});
    shared = delta;
  }
  moe({.layer = *layer.moe,
       .workspace = moe_[workspace_of_[number]],
       .x = x,
       .shared = shared,
       .y = delta,
       .ended = &moe_ended_},
      pool);
  count_experts(number);
}

// Of the layer that has just run.
void Qwen3Moe::count_experts(std::size_t number) {
  const std::span<const std::int32_t> offsets = moe_[workspace_of_[number]].offsets();
  const std::span<std::int64_t> counts =
      std::span(expert_tokens_).subspan(number * static_cast<std::size_t>(experts_));
  for (std::size_t expert = 0; expert + 1 < offsets.size(); ++expert) {
    counts[expert] += offsets[expert + 1] - offsets[expert];
  }
}

void Qwen3Moe::run_mlp(const Mlp& mlp, std::string_view gate_up, std::string_view down,
                       ThreadPool& pool) {
  const std::int64_t intermediate = mlp.down.columns();
  const std::span<float> both = rows(gate_up_, 2 * intermediate);
  const std::span<float> activated = rows(activated_, intermediate);
  mlp.gate_up.multiply(rows(normed_, weights_.config.hidden), inputs_, both, pool);
  activate({.gate_up = both, .intermediate = intermediate, .output = activated},
           weights_.config.options.isa, pool);
  ended(gate_up);
  mlp.down.multiply(activated, inputs_, rows(delta_, weights_.config.hidden), pool);
  ended(down);
}

}  // namespace nibble::engine
