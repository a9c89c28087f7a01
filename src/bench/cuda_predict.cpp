#include "bench/cuda_predict.h"

#include <algorithm>
#include <cmath>

namespace nibble {
namespace {

constexpr double kSmLanes = 128;  // lane operations an SM issues in a clock
// Of a weight: 13 instructions for eight weights, loads of codes and scales, barriers
// (docs/kernels.md).
constexpr double kLaneOperations = 1.9;
// Clocks that wgmma of 64 rows takes at least, whatever its tokens.
constexpr double kLeastWgmmaClocks = 16;

std::int64_t tiles_of(std::int64_t count, std::int64_t tile) {
  return (count + tile - 1) / tile;
}

}  // namespace

std::optional<CudaRates> rates_of(const GpuRoofs& roofs, double clock_ghz) {
  const auto read = roofs.value("read_gb_s");
  const auto mma = roofs.value("mma_bf16_tflops");
  if (!read || !mma || !(clock_ghz > 0) || roofs.sms < 1) return std::nullopt;
  return CudaRates{.read_gb_s = *read,
                   .matrix_tflops = roofs.value("bf16_tflops").value_or(*mma),
                   .mma_tflops = *mma,
                   .start_us = roofs.value("read_start_us").value_or(0),
                   .gap_us = roofs.value("graph_gap_programmatic_us").value_or(0),
                   .sms = static_cast<double>(roofs.sms),
                   .clock_ghz = clock_ghz};
}

double unit_share(MatrixUnit unit, std::int64_t tile_tokens) {
  if (unit == MatrixUnit::kMma) return 1;
  const double clocks = static_cast<double>(tile_tokens) / 2;
  return clocks / std::max(clocks, kLeastWgmmaClocks);
}

double predict_product_us(const CudaProduct& product, const CudaRates& rates) {
  const CudaTactic& tactic = product.tactic;
  std::int64_t token_tiles = 0;
  for (const std::int64_t tokens : product.tokens) {
    token_tiles += tiles_of(tokens, tactic.tile_tokens);
  }
  if (token_tiles == 0) return 0;
  const double passes = static_cast<double>(token_tiles);
  const double weights = static_cast<double>(product.n) * static_cast<double>(product.k);
  const double flop = 2 * passes * static_cast<double>(tactic.tile_tokens) * weights;
  const double rate = (tactic.unit == MatrixUnit::kMma ? rates.mma_tflops : rates.matrix_tflops) *
                      unit_share(tactic.unit, tactic.tile_tokens);
  const double multiply_us = flop / rate * 1e-6;
  const double lanes = kSmLanes * rates.sms * rates.clock_ghz * 1e3;  // a microsecond
  const double dequantize_us = weights * passes * kLaneOperations / lanes;
  const double memory_us = product.bytes / rates.read_gb_s * 1e-3;
  const double steps = passes * static_cast<double>(tiles_of(product.n, tactic.tile_rows)) *
                       static_cast<double>(tiles_of(product.k, tactic.step_columns));
  const double blocks = tactic.blocks > 0 ? static_cast<double>(tactic.blocks) : rates.sms;
  const double tail = std::ceil(steps / blocks) * blocks / steps;
  return tail * std::hypot(memory_us, std::max(multiply_us, dequantize_us));
}

double predict_layer_us(const CudaLayer& layer, const CudaRates& rates) {
  double us = rates.start_us;
  for (std::size_t at = 0; at < layer.products.size(); ++at) {
    us += predict_product_us(layer.products[at], rates) + (at > 0 ? rates.gap_us : 0);
  }
  return us + layer.other_launches * rates.gap_us + layer.other_bytes / rates.read_gb_s * 1e-3;
}

}  // namespace nibble
