#include "bench/kernel_rates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/units.h"
#include "bench/weights.h"
#include "kernels/gemm/gemm.h"
#include "measure/sampler.h"

namespace nibble {
namespace {

// Every number up to 8, where kernels take rows in blocks; then wider apart.
constexpr std::int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};
// 512 x 2048 weights a thread are 590 KB in 4 bits: they stay in the second or third cache.
constexpr std::int64_t kRowsOfThread = 512;
constexpr std::int64_t kColumns = 2048;
constexpr std::int64_t kTimesHigher = 8;  // the second matrix, and so much narrower
constexpr StopRule kRule{.half_width = 0.01, .least = 16, .most = 400, .budget_s = 0.08};
constexpr StopRule kOutputRule{.half_width = 0.05, .least = 16, .most = 400, .budget_s = 0.2};
constexpr std::int64_t kRoofUnitsOfThread = 8;  // 0.3 ms of multiplying

double multiply_rate(const MultiplyProbe& multiply, ThreadPool& pool) {
  const std::int64_t units = kRoofUnitsOfThread * pool.threads();
  return operations_of(multiply, units) / multiply_seconds(multiply, units, pool);
}

double seconds_of(const std::function<void()>& work) {
  const double start = steady_now();
  work();
  return steady_now() - start;
}

// `rows` rows for one matrix, with what they become.
struct ManyRows {
  std::vector<float> x;
  PackedActivations input;
  std::vector<std::int32_t> row_of;
  std::vector<std::int32_t> offsets;
  std::vector<float> y;

  static Result<ManyRows> make(std::int64_t rows, const PackedWeights& weights, Format activations,
                               ThreadPool& pool) {
    ManyRows many;
    const std::int64_t columns = weights.columns();
    NIBBLE_ASSIGN_OR_RETURN(many.input, PackedActivations::make(rows, columns, activations,
                                                                weights.isa(), weights.format()));
    Random random(2);
    many.x = gaussian(random, rows * columns);
    many.input.quantize(many.x, pool);
    many.row_of.resize(static_cast<std::size_t>(rows));
    std::iota(many.row_of.begin(), many.row_of.end(), 0);
    many.offsets = {0, static_cast<std::int32_t>(rows)};
    many.y.resize(static_cast<std::size_t>(rows * weights.rows()));
    return many;
  }

