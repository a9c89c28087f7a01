#include "bench/cuda_predict.h"

#include <algorithm>
#include <cmath>

#include "kernels/gemm/device/w4a16_layout.h"
#include "kernels/moe/device/moe_shape.h"
#include "kernels/moe/device/one_launch_params.h"

namespace nibble {
namespace {

// Fitted to the times of docs/measured/h200_*.json (2026-12-01) but those of h200_predicted.json;
// `nibble_bench_test --gtest_filter='CudaPredictTables.*'` shows what is left.
constexpr double kStartUs = 7.4;  // of a product: tables, barriers, the first bytes, the last store
constexpr double kOtherLaunchUs = 2.5;       // of routing, gather and combine, their work included
constexpr double kReachedOfReadRoof = 0.94;  // by copies of weights and tokens together
constexpr double kLaneOperations = 2.3;      // of a weight: 13 instructions for eight, loads, waits
constexpr double kEpilogueUs = 0.5;          // of a tile; its stores run beside the next one
constexpr double kShareUs = 0.45;            // of giving sums away, and of each taking
constexpr double kOverlap = 7;               // 1: copies and arithmetic in turn; large: at once

// Fitted to 30 layers of six models with 1 to 16 tokens in one launch, which it meets within 8 %.
constexpr double kOneLaunchUs = 9.5;  // routing, the first bytes, the counter, the last sums
constexpr double kSlabClocks = 24;    // of an SM, for 16 rows by 64 columns
constexpr double kItemClocks = 68;    // for what slabs of the same columns have in common

// Of Hopper.
constexpr double kSmLanes = 128;     // lane operations an SM issues in a clock
constexpr double kPortBytes = 64;    // that come into an SM in a clock
constexpr double kLeastClocks = 16;  // of wgmma, 64 rows by 16 columns, however few tokens

constexpr double kPredictedValueBytes = 2;  // of activations and outputs
constexpr double kSumBytes = 4;
constexpr double kWgmmaRows = 64;
constexpr double kMmaColumns = 16;

double real(std::int64_t count) {
  return static_cast<double>(count);
}

// What follows from one product, its cut and the GPU.
class ProductModel {
 public:
  ProductModel(const CudaProduct& product, const CudaRates& rates)
      : product_(product),
        tactic_(product.tactic),
        rates_(rates),
        cut_(cut_of(product, rates.sms)) {}

  // Blocks whose rows are cut off copy less, but their clusters' others do not, and end last: all
  // count as whole ones.
  double ingress_us() const {
    const double blocks = cut_.row_tiles * real(tactic_.cluster);
    const double columns = real(chunks_of(product_.k) * kChunk);
    const double weights = blocks * real(tactic_.tile_rows) * columns * tactic_.weight_bytes;
    const double tokens = blocks * cut_.tile_tokens * columns * kPredictedValueBytes;
    return cut_.passes * (weights + tokens) / (kReachedOfReadRoof * bytes_a_us(rates_.read_gb_s));
  }

  double dram_us() const { return product_.bytes / bytes_a_us(rates_.read_gb_s); }

  double port_us() const {
    const double weights = real(tactic_.tile_rows) * tactic_.weight_bytes;
    const double tokens = cut_.tile_tokens * kPredictedValueBytes;
    return sm_units() * real(tactic_.step_columns) * (weights + tokens) / (kPortBytes * clocks());
  }

  // mma.sync leaves out groups of tokens that are not there, wgmma does an instruction's width.
  double multiply_us() const {
    const bool mma = tactic_.unit == MatrixUnit::kMma;
    const double tokens = mma ? cut_.tile_tokens : cut_.tile_width;
    const double roof = mma ? rates_.mma_tflops : rates_.matrix_tflops;
    const double flop_us = 2 * sm_weights() * tokens / (roof * 1e6 / rates_.sms);
    if (mma) return flop_us;
    const double instructions = sm_weights() / (kWgmmaRows * kMmaColumns);
    return std::max(flop_us, instructions * std::max(tokens / 2, kLeastClocks) / clocks());
  }

  double dequantize_us() const { return sm_weights() * kLaneOperations / (kSmLanes * clocks()); }

  double epilogue_us() const { return std::max(1.0, cut_.units / cut_.steps) * kEpilogueUs; }

  double sums_us() const {
    const double bytes = real(tactic_.tile_rows) * cut_.tile_tokens * kSumBytes;
    return kShareUs * (1 + cut_.takes) + cut_.takes * bytes / (kPortBytes * clocks());
  }

