#include "bench/kernel_rates.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"

namespace nibble {
namespace {

// Every number up to 8, where kernels take rows in blocks; then wider apart. What is more than the
// rows of a pass is left out, and the first that weights are not unpacked in passing for is added.
constexpr std::int64_t kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};
// Rows of the matrices for each thread: four units. With 4,096 columns they are 590 KB in 4 bits,
// which stay in the second or third cache.
constexpr std::int64_t kRowsOfThread = 256;
constexpr std::int64_t kWideColumns = 4096;
constexpr std::int64_t kNarrowColumns = 512;
constexpr std::int64_t kNarrowMatrices = 8;  // of a run: as many weights as a wide one
constexpr std::int64_t kColdMatrices = 4;    // of a wide run from memory: its start counts less
// Of the list whose entries are counted. A matrix of 16 x 256 is nothing.
constexpr ReferenceShape kOneEntry{.n = 16, .k = 256};
constexpr ReferenceShape kManyEntries{.n = 16, .k = 256, .ring_bytes = 4096 * 2304};
constexpr StopRule kRunRule{.half_width = 0.01, .least = 24, .most = 200, .budget_s = 0.15};
// The costs of all rows are measured in rounds, so that what lasts for a moment meets all alike.
constexpr int kRounds = 3;
constexpr int kSamplesOfRound = 5;
constexpr double kRoundSeconds = 0.05;          // for the samples of one number of rows
constexpr std::int64_t kRoofUnitsOfThread = 6;  // 0.25 ms of multiplying
constexpr double kRoofTableBytes = 12e6;        // 0.5 ms of reading

// NVFP4 and MXFP4 are the same codes and scales once they are packed.
Format packed_as(Format weights) {
  return weights == Format::kBf16 ? Format::kBf16 : Format::kNvfp4;
}

std::vector<std::int64_t> rows_measured(const GemmCut& cut) {
  std::vector<std::int64_t> rows(std::begin(kRows), std::end(kRows));
  rows.push_back(cut.passing_rows + 1);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::erase_if(rows, [&cut](std::int64_t row) { return row > cut.pass_rows; });
  return rows;
}

double of_columns(const UnitCost& cost, std::int64_t columns) {
  return cost.unit + static_cast<double>(columns) * cost.column;
}

// `point` as it is when a unit that cost `then` costs `here`.
UnitCost moved(const UnitCost& point, const UnitCost& then, const UnitCost& here) {
  const auto factor = [&](std::int64_t columns) {
    return of_columns(then, columns) > 0 ? of_columns(here, columns) / of_columns(then, columns)
                                         : 1;
  };
  const double wide = of_columns(point, kWideColumns) * factor(kWideColumns);
  const double narrow = of_columns(point, kNarrowColumns) * factor(kNarrowColumns);
  UnitCost result = unit_cost({.wide_operations = wide,
                               .narrow_operations = narrow,
                               .wide_columns = kWideColumns,
                               .narrow_columns = kNarrowColumns},
                              point.rows);
  result.overlap = std::max(0.0, point.overlap + here.overlap - then.overlap);
  result.start_bytes = std::max(0.0, point.start_bytes + here.start_bytes - then.start_bytes);
  return result;
}

}  // namespace

UnitCost unit_cost(const ReferenceUnits& units, std::int64_t rows) {
  const double wide = units.wide_columns;
  const double narrow = units.narrow_columns;
  UnitCost cost{.rows = rows};
  const double slope = (units.wide_operations - units.narrow_operations) / (wide - narrow);
  cost.column = std::clamp(slope, 0.0, units.wide_operations / wide);
  cost.unit = units.wide_operations - wide * cost.column;
  if (units.operations_of_byte <= 0) return cost;
  const double wide_compute = units.wide_operations / units.operations_of_byte;
  const double narrow_compute = units.narrow_operations / units.operations_of_byte;
  // The start is a small part of the wide unit's time: what it leaves of it settles at once.
  constexpr int kUnitTurns = 8;
  for (int turn = 0; turn < kUnitTurns; ++turn) {
    cost.overlap =
        overlap_of(units.bytes_of_column * wide, wide_compute, units.wide_bytes - cost.start_bytes);
    const double without = overlapped(units.bytes_of_column * narrow, narrow_compute, cost.overlap);
    cost.start_bytes = std::max(0.0, units.narrow_bytes - without);
  }
  return cost;
}