  GemmParams with(const PackedWeights& weights) {
    return {.weights = weights,
            .activations = input,
            .offsets = offsets,
            .row_of = row_of,
            .output = y};
  }
};

double weights_of(const PackedWeights& packed) {
  return static_cast<double>(packed.rows() * packed.columns());
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

Result<KernelRates::Known*> KernelRates::known(Format weights, Format activations) {
  const std::pair key{weights, activations};
  const auto found = known_.find(key);
  if (found != known_.end()) return &found->second;
  const std::int64_t low_rows = kRowsOfThread * pool_.threads();
  const QuantizedBytes low = random_matrix(weights, low_rows, kColumns, 1);
  const QuantizedBytes high =
      random_matrix(weights, kTimesHigher * low_rows, kColumns / kTimesHigher, 1);
  const QuantizedMatrix low_view = low.view();
  const QuantizedMatrix high_view = high.view();
  Known made;
  NIBBLE_ASSIGN_OR_RETURN(made.low, PackedWeights::pack({&low_view, 1}, isa_, pool_));
  NIBBLE_ASSIGN_OR_RETURN(made.high, PackedWeights::pack({&high_view, 1}, isa_, pool_));
  return &known_.emplace(key, std::move(made)).first->second;
}

bool KernelRates::confirmed(Known& known, Format activations, const MultiplyProbe& multiply,
                            double tops, std::int64_t rows) const {
  constexpr double kNearRoof = 0.15;
  constexpr double kNearCost = 0.1;
  const std::int64_t tried = std::clamp<std::int64_t>(rows, 1, std::end(kRows)[-1]);
  const Result<Cost> now = cost_of_rows(known.low, activations, multiply, tried);
  if (!now.ok()) return false;
  for (std::size_t at = known.curves.size(); at-- > 0;) {
    const HotCurve& curve = known.curves[at];
    const double outputs = curve.output * static_cast<double>(tried) / kColumns;
    const double expected = curve.cost(tried) + outputs;
    const bool near = std::abs(curve.tops / tops - 1) < kNearRoof &&
                      std::abs(now->operations / weights_of(known.low) / expected - 1) < kNearCost;
    if (!near) continue;
    known.used = at;
    return true;
  }
  return false;
}

Result<> KernelRates::measure(Format weights, Format activations, const MultiplyProbe& multiply,
                              double tops, std::int64_t rows) {
  constexpr int kTries = 2;
  NIBBLE_ASSIGN_OR_RETURN(Known* const pair, known(weights, activations));
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (confirmed(*pair, activations, multiply, tops, rows)) return {};
    NIBBLE_ASSIGN_OR_RETURN(HotCurve curve, measure_now(*pair, activations, multiply));
    pair->curves.push_back(std::move(curve));
    pair->used = pair->curves.size() - 1;
  }
  return {};
}

Result<HotCurve> KernelRates::measure_now(const Known& known, Format activations,
                                          const MultiplyProbe& multiply) {
  section_s_ = collect(within(kRule), steady_now, [&] {
                 return seconds_of([&] { pool_.run([](int) {}); });
               }).median;
  HotCurve curve{.section_s = section_s_};
  NIBBLE_ASSIGN_OR_RETURN(curve.output, cost_of_output(known, activations, multiply));
  std::vector<double> tops;
  for (const std::int64_t rows : kRows) {
    NIBBLE_ASSIGN_OR_RETURN(const Cost cost, cost_of_rows(known.low, activations, multiply, rows));
    const double of_outputs = curve.output * static_cast<double>(rows) / kColumns;
    const double of_weight = cost.operations / weights_of(known.low) - of_outputs;
    curve.points.emplace_back(rows, std::max(0.0, of_weight));
    tops.push_back(cost.tops);
  }
  curve.tops = median(tops);
  NIBBLE_ASSIGN_OR_RETURN(ManyRows many,
                          ManyRows::make(std::end(kRows)[-1], known.low, activations, pool_));
  const Cost quantize = cost_of([&] { many.input.quantize(many.x, pool_); }, multiply);
  curve.quantize = quantize.operations / static_cast<double>(many.x.size());
  return curve;
}

Result<KernelRates::Cost> KernelRates::cost_of_rows(const PackedWeights& packed, Format activations,
                                                    const MultiplyProbe& multiply,
                                                    std::int64_t rows) const {
  NIBBLE_ASSIGN_OR_RETURN(ManyRows many, ManyRows::make(rows, packed, activations, pool_));
  return cost_of([&] { gemm(many.with(packed), pool_); }, multiply);
}

Result<double> KernelRates::cost_of_output(const Known& known, Format activations,
                                           const MultiplyProbe& multiply) const {
  constexpr std::int64_t kOutputRows = 16;
  NIBBLE_ASSIGN_OR_RETURN(ManyRows low, ManyRows::make(kOutputRows, known.low, activations, pool_));
  NIBBLE_ASSIGN_OR_RETURN(ManyRows high,
                          ManyRows::make(kOutputRows, known.high, activations, pool_));
  const auto more = static_cast<double>(kOutputRows * (known.high.rows() - known.low.rows()));
  double of_low = 0;
  double of_high = 0;
  const Sample cost = collect_pairs(
      within(kOutputRule), steady_now,
      [&] { of_low = seconds_of([&] { gemm(low.with(known.low), pool_); }); },
      [&] { of_high = seconds_of([&] { gemm(high.with(known.high), pool_); }); },
      [&] { return (of_high - of_low) * multiply_rate(multiply, pool_) / more; });
  return std::max(0.0, cost.median);
}

double KernelRates::predict_s(const Work& work, Format weights, Format activations,
                              const RoofsNow& roofs) const {
  const auto found = known_.find({weights, activations});
  NIBBLE_CHECK(found != known_.end() && !found->second.curves.empty());
  const HotCurve& curve = found->second.curves[found->second.used];
  const double rate = roofs.tops * kTera;
  double seconds = work.sections * curve.section_s + work.quantized * curve.quantize / rate;
  for (const Product& product : work.products) {
    const double memory_s = product.weight_bytes / (roofs.bandwidth_gb_s * kGiga);
    const double compute_s =
        (product.weights * curve.cost(product.rows) + product.outputs * curve.output) / rate;
    seconds += std::hypot(memory_s, compute_s);
  }
  return seconds;
}

Json KernelRates::to_json() const {
  Json list = Json::array();
  for (const auto& [key, known] : known_) {
    for (const HotCurve& curve : known.curves) {
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
                    .set("section_us", curve.section_s * 1e6));
    }
  }
  return list;
}

}  // namespace nibble
