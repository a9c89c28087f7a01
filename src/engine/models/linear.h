// One matrix of a model and its bias, and the rooms where inputs wait in packed form.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Linear out, Linear::make(matrix, {}, {.isa = isa}, pool));
//   NIBBLE_RETURN_IF_ERROR(inputs.add(out, 256));           // before the first step
//   out.multiply(x, inputs, y, pool);                       // y: [rows, out.rows()]
//
// bf16 matrices take their input as fp32, 4-bit ones as the options say.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/packed_weights.h"
#include "machine/isa.h"

namespace nibble::engine {

class LinearInputs;

struct LinearOptions {
  Format activations = Format::kFp32;  // for 4-bit matrices
  Isa isa = best_isa();
};

class Linear {
 public:
  Linear() = default;
  // `bias`: [rows], or empty.
  static Result<Linear> make(const QuantizedMatrix& matrix, std::vector<float> bias,
                             const LinearOptions& options, ThreadPool& pool);

  std::int64_t rows() const { return weights_.rows(); }        // out features
  std::int64_t columns() const { return weights_.columns(); }  // in features
  // x: [rows of the batch, columns()]. Does not allocate.
  void multiply(std::span<const float> x, LinearInputs& inputs, std::span<float> y,
                ThreadPool& pool) const;

 private:
  friend class LinearInputs;
  PackedWeights weights_;  // of one expert
  std::vector<float> bias_;
  Format activations_ = Format::kFp32;
};

// Packed inputs, one room for all matrices that take the same width in the same form.
class LinearInputs {
 public:
  // Room for inputs of so many rows.
  Result<> add(const Linear& linear, std::int64_t most_rows);

 private:
  friend class Linear;
  struct Room {
    bool bf16_weights = false;
    std::int64_t most_rows = 0;
    PackedActivations packed;
  };
  Room* find(const Linear& linear);

  std::vector<Room> rooms_;
  std::vector<std::int32_t> every_row_;  // 0, 1, 2 ...
};

}  // namespace nibble::engine
