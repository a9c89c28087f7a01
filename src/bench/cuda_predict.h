// What a grouped product should take, from the GPU's roofs and the kernel's own arithmetic. Nothing
// in it is fitted to a shape (docs/measuring.md, "Prediction on a GPU").
//
//   const double us = predict_layer_us(layer, rates);
//
//   product = tail x sqrt(memory^2 + sm^2)
//     memory = bytes / read roof
//     sm     = max(multiply, dequantize)
//       multiply   = padded FLOP / rate of the unit at this token tile
//       dequantize = weights x passes x lane operations / lanes of all SMs
//     tail   = steps rounded up to whole ones of every block / steps
//   products = start of a cold read + product A + gap + product B
//   layer    = products + gap x other launches + bytes that routing and combine move / read roof
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/cuda_floor.h"
#include "machine/gpu_roofs.h"

namespace nibble {

enum class MatrixUnit { kMma, kWgmma };

// What predictions are made of: roofs that were measured, and what the GPU is.
struct CudaRates {
  double read_gb_s = 0;
  double matrix_tflops = 0;  // sustained by large products: wgmma's full rate
  double mma_tflops = 0;     // of mma.sync
  double start_us = 0;       // of a cold read, its launch included
  double gap_us = 0;         // between kernels that are launched programmatically
  double sms = 0;
  double clock_ghz = 0;
};
// nullopt when a roof that is needed was not measured.
std::optional<CudaRates> rates_of(const GpuRoofs& roofs, double clock_ghz);

// How a kernel is laid out for one product.
struct CudaTactic {
  MatrixUnit unit = MatrixUnit::kMma;
  std::int64_t tile_tokens = 8;
  std::int64_t tile_rows = 256;
  std::int64_t step_columns = 128;
  std::int64_t blocks = 0;  // of the grid, which share the list of steps; 0: one an SM
};

struct CudaProduct {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> tokens;  // of each expert
  double bytes = 0;                  // weights and activations
  CudaTactic tactic;
};

// Of a unit at a token tile, as a share of its full rate: wgmma of 64 rows by N tokens takes N / 2
// clocks from N = 32 on and 16 below (measured on an H200), mma.sync always eight tokens.
double unit_share(MatrixUnit unit, std::int64_t tile_tokens);

double predict_product_us(const CudaProduct& product, const CudaRates& rates);

struct CudaLayer {
  std::vector<CudaProduct> products;  // in order
  double other_launches = 0;          // routing, gather, combine
  double other_bytes = 0;             // that these read and write
};
// Other launches of none: the products alone.
double predict_layer_us(const CudaLayer& layer, const CudaRates& rates);

}  // namespace nibble
