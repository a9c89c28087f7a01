// What the time of a run is predicted from: costs of the kernels that were measured on reference
// matrices (bench/kernel_rates.h), the roofs of the moment, and how gemm() cuts its work.
//
//   const KernelCosts costs = ...;                     // measured
//   const double s = costs.predict_s(work, {.bandwidth_gb_s = 27, .tops = 1.1}, pool.threads());
//
// Nothing in it is fitted to the shape:
//   time = sections + quantizing + sum over the calls of gemm():
//          section + entries of the list x cost of one + start of a run
//          + values of the activations x what it takes to fetch one that another thread made
//          + the longest thread, when units are handed out as ShareQueue does
//   unit = (memory^p + compute^p)^(1/p) + start of a unit
//     memory  = bytes of its weights / its thread's share of the read bandwidth
//     compute = (cost of a unit + columns x cost of a column) / multiply roof
// A unit, a pass and a tile are gemm()'s own (GemmCut). Costs depend on the rows of a pass. Passes
// after the first find their weights in a cache: their units take `compute` alone.
// 1 / p, the overlap, is measured for each number of rows: 0 is the longer of both, 1 their sum.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/rig.h"
#include "kernels/gemm/gemm.h"

namespace nibble {

// What the roofs are when a prediction is made. Weights in the cache: no bandwidth, 0.
struct RoofsNow {
  double bandwidth_gb_s = 0;
  double tops = 0;
};

// Of a unit that meets so many rows. Operations are those that the multiply roof of all threads
// could have done meanwhile, bytes what the read roof of all threads could have read: kernel and
// roof run in turn, so that most of what changes the one changes the other.
struct UnitCost {
  std::int64_t rows = 0;
  double unit = 0;         // operations, whatever its columns,
  double column = 0;       // and for each of them
  double overlap = 0;      // 1 / p
  double start_bytes = 0;  // of weights that no thread has asked for yet
};

// Memory and arithmetic together.
double overlapped(double memory, double compute, double overlap);
// The overlap that makes `together` of both: 0 for the longer one or less.
double overlap_of(double memory, double compute, double together);

// Seconds until all units are done, in their order, as ShareQueue hands them out.
double shared_seconds(const std::vector<double>& unit_seconds, int threads);

struct KernelCosts {
  GemmCut cut;
  std::vector<UnitCost> points;  // by rows, ascending, up to those of a pass
  double tops = 0;               // the multiply roof meanwhile
  double quantize = 0;           // operations of one value of the activations, by all threads
  double quantize_alone = 0;     // and by one thread, which starts no others
  double section_s = 0;          // start and end of all threads
  double entry_s = 0;            // of one entry of gemm()'s list
  double value_s = 0;            // of one value of the activations that a run meets
  double start_s = 0;            // what a run takes longer than all these and its units

  // Between its neighbours, linear.
  UnitCost at(std::int64_t rows) const;
  double predict_s(const Work& work, const RoofsNow& roofs, int threads) const;
  double gemm_s(const GemmCall& call, const RoofsNow& roofs, int threads) const;
  double quantize_s(double values, const RoofsNow& roofs) const;

 private:
  void add_units(const Product& product, const RoofsNow& roofs, int threads,
                 std::vector<double>& seconds) const;
};

}  // namespace nibble