 private:
  static double bytes_a_us(double gb_s) { return gb_s * 1e3; }
  double clocks() const { return rates_.clock_ghz * 1e3; }  // a microsecond
  double sm_units() const { return cut_.units * real(tactic_.blocks_per_sm); }
  double sm_weights() const {  // that an SM has to do with, again and again
    return sm_units() * real(tactic_.tile_rows) * real(tactic_.step_columns);
  }

  const CudaProduct& product_;
  const CudaTactic& tactic_;
  const CudaRates& rates_;
  WorkCut cut_;
};

// What a tile with so many tokens is multiplied as.
std::int64_t width_of(const CudaTactic& tactic, std::int64_t tokens) {
  std::int64_t width = tactic.tile_tokens;
  for (const std::int64_t narrower : tactic.widths) {
    if (narrower >= tokens) width = narrower;
  }
  return width;
}

// Tiles of an expert, and the width that these are multiplied as on average.
struct ExpertTiles {
  double tiles = 0;
  double width = 0;
};

// The mean width in that part which has the widest tiles. Parts have alike many, one expert's after
// the other's: one with many tokens fills whole parts, whose blocks are the last to end.
double widest_part(const std::vector<ExpertTiles>& experts, double tiles_a_part) {
  double widest = 0;
  double room = tiles_a_part;  // of the part that is being filled
  double sum = 0;              // of its widths
  for (const ExpertTiles& expert : experts) {
    double left = expert.tiles;
    while (left > 0) {
      const double taken = std::min(left, room);
      sum += taken * expert.width;
      left -= taken;
      room -= taken;
      if (room > 0) continue;
      widest = std::max(widest, sum / tiles_a_part);
      room = tiles_a_part;
      sum = 0;
    }
  }
  return room < tiles_a_part ? std::max(widest, sum / (tiles_a_part - room)) : widest;
}

// Sums of others that the block adds which has a tile's beginning.
double takes_of(const WorkCut& cut, bool split) {
  if (!split || std::fmod(cut.units, cut.steps) == 0) return 0;
  return cut.units == 1 ? cut.steps - 1 : std::ceil(cut.steps / cut.units);
}

}  // namespace

std::optional<CudaRates> rates_of(const GpuRoofs& roofs, double clock_ghz) {
  const auto read = roofs.value("read_gb_s");
  const auto copy = roofs.value("copy_gb_s");
  const auto mma = roofs.value("mma_bf16_tflops");
  if (!read || !copy || !mma || !(clock_ghz > 0) || roofs.sms < 1) return std::nullopt;
  return CudaRates{.read_gb_s = *read,
                   .copy_gb_s = *copy,
                   .matrix_tflops = std::max(roofs.value("bf16_tflops").value_or(0), *mma),
                   .mma_tflops = *mma,
                   .graph_us = roofs.value("graph_launch_us").value_or(0),
                   .gap_us = roofs.value("graph_gap_programmatic_us").value_or(0),
                   .sms = static_cast<double>(roofs.sms),
                   .clock_ghz = clock_ghz};
}

WorkCut cut_of(const CudaProduct& product, double sms) {
  const CudaTactic& tactic = product.tactic;
  std::int64_t passes = 0;
  std::int64_t slots = 0;
  const RowOrder order = tactic.halves_outputs ? RowOrder::kGateUp : RowOrder::kPlain;
  const WeightTiles tiles = weight_tiles(product.n, product.k, 0, order);
  const std::int64_t row_tiles =
      ceil_div(tiles.blocks, tactic.tile_rows / kTileRows * tactic.cluster);
  std::vector<ExpertTiles> experts;
  for (const std::int64_t tokens : product.tokens) {
    if (tokens == 0) continue;
    const std::int64_t rest = tokens % tactic.tile_tokens;
    const std::int64_t of_expert = ceil_div(tokens, tactic.tile_tokens);
    const std::int64_t widths = tokens - rest + (rest > 0 ? width_of(tactic, rest) : 0);
    passes += of_expert;
    slots += ceil_div(tokens, kSlotGroup) * kSlotGroup;
    experts.push_back(
        {.tiles = real(of_expert * row_tiles), .width = real(widths) / real(of_expert)});
  }
  if (passes == 0) return {};
  const std::int64_t steps = ceil_div(tiles.chunks, tactic.step_columns / kChunk);
  const std::int64_t clusters = std::max<std::int64_t>(
      static_cast<std::int64_t>(sms) * tactic.blocks_per_sm / tactic.cluster, 1);
  const std::int64_t all = passes * row_tiles;
  WorkCut cut{.passes = real(passes),
              .tile_tokens = real(slots) / real(passes),
              .row_tiles = real(row_tiles),
              .steps = real(steps),
              .clusters = real(clusters),
              .units = real(tactic.split ? ceil_div(all * steps, clusters)
                                         : ceil_div(all, clusters) * steps)};
  cut.tile_width = widest_part(experts, cut.units / cut.steps);
  cut.takes = takes_of(cut, tactic.split);
  return cut;
}

double ProductTime::us() const {
  const double memory_us = std::max({ingress_us, dram_us, port_us});
  const double sm_us = multiply_us + dequantize_us + epilogue_us;
  const double both_us =
      std::pow(std::pow(memory_us, kOverlap) + std::pow(sm_us, kOverlap), 1 / kOverlap);
  return both_us + start_us + sums_us;
}

ProductTime product_time(const CudaProduct& product, const CudaRates& rates) {
  const ProductModel model(product, rates);
  return {.ingress_us = model.ingress_us(),
          .dram_us = model.dram_us(),
          .port_us = model.port_us(),
          .multiply_us = model.multiply_us(),
          .dequantize_us = model.dequantize_us(),
          .epilogue_us = model.epilogue_us(),
          .sums_us = model.sums_us(),
          .start_us = kStartUs};
}

double predict_product_us(const CudaProduct& product, const CudaRates& rates) {
  const bool any = std::any_of(product.tokens.begin(), product.tokens.end(),
                               [](std::int64_t tokens) { return tokens > 0; });
  return any ? product_time(product, rates).us() : 0;
}

CudaLayer layer_to_predict(const BenchShape& shape, std::int64_t tokens, const ExpertCounts& counts,
                           const CudaTactic& gate_up, const CudaTactic& down) {
  const bool fused =
      is_fused_route(static_cast<int>(shape.experts), static_cast<int>(shape.top_k), tokens);
  const double hidden = real(shape.k);
  return {.products = {{.n = 2 * shape.n,
                        .k = shape.k,
                        .tokens = counts.tokens,
                        .bytes = part_work(shape, ProductPart::kGateUp, tokens, counts).bytes(),
                        .tactic = gate_up},
                       {.n = shape.k,
                        .k = shape.n,
                        .tokens = counts.tokens,
                        .bytes = part_work(shape, ProductPart::kDown, tokens, counts).bytes(),
                        .tactic = down}},
          // Routing, gather, combine; beyond some tokens top-k is a launch of its own.
          .other_launches = fused ? 3.0 : 4.0,
          // Gather reads x and writes slots; combine reads rows and writes y.
          .other_bytes = kPredictedValueBytes * hidden * 2 * real(counts.slots + tokens)};
}

double predict_layer_us(const CudaLayer& layer, const CudaRates& rates) {
  double us = rates.graph_us;
  for (std::size_t at = 0; at < layer.products.size(); ++at) {
    us += predict_product_us(layer.products[at], rates) + (at > 0 ? rates.gap_us : 0);
  }
  return us + layer.other_launches * kOtherLaunchUs + layer.other_bytes / rates.copy_gb_s * 1e-3;
}

double predict_one_launch_us(const BenchShape& shape, const ExpertCounts& counts,
                             const CudaOneLaunch& launch, const CudaRates& rates) {
  std::int64_t passes = 0;
  std::int64_t active = 0;
  double weight_bytes = 0;
  for (const std::int64_t tokens : counts.tokens) {
    passes += ceil_div(tokens, kSlotGroup);
    active += tokens > 0 ? 1 : 0;
  }
  for (const ProductPart part : {ProductPart::kGateUp, ProductPart::kDown}) {
    weight_bytes += part_work(shape, part, 1, counts).weight_bytes;
  }
  const auto sms = static_cast<std::int64_t>(rates.sms);
  const WeightTiles tiles = weight_tiles(2 * shape.n, shape.k, 0, RowOrder::kGateUp);
  const std::int64_t up = ceil_div(passes * tiles.blocks * kSlabsOfTile, sms);
  const std::int64_t down = ceil_div(ceil_div(shape.k, kSlabRows), sms);
  const auto clocks = [](std::int64_t slabs, std::int64_t at_a_time) {
    return kSlabClocks * real(slabs) + kItemClocks * real(ceil_div(slabs, at_a_time));
  };
  const double sm_clocks = real(tiles.chunks) * clocks(up, launch.slabs) +
                           real(active * chunks_of(shape.n)) * clocks(down, launch.down_slabs);
  return rates.graph_us + kOneLaunchUs +
         std::max(weight_bytes / rates.read_gb_s, sm_clocks / rates.clock_ghz) * 1e-3;
}

}  // namespace nibble