StopRule KernelRates::within(StopRule rule) const {
  rule.budget_s = std::min(rule.budget_s, setup_.most_seconds);
  return rule;
}

double KernelRates::multiply_rate() const {
  const std::int64_t units = kRoofUnitsOfThread * setup_.pool.threads();
  const MultiplyProbe& multiply = now_.row.multiply;
  return operations_of(multiply, units) / multiply_seconds(multiply, units, setup_.pool);
}

// Units of each thread in a run.
double KernelRates::units_of(const ReferenceRuns& runs, std::int64_t matrices) const {
  const GemmCut cut = gemm_cut(now_.key.first, now_.key.second, setup_.isa);
  return static_cast<double>(matrices * runs.shape().n / cut.unit_rows) / setup_.pool.threads();
}

Result<KernelRates::References*> KernelRates::references(Format weights) {
  const auto found = references_.find(weights);
  if (found != references_.end()) return &found->second;
  const std::int64_t n = kRowsOfThread * setup_.pool.threads();
  const auto make = [&](const ReferenceShape& shape) {
    return ReferenceRuns::make(shape, weights, setup_.isa, setup_.pool);
  };
  References made;
  NIBBLE_ASSIGN_OR_RETURN(
      made.wide,
      make(
          {.n = n, .k = kWideColumns, .matrices = kColdMatrices, .ring_bytes = setup_.ring_bytes}));
  NIBBLE_ASSIGN_OR_RETURN(made.narrow, make({.n = n,
                                             .k = kNarrowColumns,
                                             .matrices = kNarrowMatrices,
                                             .ring_bytes = setup_.ring_bytes}));
  NIBBLE_ASSIGN_OR_RETURN(made.one_entry, make(kOneEntry));
  NIBBLE_ASSIGN_OR_RETURN(made.many_entries, make(kManyEntries));
  return &references_.emplace(weights, std::move(made)).first->second;
}

// A run of one narrow matrix and one of several differ by their units; what is left of the one is
// the run's own.
Result<KernelRates::RunCosts> KernelRates::run_costs() {
  ThreadPool& pool = setup_.pool;
  const auto& [weights, activations] = now_.key;
  References& of = *now_.references;
  RunCosts costs;
  costs.section_s = collect(within(kRunRule), steady_now, [&] {
                      const double start = steady_now();
                      pool.run([](int) {});
                      return steady_now() - start;
                    }).median;
  const GemmCut cut = gemm_cut(weights, activations, setup_.isa);
  NIBBLE_RETURN_IF_ERROR(of.one_entry.set_rows(cut.pass_rows, activations, pool));
  NIBBLE_RETURN_IF_ERROR(of.many_entries.set_rows(cut.pass_rows, activations, pool));
  const auto entries = static_cast<double>(of.many_entries.entries() - of.one_entry.entries());
  const Sample entry = collect(within(kRunRule), steady_now, [&] {
    const double one = of.one_entry.seconds(1, false, pool);
    return (of.many_entries.seconds(1, false, pool) - one) / entries;
  });
  costs.entry_s = std::max(0.0, entry.median);
  NIBBLE_RETURN_IF_ERROR(of.narrow.set_rows(1, activations, pool));
  const auto of_run = [&](bool from_memory) {
    const Sample base = collect(within(kRunRule), steady_now, [&] {
      if (from_memory) read_seconds(now_.row.read, of.wide.cold_memory(kRoofTableBytes), pool);
      const double many = of.narrow.seconds(kNarrowMatrices, from_memory, pool);
      if (from_memory) read_seconds(now_.row.read, of.wide.cold_memory(kRoofTableBytes), pool);
      const double one = of.narrow.seconds(1, from_memory, pool);
      return (kNarrowMatrices * one - many) / (kNarrowMatrices - 1);
    });
    return std::max(0.0, base.median - costs.beside_units(of.narrow, false));
  };
  const double hot_start_s = of_run(false);
  if (cold()) costs.cold_start_s = of_run(true);
  costs.hot_start_s = hot_start_s;
  // The same of two wide matrices and one, and of many rows: what the start alone does not explain.
  NIBBLE_RETURN_IF_ERROR(of.wide.set_rows(cut.pass_rows, activations, pool));
  const Sample base = collect(within(kRunRule), steady_now, [&] {
    const double two = of.wide.seconds(2, false, pool);
    return 2 * of.wide.seconds(1, false, pool) - two;
  });
  const double fetched_s = base.median - costs.beside_units(of.wide, false);
  costs.value_s = std::max(0.0, fetched_s / of.wide.values());
  return costs;
}

