// One operation on a GPU with its weights in memory: what measure_cuda_row() times as graphs.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRig> rig, make_cublaslt_rig(...));
//   NIBBLE_RETURN_IF_ERROR(rig->set_tokens(64));
//   NIBBLE_RETURN_IF_ERROR(rig->check(stream));
//   NIBBLE_ASSIGN_OR_RETURN(const CudaWork work, rig->draw(stream));  // not timed
//   NIBBLE_RETURN_IF_ERROR(rig->enqueue(copy, stream));               // captured, then timed
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/cublaslt.h"
#include "bench/cuda_floor.h"
#include "bench/cuda_predict.h"
#include "bench/cuda_probes.h"
#include "bench/route_draw.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace nibble {
namespace tune {
class TuningTable;
}

// How a layer with 16-bit activations is launched.
enum class LayerPath {
  kSteps,      // a launch a step
  kOneLaunch,  // one launch where the kernel takes so many tokens
  kChosen,     // whichever the library takes by default
};

struct CudaSetup {
  const cuda::Device& gpu;
  const CudaProbes& probes;
  bool cold = true;
  RouteDraw routing;
  std::uint64_t seed = 1;
  tune::TuningTable* tuning = nullptr;  // asked first; null: defaults
  LayerPath path = LayerPath::kSteps;
};

class CudaRig {
 public:
  virtual ~CudaRig() = default;
  // Tokens of the runs that follow; makes what they need.
  virtual Result<> set_tokens(std::int64_t tokens) = 0;
  // Runs once and compares a sample of the outputs with a double-precision reference.
  virtual Result<> check(cuda::Stream& stream) = 0;
  // Copies of the weights that take turns.
  virtual int copies() const = 0;
  // What the next run is to do; enqueues what changes for it.
  virtual Result<CudaWork> draw(cuda::Stream& stream) = 0;
  virtual Result<> enqueue(int copy, cuda::Stream& stream) = 0;
  virtual double ring_bytes() const = 0;  // of all copies
  virtual std::string kernel() const = 0;
  virtual std::string tactic() const { return {}; }
  // Why its times would say nothing: it is checked then, and not timed. Empty: they count.
  virtual std::string why_not_timed() const { return {}; }
  // Of the run that was drawn last; nullopt: nothing is predicted.
  virtual std::optional<double> predict_us(const CudaRates&) const { return std::nullopt; }
};

// So many copies that a run's weights have long left the L2 cache when their turn comes again: four
// caches, within half of the free memory, and 256 at most.
int copies_for(double bytes_of_run, double bytes_of_copy, double l2_bytes, double free_bytes,
               bool cold);

// cuBLASLt's product of a shape's matrix, with all operands of one format: no weight is 4-bit but
// with kFp4. A run error says why this GPU or this library cannot.
Result<std::unique_ptr<CudaRig>> make_cublaslt_rig(const BenchShape& shape, LtFormat format,
                                                   const CudaSetup& setup);

// The work of a dense product whose operands all have this format.
CudaWork lt_work(const BenchShape& shape, LtFormat format, std::int64_t tokens);

}  // namespace nibble
