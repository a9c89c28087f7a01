#include "bench/cuda_floor.h"

namespace nibble {
namespace {

constexpr double kValueBytes = 2;  // of activations: bf16 or fp16
constexpr double kFlopOfProduct = 2;

double matrix_bytes(Format format, std::int64_t rows, std::int64_t columns) {
  return storage_bytes(format, static_cast<double>(rows), static_cast<double>(columns)).total();
}

// A row of a product's input.
double input_bytes(const BenchShape& shape, double columns) {
  if (!is_four_bit(shape.activations)) return kValueBytes * columns;
  return storage_bytes(shape.activations, 1, columns).total();
}

}  // namespace

bool is_four_bit(Format format) {
  return format == Format::kNvfp4 || format == Format::kMxfp4;
}

CudaWork part_work(const BenchShape& shape, ProductPart part, std::int64_t tokens,
                   const ExpertCounts& counts) {
  const double hidden = static_cast<double>(shape.k);
  const double inner = static_cast<double>(shape.n);
  CudaWork work{.distinct = static_cast<double>(counts.distinct),
                .slots = static_cast<double>(counts.slots)};
  const bool is_gate_up = part == ProductPart::kGateUp;
  work.weight_bytes = work.distinct * (is_gate_up ? matrix_bytes(shape.format, 2 * shape.n, shape.k)
                                                  : matrix_bytes(shape.format, shape.k, shape.n));
  work.activation_bytes =
      is_gate_up ? static_cast<double>(tokens) * input_bytes(shape, hidden) +
                       kValueBytes * work.slots * inner
                 : work.slots * input_bytes(shape, inner) + kValueBytes * work.slots * hidden;
  work.flop = kFlopOfProduct * work.slots * hidden * inner * (is_gate_up ? 2 : 1);
  return work;
}

CudaWork moe_work(const BenchShape& shape, std::int64_t tokens, const ExpertCounts& counts) {
  const CudaWork gate_up = part_work(shape, ProductPart::kGateUp, tokens, counts);
  const CudaWork down = part_work(shape, ProductPart::kDown, tokens, counts);
  const double hidden = static_cast<double>(shape.k);
  CudaWork work = gate_up;
  work.weight_bytes += down.weight_bytes;
  // x and y; what is between the products, and the down product's rows, each written and read.
  work.activation_bytes = kValueBytes * 2 * static_cast<double>(tokens) * hidden +
                          2 * work.slots * input_bytes(shape, static_cast<double>(shape.n)) +
                          kValueBytes * 2 * work.slots * hidden;
  work.flop += down.flop;
  return work;
}

CudaWork dense_work(const BenchShape& shape, std::int64_t tokens) {
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double m = static_cast<double>(tokens);
  return {.weight_bytes = matrix_bytes(shape.format, shape.n, shape.k),
          .activation_bytes = m * (input_bytes(shape, k) + kValueBytes * n),
          .flop = kFlopOfProduct * m * n * k,
          .distinct = 1,
          .slots = m};
}

CudaFloor floor_of(const CudaWork& work, const CudaRoofsNow& roofs, bool cold) {
  CudaFloor floor;
  if (cold && roofs.read_gb_s > 0) floor.memory_us = work.bytes() / roofs.read_gb_s * 1e-3;
  if (roofs.matrix_tflops > 0) floor.compute_us = work.flop / roofs.matrix_tflops * 1e-6;
  return floor;
}

}  // namespace nibble
