// The costs that predictions are made of (bench/kernel_costs.h), measured on reference matrices
// that are none of the shapes they are used for, once for each pair of formats.
//
//   KernelRates rates({.pool = pool, .isa = isa, .ring_bytes = 256e6});
//   NIBBLE_RETURN_IF_ERROR(rates.begin_row(Format::kNvfp4, Format::kInt8, {read, multiply, 8}));
//   rates.sample(bandwidth, rate);                   // again and again, both in units a second
//   NIBBLE_RETURN_IF_ERROR(rates.end_row(1.1));
//   const double s = rates.predict_s(work, {.bandwidth_gb_s = 30, .tops = 1.1});
//
// Two matrices, one of many columns and one of few, in the cache and from memory, tell for a number
// of rows what a unit and what a column costs, how far reading and multiplying overlap, and what a
// cold start of a unit costs; runs of one and of many matrices what the start of a run costs; lists
// of one and of many entries what an entry costs. All are medians, with both roofs in turn.
//
// A processor that shares its cores with a neighbour slows kernel and roof down differently from
// one second to the next: while a row is measured, the two matrices run in turn with it, with as
// many rows as most of its products have. The costs of all rows are moved to what they cost there,
// and measured anew where that is far from what was known.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "bench/kernel_costs.h"
#include "bench/reference_runs.h"
#include "machine/cpu_probes.h"
#include "measure/sampler.h"

namespace nibble {

struct RatesSetup {
  ThreadPool& pool;
  Isa isa = Isa::kPortable;
  // Memory that the matrices of either kind take turns in, more than a cache holds; 0: weights lie
  // in the cache, and nothing is measured cold.
  double ring_bytes = 0;
  double most_seconds = 1;  // of each number that is measured
};

// What a row is measured with.
struct RatesRow {
  ReadProbe read;
  MultiplyProbe multiply;  // the roof of these activations
  std::int64_t rows = 1;   // that most of its products have
};

// Medians of runs on the two reference matrices, of one unit of a thread: operations of the
// multiply roof meanwhile when hot, bytes of the read roof when cold.
struct ReferenceUnits {
  double wide_operations = 0;
  double narrow_operations = 0;
  double wide_bytes = 0;
  double narrow_bytes = 0;
  double operations_of_byte = 0;  // multiply roof / read roof; 0: nothing was run cold
  double wide_columns = 0;
  double narrow_columns = 0;
  double bytes_of_column = 0;  // read by all threads
};

// What they say about the costs of a unit that meets so many rows.
UnitCost unit_cost(const ReferenceUnits& units, std::int64_t rows);

class KernelRates {
 public:
  explicit KernelRates(const RatesSetup& setup) : setup_(setup) {}

  // A row begins: its costs are measured in about two seconds when the pair has none yet.
  Result<> begin_row(Format weights, Format activations, const RatesRow& row);
  // The two matrices once, beside roofs of so many bytes and operations a second; not when that
  // has taken too much of the row's time already.
  void sample(double bandwidth, double rate);
  // The row has ended, beside a multiply roof of `tops`: predict_s() holds for it.
  Result<> end_row(double tops);
  double predict_s(const Work& work, const RoofsNow& roofs) const;
  Json to_json() const;

 private:
  using Key = std::pair<Format, Format>;
  // The matrices of a weight format.
  struct References {
    ReferenceRuns wide;    // of many columns
    ReferenceRuns narrow;  // of few
    ReferenceRuns one_entry;
    ReferenceRuns many_entries;
  };
  // What a run takes beside its units.
  struct RunCosts {
    double section_s = 0;
    double entry_s = 0;
    double hot_start_s = 0;
    double cold_start_s = 0;
    double value_s = 0;
    double beside_units(const ReferenceRuns& runs, bool cold) const {
      return section_s + static_cast<double>(runs.entries()) * entry_s +
             (cold ? cold_start_s : hot_start_s) + runs.values() * value_s;
    }
  };
  struct Curve {
    KernelCosts costs;
    RunCosts run;
  };
  // Samples of ReferenceUnits.
  struct Samples {
    std::vector<double> wide_hot, narrow_hot, wide_cold, narrow_cold, of_byte;
  };
  struct Current {
    Key key;
    RatesRow row;
    References* references = nullptr;
    Samples samples;
    double seconds = 0;  // that they took
    KernelCosts used;
  };

  bool cold() const { return setup_.ring_bytes > 0; }
  double units_of(const ReferenceRuns& runs, std::int64_t matrices) const;
  StopRule within(StopRule rule) const;
  double multiply_rate() const;
  Result<References*> references(Format weights);
  Result<RunCosts> run_costs();
  void take(const RunCosts& run, double bandwidth, double rate, Samples& samples);
  void take_beside_roofs(const RunCosts& run, Samples& samples);
  UnitCost cost_of(const Samples& samples, std::int64_t rows) const;
  Result<> set_rows(std::int64_t rows);
  Result<> measure_curve();
  Result<> measure_quantizing(KernelCosts& costs);

  RatesSetup setup_;
  std::map<Format, References> references_;
  std::map<Key, std::vector<Curve>> known_;
  Current now_;
};

}  // namespace nibble
