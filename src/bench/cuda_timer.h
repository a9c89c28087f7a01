// Times of a graph on the GPU's own clock: two events around it, in a stream that is held until
// the host has given it all three, so that nothing of the host is timed.
//
//   NIBBLE_ASSIGN_OR_RETURN(CudaTimer timer, CudaTimer::make(probes));
//   NIBBLE_ASSIGN_OR_RETURN(const double us, timer.time_us(graph));
#pragma once

#include <functional>

#include "base/result.h"
#include "bench/cuda_probes.h"
#include "cuda/stream.h"

namespace nibble {

class CudaTimer {
 public:
  static Result<CudaTimer> make(const CudaProbes& probes);

  cuda::Stream& stream() { return stream_; }
  // `before`: work of the stream that comes first and is not timed.
  Result<double> time_us(cuda::Graph& graph, const std::function<Result<>()>& before = {});
  // The same of work that is no graph; `repeats` times in a row, the mean of them.
  Result<double> time_us_of(const std::function<Result<>()>& enqueue, int repeats = 1);

 private:
  CudaTimer(const CudaProbes& probes, cuda::Stream stream, cuda::Event begin, cuda::Event end)
      : probes_(&probes),
        stream_(std::move(stream)),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  const CudaProbes* probes_;
  cuda::Stream stream_;
  cuda::Event begin_;
  cuda::Event end_;
};

}  // namespace nibble