void KernelRates::take(const RunCosts& run, double bandwidth, double rate, Samples& samples) {
  ThreadPool& pool = setup_.pool;
  ReferenceRuns& wide = now_.references->wide;
  ReferenceRuns& narrow = now_.references->narrow;
  const auto units_s = [&](ReferenceRuns& runs, std::int64_t matrices, bool from_memory) {
    const double seconds = runs.seconds(matrices, from_memory, pool);
    return (seconds - run.beside_units(runs, from_memory)) / units_of(runs, matrices);
  };
  samples.wide_hot.push_back(units_s(wide, 1, false) * rate);
  samples.narrow_hot.push_back(units_s(narrow, kNarrowMatrices, false) * rate);
  if (!cold()) return;
  samples.of_byte.push_back(rate / bandwidth);
  samples.wide_cold.push_back(units_s(wide, kColdMatrices, true) * bandwidth);
  samples.narrow_cold.push_back(units_s(narrow, kNarrowMatrices, true) * bandwidth);
}

void KernelRates::take_beside_roofs(const RunCosts& run, Samples& samples) {
  const double rate = multiply_rate();
  double bandwidth = 0;
  if (cold()) {
    const MemoryParts memory = now_.references->wide.cold_memory(kRoofTableBytes);
    bandwidth = bytes_read(memory) / read_seconds(now_.row.read, memory, setup_.pool);
  }
  take(run, bandwidth, rate, samples);
}

UnitCost KernelRates::cost_of(const Samples& samples, std::int64_t rows) const {
  const ReferenceRuns& wide = now_.references->wide;
  ReferenceUnits units{.wide_operations = std::max(0.0, median(samples.wide_hot)),
                       .narrow_operations = std::max(0.0, median(samples.narrow_hot)),
                       .wide_columns = kWideColumns,
                       .narrow_columns = kNarrowColumns};
  if (cold()) {
    units.wide_bytes = median(samples.wide_cold);
    units.narrow_bytes = median(samples.narrow_cold);
    units.operations_of_byte = median(samples.of_byte);
    units.bytes_of_column = wide.matrix_bytes() / kWideColumns / units_of(wide, 1);
  }
  UnitCost cost = unit_cost(units, rows);
  cost.start_bytes /= setup_.pool.threads();
  return cost;
}

Result<> KernelRates::set_rows(std::int64_t rows) {
  NIBBLE_RETURN_IF_ERROR(now_.references->wide.set_rows(rows, now_.key.second, setup_.pool));
  return now_.references->narrow.set_rows(rows, now_.key.second, setup_.pool);
}

Result<> KernelRates::measure_quantizing(KernelCosts& costs) {
  constexpr std::int64_t kManyRows = 16;
  ThreadPool& pool = setup_.pool;
  References& of = *now_.references;
  NIBBLE_RETURN_IF_ERROR(of.wide.set_rows(kManyRows, now_.key.second, pool));
  NIBBLE_RETURN_IF_ERROR(of.narrow.set_rows(1, now_.key.second, pool));
  std::vector<double> many, alone;
  collect(within(kRunRule), steady_now, [&] {
    const double rate = multiply_rate();
    const double seconds = of.wide.quantize_seconds(pool) - costs.section_s;
    many.push_back(seconds * rate / of.wide.values());
    alone.push_back(of.narrow.quantize_seconds(pool) * rate / of.narrow.values());
    return many.back();
  });
  costs.quantize = std::max(0.0, median(many));
  costs.quantize_alone = median(alone);
  return {};
}

