#include "bench/kernel_rates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/units.h"
#include "bench/weights.h"
#include "kernels/gemm/gemm.h"
#include "measure/ring.h"
#include "measure/sampler.h"

namespace nibble {
namespace {

// Every number up to 8, where kernels take rows in blocks; then wider apart.
constexpr std::int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};
// 512 x 2048 weights a thread are 590 KB in 4 bits: they stay in the second or third cache.
constexpr std::int64_t kRowsOfThread = 512;
constexpr std::int64_t kColumns = 2048;
constexpr std::int64_t kTimesHigher =
    4;  // the second matrix: four times the rows, a quarter of the columns
constexpr StopRule kRule{.half_width = 0.01, .least = 16, .most = 400, .budget_s = 0.06};
constexpr std::int64_t kRoofUnitsOfThread = 8;  // 0.3 ms of multiplying
constexpr StopRule kColdRule{.half_width = 0.02, .least = 24, .most = 400, .budget_s = 0.2};
constexpr std::int64_t kOverlapRows[] = {1, 2, 4, 8};
constexpr std::int64_t kColdMatrices = 8;  // of one run, so that its start and end do not count
constexpr double kCaches = 4;              // that the cold copies exceed, as measure/ring.h

double multiply_rate(const MultiplyProbe& multiply, ThreadPool& pool) {
  const std::int64_t units = kRoofUnitsOfThread * pool.threads();
  return operations_of(multiply, units) / multiply_seconds(multiply, units, pool);
}

double seconds_of(const std::function<void()>& work) {
  const double start = steady_now();
  work();
  return steady_now() - start;
}

// `rows` rows for each of some experts: the same rows for all of them.
struct ManyRows {
  std::vector<float> x;
  PackedActivations input;
  std::vector<std::int32_t> row_of;
  std::vector<float> y;

  static Result<ManyRows> make(std::int64_t rows, std::int64_t experts,
                               const PackedWeights& weights, Format activations, ThreadPool& pool) {
    ManyRows many;
    const std::int64_t columns = weights.columns();
    NIBBLE_ASSIGN_OR_RETURN(many.input, PackedActivations::make(rows, columns, activations,
                                                                weights.isa(), weights.format()));
    Random random(2);
    many.x = gaussian(random, rows * columns);
    many.input.quantize(many.x, pool);
    for (std::int64_t slot = 0; slot < rows * experts; ++slot) {
      many.row_of.push_back(static_cast<std::int32_t>(slot % rows));
    }
    many.y.resize(static_cast<std::size_t>(rows * experts * weights.rows()));
    return many;
  }
};

// The slots of `experts` of all units, `rows` each.
std::vector<std::int32_t> offsets_of(const std::vector<std::int64_t>& experts, std::int64_t units,
                                     std::int64_t rows) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(units) + 1, 0);
  for (const std::int64_t expert : experts) {
    offsets[static_cast<std::size_t>(expert) + 1] = static_cast<std::int32_t>(rows);
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

}  // namespace

double HotCurve::cost(std::int64_t rows) const {
  NIBBLE_CHECK(!points.empty() && rows >= 0);
  const auto [most, most_cost] = points.back();
  const double whole = static_cast<double>(rows / most) * most_cost;
  const std::int64_t rest = rows % most;
  if (rest == 0) return whole;
  const auto upper = std::lower_bound(points.begin(), points.end(), rest,
                                      [](const std::pair<std::int64_t, double>& point,
                                         std::int64_t value) { return point.first < value; });
  if (upper == points.begin()) return whole + upper->second;
  const auto lower = upper - 1;
  const double share =
      static_cast<double>(rest - lower->first) / static_cast<double>(upper->first - lower->first);
  return whole + lower->second + share * (upper->second - lower->second);
}

StopRule KernelRates::within(StopRule rule) const {
  rule.budget_s = std::min(rule.budget_s, most_seconds_);
  return rule;
}

// Operations of the roof in the time of one call of `work`: the median of pairs.
KernelRates::Cost KernelRates::cost_of(const std::function<void()>& work,
                                       const MultiplyProbe& multiply) const {
  work();  // into the caches
  std::vector<double> rates;
  double seconds = 0;
  const Sample cost = collect_pairs(
      within(kRule), steady_now, [&] { rates.push_back(multiply_rate(multiply, pool_)); },
      [&] { seconds = seconds_of(work); },
      [&] { return std::max(0.0, seconds - section_s_) * rates.back(); });
  return {cost.median, median(rates) / kTera};
}

