// What a grouped product with 4-bit weights should take on a GPU: from its roofs, the way its list
// of work is cut into parts, and a few constants that were fitted to measured layers
// (docs/measuring.md, "Prediction on a GPU"). The constants are those of Hopper.
//
//   const CudaLayer layer = layer_to_predict(shape, tokens, counts, gate_up, down);
//   const double us = predict_layer_us(layer, rates);
//
//   product = (memory^7 + sm^7)^(1/7) + start + sums
//     memory = the longest of ingress, dram and port
//     sm     = multiply + dequantize + epilogue
//   layer   = graph + product A + gap + product B + launch x other launches + other bytes / copy
//   roof; in one launch: graph + start + the longer of weights / read roof and an SM's clocks
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
  double copy_gb_s = 0;      // read and written
  double matrix_tflops = 0;  // sustained by large products
  double mma_tflops = 0;     // of mma.sync
  double graph_us = 0;       // of a graph with one empty kernel
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
  std::vector<std::int64_t> widths;  // that tiles with fewer tokens are multiplied as, wide first
  std::int64_t tile_rows = 256;      // of a block
  std::int64_t step_columns = 128;
  std::int64_t cluster = 1;  // blocks that take neighbouring row tiles
  std::int64_t blocks_per_sm = 1;
  bool split = true;            // parts of the work may end within a tile
  double weight_bytes = 0.5;    // of a weight, with its share of the scales
  bool halves_outputs = false;  // gate and up rows become one output each pair
};

struct CudaProduct {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> tokens;  // of each expert
  double bytes = 0;                  // weights and activations, each once
  CudaTactic tactic;
};

// How a product's list of work is cut: whole tiles of a cluster, of some steps each, in parts that
// are alike but for one unit (a step of a tile).
struct WorkCut {
  double passes = 0;       // token tiles of all experts: so often are an expert's weights read
  double tile_tokens = 0;  // that a tile has on average, in whole groups of 8
  double tile_width = 0;   // that tiles are multiplied as in the part that has the widest
  double row_tiles = 0;    // of a cluster
  double steps = 0;        // of a tile
  double clusters = 0;     // of the grid
  double units = 0;        // of the longest part
  double takes = 0;        // sums of others that a block adds to a tile
};
WorkCut cut_of(const CudaProduct& product, double sms);

// What a product's parts would take by themselves.
struct ProductTime {
  double ingress_us = 0;     // what all SMs copy, at the read roof
  double dram_us = 0;        // every byte once
  double port_us = 0;        // what one SM copies, at its port to the L2 cache
  double multiply_us = 0;    // the matrix unit of an SM
  double dequantize_us = 0;  // its lanes
  double epilogue_us = 0;    // from sums to outputs, until the next tile begins
  double sums_us = 0;        // of tiles that blocks share
  double start_us = 0;
  double us() const;
};
ProductTime product_time(const CudaProduct& product, const CudaRates& rates);

// 0 without tokens.
double predict_product_us(const CudaProduct& product, const CudaRates& rates);

struct CudaLayer {
  std::vector<CudaProduct> products;  // in order
  double other_launches = 0;          // routing, gather, combine
  double other_bytes = 0;             // that these read and write
};
// The whole layer: hidden k, intermediate n.
CudaLayer layer_to_predict(const BenchShape& shape, std::int64_t tokens, const ExpertCounts& counts,
                           const CudaTactic& gate_up, const CudaTactic& down);
// Other launches of none: the products alone.
double predict_layer_us(const CudaLayer& layer, const CudaRates& rates);

// How the launch that is a whole layer is laid out (kernels/moe/device/one_launch_params.h).
struct CudaOneLaunch {
  std::int64_t slabs = 4;       // of gate and up that a warp takes at a time
  std::int64_t down_slabs = 3;  // of down
};
double predict_one_launch_us(const BenchShape& shape, const ExpertCounts& counts,
                             const CudaOneLaunch& launch, const CudaRates& rates);

}  // namespace nibble