Result<> KernelRates::measure_curve() {
  Curve curve;
  curve.costs.cut = gemm_cut(now_.key.first, now_.key.second, setup_.isa);
  NIBBLE_ASSIGN_OR_RETURN(curve.run, run_costs());
  const std::vector<std::int64_t> rows = rows_measured(curve.costs.cut);
  std::vector<Samples> samples(rows.size());
  std::vector<double> tops;
  const double start = steady_now();
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && steady_now() - start > setup_.most_seconds * kRounds) break;
    for (std::size_t at = 0; at < rows.size(); ++at) {
      NIBBLE_RETURN_IF_ERROR(set_rows(rows[at]));
      tops.push_back(multiply_rate() / kTera);
      const double begin = steady_now();
      const double most_s = std::min(kRoundSeconds, setup_.most_seconds);
      for (int sample = 0; sample < kSamplesOfRound; ++sample) {
        if (sample > 0 && steady_now() - begin > most_s) break;
        take_beside_roofs(curve.run, samples[at]);
      }
    }
  }
  for (std::size_t at = 0; at < rows.size(); ++at) {
    curve.costs.points.push_back(cost_of(samples[at], rows[at]));
  }
  curve.costs.tops = median(tops);
  curve.costs.section_s = curve.run.section_s;
  curve.costs.entry_s = curve.run.entry_s;
  curve.costs.value_s = curve.run.value_s;
  curve.costs.start_s = cold() ? curve.run.cold_start_s : curve.run.hot_start_s;
  NIBBLE_RETURN_IF_ERROR(measure_quantizing(curve.costs));
  known_[now_.key].push_back(std::move(curve));
  return {};
}

Result<> KernelRates::begin_row(Format weights, Format activations, const RatesRow& row) {
  now_ = {.key = {packed_as(weights), activations}, .row = row};
  NIBBLE_ASSIGN_OR_RETURN(now_.references, references(now_.key.first));
  if (known_[now_.key].empty()) NIBBLE_RETURN_IF_ERROR(measure_curve());
  const KernelCosts& costs = known_[now_.key].back().costs;
  now_.row.rows = std::clamp<std::int64_t>(row.rows, 1, costs.cut.pass_rows);
  return set_rows(now_.row.rows);
}

void KernelRates::sample(double bandwidth, double rate) {
  if (now_.seconds > setup_.most_seconds) return;
  const double start = steady_now();
  take(known_[now_.key].back().run, bandwidth, rate, now_.samples);
  now_.seconds += steady_now() - start;
}

// The costs whose multiply roof is nearest are moved to what the row's own rows cost meanwhile.
Result<> KernelRates::end_row(double tops) {
  constexpr double kNearRoof = 0.2;
  constexpr double kNearCost = 0.25;
  constexpr std::size_t kMostCurves = 4;
  NIBBLE_CHECK(!now_.samples.wide_hot.empty());
  const std::int64_t rows = now_.row.rows;
  const UnitCost here = cost_of(now_.samples, rows);
  const auto distance = [&](const Curve& curve) {
    const double cost = of_columns(here, kWideColumns) /
                        std::max(1.0, of_columns(curve.costs.at(rows), kWideColumns));
    return std::max(std::abs(curve.costs.tops / tops - 1) / kNearRoof,
                    std::abs(cost - 1) / kNearCost);
  };
  std::vector<Curve>& curves = known_[now_.key];
  const auto nearest = [&] {
    return std::min_element(curves.begin(), curves.end(), [&](const Curve& one, const Curve& two) {
      return distance(one) < distance(two);
    });
  };
  if (distance(*nearest()) > 1 && curves.size() < kMostCurves) {
    NIBBLE_RETURN_IF_ERROR(measure_curve());
  }
  now_.used = nearest()->costs;
  const UnitCost then = now_.used.at(rows);
  for (UnitCost& point : now_.used.points) point = moved(point, then, here);
  return {};
}

double KernelRates::predict_s(const Work& work, const RoofsNow& roofs) const {
  return now_.used.predict_s(work, roofs, setup_.pool.threads());
}

Json KernelRates::to_json() const {
  Json list = Json::array();
  for (const auto& [key, curves] : known_) {
    for (const auto& [costs, run] : curves) {
      Json points = Json::array();
      for (const UnitCost& cost : costs.points) {
        points.push(Json::object()
                        .set("rows", cost.rows)
                        .set("unit_cost", cost.unit)
                        .set("column_cost", cost.column)
                        .set("overlap", cost.overlap)
                        .set("start_bytes", cost.start_bytes));
      }
      list.push(Json::object()
                    .set("format", to_string(key.first))
                    .set("activations", to_string(key.second))
                    .set("tops", costs.tops)
                    .set("units", std::move(points))
                    .set("quantize_cost", costs.quantize)
                    .set("quantize_alone_cost", costs.quantize_alone)
                    .set("section_us", costs.section_s * 1e6)
                    .set("entry_ns", costs.entry_s * 1e9)
                    .set("start_us", costs.start_s * 1e6)
                    .set("value_ns", costs.value_s * 1e9));
    }
  }
  return list;
}

}  // namespace nibble
