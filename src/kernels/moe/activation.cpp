#include "kernels/moe/activation.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/moe/vector_code.h"

namespace nibble {
namespace {

// Columns that a thread takes at a time: some microseconds of work, so that even one token's eight
// rows of 2,048 keep 16 threads busy.
constexpr std::int64_t kUnitColumns = 1024;
constexpr double kValueNs = 0.8;  // about what a value takes

}  // namespace

std::string_view to_string(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kSwiGlu:
      return "swiglu";
    case ActivationKind::kClampedSwiGlu:
      return "clamped-swiglu";
  }
  return "";
}

void activate(const ActivateParams& params, Isa isa, ThreadPool& pool) {
  const std::int64_t columns = params.intermediate;
  NIBBLE_CHECK(columns >= 1);
  const std::int64_t slots = static_cast<std::int64_t>(params.output.size()) / columns;
  NIBBLE_CHECK(static_cast<std::int64_t>(params.output.size()) == slots * columns);
  NIBBLE_CHECK(static_cast<std::int64_t>(params.gate_up.size()) == slots * 2 * columns);
  const bool biased = !params.bias.empty();
  NIBBLE_CHECK(!biased || static_cast<std::int64_t>(params.expert_of.size()) == slots);

  const VectorCode& code = vector_code(isa);
  const bool clamped = params.activation.kind == ActivationKind::kClampedSwiGlu;
  const auto kernel = clamped ? code.clamped_swiglu : code.swiglu;
  const std::int64_t unit_columns = params.packed != nullptr ? columns : kUnitColumns;
  const std::int64_t units_per_row = (columns + unit_columns - 1) / unit_columns;
  if (params.packed != nullptr) params.packed->begin(slots);
  const double value_ns = kValueNs + (params.packed != nullptr ? params.packed->value_ns() : 0);
  WorkQueue queue(slots * units_per_row);
  pool.run_for(static_cast<double>(slots * columns) * value_ns, [&](int) {
    while (const auto unit = queue.next()) {
      const std::int64_t slot = *unit / units_per_row;
      const std::int64_t begin = *unit % units_per_row * unit_columns;
      const float* gate = params.gate_up.data() + slot * 2 * columns + begin;
      const float* bias = nullptr;
      if (biased) {
        const std::int64_t expert = params.expert_of[static_cast<std::size_t>(slot)];
        bias = params.bias.data() + expert * 2 * columns + begin;
      }
      kernel({.gate = gate,
              .up = gate + columns,
              .gate_bias = bias,
              .up_bias = biased ? bias + columns : nullptr,
              .output = params.output.data() + slot * columns + begin,
              .count = std::min(unit_columns, columns - begin),
              .alpha = params.activation.alpha,
              .limit = params.activation.limit});
      if (params.packed != nullptr) {
        params.packed->quantize_row(params.output, slot, params.input_scale);
      }
    }
  });
}

}  // namespace nibble
