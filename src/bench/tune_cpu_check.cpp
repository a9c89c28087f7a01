#include "bench/tune_cpu_check.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <numeric>

#include "bench/gemm_check.h"
#include "bench/rig.h"
#include "kernels/gemm/gemm.h"

namespace nibble {
namespace {

constexpr std::int64_t kComparedSlots = 8;
constexpr std::int64_t kComparedRows = 64;
// Rows that one thread computes at a time: a part begins with whole ones, and ends as the matrix.
constexpr std::int64_t kUnitRows = 64;

// Experts, as indices into `routes`: the busiest, the least busy, the second busiest ..., while all
// together stay within the bound; one at least; ascending.
std::vector<std::size_t> experts_to_check(const Routes& routes, double most_slots) {
  std::vector<std::size_t> order(routes.tokens_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return routes.tokens_of[left].size() > routes.tokens_of[right].size();
  });
  std::vector<std::size_t> taken;
  double slots = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t expert = at % 2 == 0 ? order[at / 2] : order[order.size() - 1 - at / 2];
    slots += static_cast<double>(routes.tokens_of[expert].size());
    if (!taken.empty() && slots > most_slots) break;
    taken.push_back(expert);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

}  // namespace

CheckedPart part_to_check(const tune::TuningShape& shape, const Routes& routes, double most) {
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  CheckedPart part{.rows = shape.n};
  for (const std::size_t expert : experts_to_check(routes, most / (n * k))) {
    part.routes.tokens_of.push_back(routes.tokens_of[expert]);
    part.routes.expert_of.push_back(routes.expert_of[expert]);
  }
  const auto slots = static_cast<double>(part.routes.slots());
  if (slots * n * k <= most) return part;
  const auto wanted = static_cast<std::int64_t>(most / (slots * k));
  const std::int64_t whole = std::max(kUnitRows, wanted / kUnitRows * kUnitRows);
  part.first_row = std::max<std::int64_t>(0, shape.n - whole) / kUnitRows * kUnitRows;
  part.rows = shape.n - part.first_row;
  std::vector<std::int32_t>& tokens = part.routes.tokens_of.front();
  const double most_tokens = most / (static_cast<double>(part.rows) * k);
  const auto kept = static_cast<std::size_t>(std::max(1.0, most_tokens));
  // The last ones: what they read and write lies furthest out.
  if (kept < tokens.size()) tokens.erase(tokens.begin(), tokens.end() - static_cast<long>(kept));
  return part;
}

CpuCheck::CpuCheck(const tune::TuningShape& shape, const RouteDraw& routing, std::uint64_t seed)
    : shape_(shape), routing_(routing), seed_(seed) {
  Random random(seed);
  const auto distinct = std::min(static_cast<std::int64_t>(kDistinctMatrices), shape.experts);
  for (std::int64_t at = 0; at < distinct; ++at) {
    matrices_.push_back(random_matrix(shape.format, shape.n, shape.k, random.next()));
  }
}

QuantizedMatrix CpuCheck::matrix(const CheckedPart& part, std::int64_t unit) const {
  return rows_of(matrices_[static_cast<std::size_t>(unit) % matrices_.size()].view(),
                 part.first_row, part.rows);
}

Result<tune::CheckRun> CpuCheck::run(const tune::CpuTactic& tactic, std::int64_t tokens,
                                     int repeats, ThreadPool& pool) const {
  Random random(seed_ + static_cast<std::uint64_t>(tokens));
  const std::vector<float> x = gaussian(random, tokens * shape_.k);
  const RouteRequest request{shape_.experts, shape_.top_k, tokens};
  const CheckedPart part =
      part_to_check(shape_, routes_of_ids(draw_ids(request, routing_, random), shape_.top_k));
  const std::int64_t units = part.routes.distinct();
  std::vector<std::int64_t> places(static_cast<std::size_t>(units));
  std::iota(places.begin(), places.end(), 0);
  const PlacedRoutes placed = place_routes(part.routes, places, units);
  std::vector<QuantizedMatrix> matrices;
  for (std::int64_t unit = 0; unit < units; ++unit) matrices.push_back(matrix(part, unit));
  NIBBLE_ASSIGN_OR_RETURN(const PackedWeights weights,
                          PackedWeights::pack(matrices, tactic.isa, pool));
  NIBBLE_ASSIGN_OR_RETURN(
      PackedActivations rows,
      PackedActivations::make(tokens, shape_.k, shape_.activations, tactic.isa, shape_.format));
  std::vector<float> y(placed.row_of.size() * static_cast<std::size_t>(part.rows));
  tune::CheckRun run;
  for (int replay = 0; replay < repeats; ++replay) {
    std::fill(y.begin(), y.end(), 0.0F);
    rows.quantize(x, pool);
    gemm({.weights = weights,
          .activations = rows,
          .offsets = placed.offsets,
          .row_of = placed.row_of,
          .output = y},
         pool);
    run.digests.push_back(tune::digest_of(y.data(), y.size() * sizeof(float)));
    if (replay == 0) compare(part, placed, x, y, run);
  }
  return run;
}

// Some slots against the reference, all of them for what is no number.
void CpuCheck::compare(const CheckedPart& part, const PlacedRoutes& placed,
                       std::span<const float> x, std::span<const float> y,
                       tune::CheckRun& run) const {
  run.limit = product_error_limit(shape_.format, shape_.activations, shape_.k);
  const auto n = static_cast<std::size_t>(part.rows);
  const auto k = static_cast<std::size_t>(shape_.k);
  const auto slots = static_cast<std::int64_t>(placed.row_of.size());
  Random chosen(seed_ + 17);
  for (std::int64_t sample = 0; sample < std::min(kComparedSlots, slots); ++sample) {
    const auto slot = static_cast<std::size_t>(sample * (slots - 1) /
                                               std::max<std::int64_t>(1, kComparedSlots - 1));
    const auto after = std::upper_bound(placed.offsets.begin(), placed.offsets.end(),
                                        static_cast<std::int32_t>(slot));
    const QuantizedMatrix of_unit = matrix(part, after - placed.offsets.begin() - 1);
    const auto token = static_cast<std::size_t>(placed.row_of[slot]);
    const std::int64_t last = std::max<std::int64_t>(0, part.rows - kComparedRows);
    const auto first =
        static_cast<std::int64_t>(chosen.below(static_cast<std::uint64_t>(last) + 1));
    const double error = product_error({.matrix = of_unit,
                                        .activations = shape_.activations,
                                        .x = x.subspan(token * k, k),
                                        .y = y.subspan(slot * n, n),
                                        .rows = kComparedRows,
                                        .first_row = first});
    if (error <= run.error) continue;
    run.error = error;
    run.where = fmt::format("token {}, row {}", token, part.first_row + first);
  }
  const auto wrong =
      std::find_if(y.begin(), y.end(), [](float value) { return !std::isfinite(value); });
  if (wrong == y.end()) return;
  run.error = std::numeric_limits<double>::infinity();
  run.where = fmt::format("slot {}", static_cast<std::size_t>(wrong - y.begin()) / n);
}

}  // namespace nibble