const HotCurve* KernelRates::nearest(Format weights, Format activations, double tops) const {
  const auto found = curves_.find({weights, activations});
  if (found == curves_.end()) return nullptr;
  const auto distance = [tops](const HotCurve& curve) {
    return std::abs(std::log(curve.tops / tops));
  };
  return &*std::min_element(found->second.begin(), found->second.end(),
                            [&](const HotCurve& left, const HotCurve& right) {
                              return distance(left) < distance(right);
                            });
}

Result<> KernelRates::measure(Format weights, Format activations, const RateRoofs& roofs,
                              double tops) {
  constexpr int kTries = 3;
  constexpr double kNear = 0.15;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const HotCurve* known = nearest(weights, activations, tops);
    if (known != nullptr && std::abs(known->tops / tops - 1) < kNear) return {};
    NIBBLE_ASSIGN_OR_RETURN(HotCurve curve, measure_now(weights, activations, roofs));
    curves_[{weights, activations}].push_back(std::move(curve));
  }
  return {};
}

Result<HotCurve> KernelRates::measure_now(Format weights, Format activations,
                                          const RateRoofs& roofs) {
  section_s_ = collect(within(kRule), steady_now, [&] {
                 return seconds_of([&] { pool_.run([](int) {}); });
               }).median;
  HotCurve curve{.section_s = section_s_};
  const std::int64_t low_rows = kRowsOfThread * pool_.threads();
  const QuantizedBytes low = random_matrix(weights, low_rows, kColumns, 1);
  const QuantizedBytes high =
      random_matrix(weights, kTimesHigher * low_rows, kColumns / kTimesHigher, 1);
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> of_high,
                          measure_costs(high.view(), activations, roofs, curve));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> of_low,
                          measure_costs(low.view(), activations, roofs, curve));
  // Outputs for each weight: rows / columns. Few rows have few outputs, whose cost drowns in noise.
  constexpr std::int64_t kLeastRows = 8;
  std::vector<double> outputs;
  for (std::size_t at = 0; at < std::size(kRows); ++at) {
    const double more = static_cast<double>(kRows[at]) * (kTimesHigher - 1) / kColumns;
    if (kRows[at] >= kLeastRows) outputs.push_back((of_high[at] - of_low[at]) / more);
  }
  curve.output = std::max(0.0, median(outputs));
  for (std::size_t at = 0; at < std::size(kRows); ++at) {
    const double of_outputs = curve.output * static_cast<double>(kRows[at]) / kColumns;
    curve.points.emplace_back(kRows[at], std::max(0.0, of_low[at] - of_outputs));
  }
  if (roofs.read) {
    NIBBLE_ASSIGN_OR_RETURN(std::vector<double> overlaps,
                            measure_overlaps(low.view(), activations, roofs, curve));
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> more,
                            measure_overlaps(high.view(), activations, roofs, curve));
    overlaps.insert(overlaps.end(), more.begin(), more.end());
    curve.overlap = std::clamp(median(overlaps), 0.0, 1.0);
  }
  return curve;
}

Result<std::vector<double>> KernelRates::measure_costs(const QuantizedMatrix& matrix,
                                                       Format activations, const RateRoofs& roofs,
                                                       HotCurve& curve) const {
  NIBBLE_ASSIGN_OR_RETURN(const PackedWeights packed,
                          PackedWeights::pack({&matrix, 1}, isa_, pool_));
  const double weights = static_cast<double>(matrix.rows * matrix.columns);
  std::vector<double> costs;
  std::vector<double> tops;
  for (const std::int64_t rows : kRows) {
    NIBBLE_ASSIGN_OR_RETURN(ManyRows many, ManyRows::make(rows, 1, packed, activations, pool_));
    const std::vector<std::int32_t> offsets = {0, static_cast<std::int32_t>(rows)};
    const GemmParams params{packed, many.input, offsets, many.row_of, many.y};
    const Cost cost = cost_of([&] { gemm(params, pool_); }, roofs.multiply);
    costs.push_back(cost.operations / weights);
    tops.push_back(cost.tops);
    if (rows != std::end(kRows)[-1]) continue;
    const Cost quantize = cost_of([&] { many.input.quantize(many.x, pool_); }, roofs.multiply);
    curve.quantize = quantize.operations / static_cast<double>(many.x.size());
  }
  curve.tops = median(tops);
  return costs;
}

