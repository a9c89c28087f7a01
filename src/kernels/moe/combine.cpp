#include "kernels/moe/combine.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/moe/vector_code.h"

namespace nibble {
namespace {

// Columns that a thread takes at a time: with eight experts, 16 KB read.
constexpr std::int64_t kUnitColumns = 512;
constexpr double kValueNs = 0.2;  // about what a value of a slot takes

}  // namespace

void combine(const CombineParams& params, Isa isa, ThreadPool& pool) {
  const std::int64_t hidden = params.hidden;
  NIBBLE_CHECK(hidden >= 1 && params.top_k >= 1);
  const std::int64_t tokens = static_cast<std::int64_t>(params.output.size()) / hidden;
  NIBBLE_CHECK(static_cast<std::int64_t>(params.output.size()) == tokens * hidden);
  NIBBLE_CHECK(static_cast<std::int64_t>(params.slot_of.size()) == tokens * params.top_k);
  NIBBLE_CHECK(params.weights.size() == params.slot_of.size());
  NIBBLE_CHECK(static_cast<std::int64_t>(params.down.size()) == tokens * params.top_k * hidden);
  NIBBLE_CHECK(params.bias.empty() || params.expert_of.size() == params.slot_of.size());
  NIBBLE_CHECK(params.shared.empty() || params.shared.size() == params.output.size());

  const VectorCode& code = vector_code(isa);
  const std::int64_t units_per_row = (hidden + kUnitColumns - 1) / kUnitColumns;
  WorkQueue queue(tokens * units_per_row);
  const double values = static_cast<double>(tokens * params.top_k * hidden);
  pool.run_for(values * kValueNs, [&](int) {
    while (const auto unit = queue.next()) {
      const std::int64_t token = *unit / units_per_row;
      const std::int64_t begin = *unit % units_per_row * kUnitColumns;
      code.weighted_sum(
          {.down = params.down.data(),
           .bias = params.bias.empty() ? nullptr : params.bias.data(),
           .shared = params.shared.empty() ? nullptr : params.shared.data() + token * hidden,
           .output = params.output.data() + token * hidden,
           .slots = params.slot_of.data() + token * params.top_k,
           .expert_of = params.expert_of.data(),
           .weights = params.weights.data() + token * params.top_k,
           .top_k = params.top_k,
           .hidden = hidden,
           .begin = begin,
           .end = std::min(begin + kUnitColumns, hidden)});
    }
  });
}

}  // namespace nibble
