// The end of a layer: y[t] = sum over choices c of rows[slot of t's c] + shared[t], added in fp32
// in the order of the choices. The rows have the router's weight in them.
#pragma once

#include "kernels/device/convert.cuh"
#include "kernels/moe/device/moe_shape.h"
#include "kernels/ptx/griddepcontrol.cuh"

namespace nibble {

template <MoeShape kShape>
NIBBLE_DEVICE void combine(const CombineRows& params) {
  constexpr Element kElement = kShape.output;
  constexpr int kColumns = combine_columns(kShape.hidden, kElement);
  constexpr int64_t kUnits = kShape.hidden / kColumns;
  using Some = Elements<kElement, kColumns>;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t place = int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  const int64_t token = place / kUnits;
  if (token >= params.tokens) return;
  const int64_t unit = place % kUnits;

  const auto* const rows = static_cast<const Some*>(params.rows);
  const int* const slots = params.choice_slot + token * kShape.top_k;
  float sums[kColumns] = {};
  constexpr int kInFlight = kShape.top_k < 8 ? kShape.top_k : 8;
  for (int first = 0; first < kShape.top_k; first += kInFlight) {
    Some some[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int slot = first + i < kShape.top_k ? slots[first + i] : -1;
      some[i] = slot < 0 ? Some{} : rows[slot * kUnits + unit];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) some[i].add_to(sums);
  }
  if (params.shared != nullptr) static_cast<const Some*>(params.shared)[place].add_to(sums);
  static_cast<Some*>(params.y)[place] = Some::of(sums);
}

}  // namespace nibble