Result<std::vector<double>> KernelRates::measure_overlaps(const QuantizedMatrix& matrix,
                                                          Format activations,
                                                          const RateRoofs& roofs,
                                                          const HotCurve& curve) const {
  const double bytes = storage_bytes(matrix.format, static_cast<double>(matrix.rows),
                                     static_cast<double>(matrix.columns))
                           .total();
  const auto units = std::max(4 * kColdMatrices,
                              static_cast<std::int64_t>(kCaches * roofs.cache_bytes / bytes) + 1);
  const std::vector<QuantizedMatrix> copies(static_cast<std::size_t>(units), matrix);
  NIBBLE_ASSIGN_OR_RETURN(const PackedWeights packed, PackedWeights::pack(copies, isa_, pool_));
  ColdOrder order(units, 3);
  const double weights =
      static_cast<double>(matrix.rows * matrix.columns) * static_cast<double>(kColdMatrices);
  std::vector<double> overlaps;
  for (const std::int64_t rows : kOverlapRows) {
    NIBBLE_ASSIGN_OR_RETURN(ManyRows many,
                            ManyRows::make(rows, kColdMatrices, packed, activations, pool_));
    double bandwidth = 0;
    double rate = 0;
    double seconds = 0;
    const auto roof = [&] {
      MemoryParts memory;
      for (const std::int64_t unit : order.next(kColdMatrices)) {
        memory.push_back(packed.bytes().subspan(
            static_cast<std::size_t>(unit) * packed.expert_bytes(), packed.expert_bytes()));
      }
      bandwidth = bytes_read(memory) / read_seconds(*roofs.read, memory, pool_);
      rate = multiply_rate(roofs.multiply, pool_);
    };
    const auto kernel = [&] {
      const std::vector<std::int32_t> offsets = offsets_of(order.next(kColdMatrices), units, rows);
      const GemmParams params{packed, many.input, offsets, many.row_of, many.y};
      seconds = seconds_of([&] { gemm(params, pool_); });
    };
    const auto overlap = [&] {
      const double memory = bytes * static_cast<double>(kColdMatrices) / bandwidth;
      const double outputs = static_cast<double>(rows * matrix.rows * kColdMatrices);
      const double compute = (weights * curve.cost(rows) + outputs * curve.output) / rate;
      return (memory + compute + section_s_ - seconds) / std::min(memory, compute);
    };
    overlaps.push_back(collect_pairs(within(kColdRule), steady_now, roof, kernel, overlap).median);
  }
  return overlaps;
}

double KernelRates::predict_s(const Work& work, Format weights, Format activations,
                              const RoofsNow& roofs) const {
  const HotCurve* const curve = nearest(weights, activations, roofs.tops);
  NIBBLE_CHECK(curve != nullptr);
  const double rate = roofs.tops * kTera;
  double seconds = work.sections * curve->section_s + work.quantized * curve->quantize / rate;
  for (const Product& product : work.products) {
    const double memory_s = product.weight_bytes / (roofs.bandwidth_gb_s * kGiga);
    const double compute_s =
        (product.weights * curve->cost(product.rows) + product.outputs * curve->output) / rate;
    seconds += memory_s + compute_s - curve->overlap * std::min(memory_s, compute_s);
  }
  return seconds;
}

Json KernelRates::to_json() const {
  Json list = Json::array();
  for (const auto& [key, curves] : curves_) {
    for (const HotCurve& curve : curves) {
      Json points = Json::array();
      for (const auto& [rows, cost] : curve.points) {
        points.push(Json::object().set("rows", rows).set("cost", cost));
      }
      list.push(Json::object()
                    .set("format", to_string(key.first))
                    .set("activations", to_string(key.second))
                    .set("tops", curve.tops)
                    .set("hot", std::move(points))
                    .set("output_cost", curve.output)
                    .set("quantize_cost", curve.quantize)
                    .set("overlap", curve.overlap)
                    .set("section_us", curve.section_s * 1e6));
    }
  }
  return list;
}

}  // namespace nibble
