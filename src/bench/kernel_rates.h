// What a kernel takes when its weights lie in the cache: a roof of its own, measured once for each
// pair of formats on a matrix that is none of the shapes it is used for.
//
//   KernelRates rates(pool, isa);
//   NIBBLE_RETURN_IF_ERROR(rates.measure(Format::kNvfp4, Format::kInt8, {.multiply = probe}));
//   const double s = rates.predict_s(work, Format::kNvfp4, Format::kInt8, {.bandwidth_gb_s = 30,
//                                                                          .tops = 0.6});
//
// Prediction of a run, nothing in it fitted to the shape:
//   sections x (start and end of all threads)
//   + values of the activations x cost of quantizing one / multiply roof
//   + sum over the products of memory + compute - overlap x min(memory, compute)
//     with memory = weight bytes / read bandwidth,
//          compute = (weights x cost(rows) + outputs x cost of one) / multiply roof
// A cost is counted in operations of the multiply roof that the processor could have done
// meanwhile: kernel and roof run in turn, so that most of what changes the one changes the other.
// cost(rows) is that of one weight with so many rows, measured at 1 to 8, 12, 16, 24, 32, 48 and 64
// rows and linear in between; beyond 64 the kernel starts over. Two matrices with equally many
// weights, one four times as high and a quarter as wide, tell what weights and what outputs cost.
// The overlap says how much of the shorter of memory and compute hides behind the longer: 1 is all
// of it, the larger of both. It is measured on cold copies of the two matrices, the median over
// both and 1, 2, 4 and 8 rows.
//
// A processor that shares its cores with a neighbour slows the roof down more than the kernel:
// costs are measured anew when the multiply roof is another than when they were measured.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "bench/rig.h"
#include "formats/quantized_matrix.h"
#include "machine/cpu_probes.h"
#include "measure/sampler.h"

namespace nibble {

struct HotCurve {
  std::vector<std::pair<std::int64_t, double>> points;  // rows, ascending, and cost of one weight
  double output = 0;                                    // of one value
  double quantize = 0;                                  // of one value of the activations
  double overlap = 1;
  double tops = 0;       // the multiply roof meanwhile
  double section_s = 0;  // start and end of all threads
  double cost(std::int64_t rows) const;
};

// What the roofs are when a prediction is made.
struct RoofsNow {
  double bandwidth_gb_s = 0;
  double tops = 0;
};

// What the costs are measured against.
struct RateRoofs {
  MultiplyProbe multiply;         // the roof of these activations
  std::optional<ReadProbe> read;  // none: only runs from the cache will be predicted
  double cache_bytes = 0;
};

class KernelRates {
 public:
  // `most_seconds`: of each number that is measured.
  KernelRates(ThreadPool& pool, Isa isa, double most_seconds = 1)
      : pool_(pool), isa_(isa), most_seconds_(most_seconds) {}

  // Makes sure that costs are known for a multiply roof near `tops`; about a second when they are
  // not. Some tries: the roof may change meanwhile.
  Result<> measure(Format weights, Format activations, const RateRoofs& roofs, double tops);
  // With the costs measured nearest to the roof; measure() must have been called for the pair.
  double predict_s(const Work& work, Format weights, Format activations,
                   const RoofsNow& roofs) const;
  Json to_json() const;

 private:
  StopRule within(StopRule rule) const;
  struct Cost {
    double operations = 0;
    double tops = 0;
  };
  Cost cost_of(const std::function<void()>& work, const MultiplyProbe& multiply) const;
  const HotCurve* nearest(Format weights, Format activations, double tops) const;
  Result<HotCurve> measure_now(Format weights, Format activations, const RateRoofs& roofs);
  // Costs of a weight, outputs included, by rows; and `curve`'s quantizing and roof.
  Result<std::vector<double>> measure_costs(const QuantizedMatrix& matrix, Format activations,
                                            const RateRoofs& roofs, HotCurve& curve) const;
  Result<std::vector<double>> measure_overlaps(const QuantizedMatrix& matrix, Format activations,
                                               const RateRoofs& roofs, const HotCurve& curve) const;

  ThreadPool& pool_;
  Isa isa_;
  double most_seconds_;
  double section_s_ = 0;
  std::map<std::pair<Format, Format>, std::vector<HotCurve>> curves_;
};

}  // namespace nibble
