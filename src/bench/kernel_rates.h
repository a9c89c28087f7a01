// What a kernel takes when its weights lie in the cache: a roof of its own, measured once for each
// pair of formats on a matrix that is none of the shapes it is used for.
//
//   KernelRates rates(pool, isa);
//   NIBBLE_RETURN_IF_ERROR(rates.measure(Format::kNvfp4, Format::kInt8, probe, 0.6, 8));
//   const double s = rates.predict_s(work, Format::kNvfp4, Format::kInt8, {.bandwidth_gb_s = 30,
//                                                                          .tops = 0.6});
//
// Prediction of a run, nothing in it fitted to the shape:
//   sections x (start and end of all threads)
//   + values of the activations x cost of quantizing one / multiply roof
//   + sum over the products of sqrt(memory^2 + compute^2)
//     with memory = weight bytes / read bandwidth,
//          compute = (weights x cost(rows) + outputs x cost of one) / multiply roof
// A cost is counted in operations of the multiply roof that the processor could have done
// meanwhile: kernel and roof run in turn, so that most of what changes the one changes the other.
// cost(rows) is that of one weight with so many rows, measured at 1 to 8, 12, 16, 24, 32, 48 and 64
// rows and linear in between; beyond 64 the kernel starts over. Two matrices with equally many
// weights, one eight times as high and an eighth as wide, tell what weights and what outputs cost.
// Memory and arithmetic overlap in part: all of it would be the larger of both, nothing their sum.
// The root of the squares, 1.41 times the larger where both are equal, is a form and no fit.
//
// A processor that shares its cores with a neighbour slows kernel and roof down differently from
// one minute to the next: costs are confirmed before each use, and measured anew when either has
// changed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "bench/rig.h"
#include "formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"
#include "machine/cpu_probes.h"
#include "measure/sampler.h"

namespace nibble {

struct HotCurve {
  std::vector<std::pair<std::int64_t, double>> points;  // rows, ascending, and cost of one weight
  double output = 0;                                    // of one value
  double quantize = 0;                                  // of one value of the activations
  double tops = 0;                                      // the multiply roof meanwhile
  double section_s = 0;                                 // start and end of all threads
  double cost(std::int64_t rows) const;
};

// What the roofs are when a prediction is made.
struct RoofsNow {
  double bandwidth_gb_s = 0;
  double tops = 0;
};

class KernelRates {
 public:
  // `most_seconds`: of each number that is measured.
  KernelRates(ThreadPool& pool, Isa isa, double most_seconds = 1)
      : pool_(pool), isa_(isa), most_seconds_(most_seconds) {}

  // Makes sure that costs are known that hold now: for a multiply roof near `tops`, and for `rows`
  // rows within a tenth of what they were. About a second when they are not. Some tries: the
  // processor may change meanwhile. `multiply` is the roof of these activations.
  Result<> measure(Format weights, Format activations, const MultiplyProbe& multiply, double tops,
                   std::int64_t rows);
  // With the costs that measure() confirmed last for the pair.
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
  // The costs of one pair of formats, the matrices they are measured on and the last ones in use.
  struct Known {
    PackedWeights low;
    PackedWeights high;
    std::vector<HotCurve> curves;
    std::size_t used = 0;
  };
  Result<Known*> known(Format weights, Format activations);
  bool confirmed(Known& known, Format activations, const MultiplyProbe& multiply, double tops,
                 std::int64_t rows) const;
  Result<HotCurve> measure_now(const Known& known, Format activations,
                               const MultiplyProbe& multiply);
  Result<Cost> cost_of_rows(const PackedWeights& packed, Format activations,
                            const MultiplyProbe& multiply, std::int64_t rows) const;
  // Of one output, from the two matrices in turn.
  Result<double> cost_of_output(const Known& known, Format activations,
                                const MultiplyProbe& multiply) const;

  ThreadPool& pool_;
  Isa isa_;
  double most_seconds_;
  double section_s_ = 0;
  std::map<std::pair<Format, Format>, Known> known_;
};

}  // namespace nibble
