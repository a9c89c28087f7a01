#include "bench/cuda_timer.h"

namespace nibble {
namespace {

// The host takes about 10 us to enqueue an event, a graph of some nodes and another event.
constexpr double kHoldUs = 60;
constexpr double kUsOfMs = 1e3;

}  // namespace

Result<CudaTimer> CudaTimer::make(const CudaProbes& probes) {
  NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
  NIBBLE_ASSIGN_OR_RETURN(cuda::Event begin, cuda::Event::make());
  NIBBLE_ASSIGN_OR_RETURN(cuda::Event end, cuda::Event::make());
  return CudaTimer(probes, std::move(stream), std::move(begin), std::move(end));
}

Result<double> CudaTimer::time_us(cuda::Graph& graph, const std::function<Result<>()>& before) {
  if (before) NIBBLE_RETURN_IF_ERROR(before());
  NIBBLE_RETURN_IF_ERROR(probes_->hold(kHoldUs, stream_));
  NIBBLE_RETURN_IF_ERROR(begin_.record(stream_));
  NIBBLE_RETURN_IF_ERROR(graph.launch(stream_));
  NIBBLE_RETURN_IF_ERROR(end_.record(stream_));
  NIBBLE_ASSIGN_OR_RETURN(const double ms, cuda::Event::elapsed_ms(begin_, end_));
  return ms * kUsOfMs;
}

Result<double> CudaTimer::time_us_of(const std::function<Result<>()>& enqueue, int repeats) {
  NIBBLE_RETURN_IF_ERROR(probes_->hold(kHoldUs, stream_));
  NIBBLE_RETURN_IF_ERROR(begin_.record(stream_));
  for (int repeat = 0; repeat < repeats; ++repeat) NIBBLE_RETURN_IF_ERROR(enqueue());
  NIBBLE_RETURN_IF_ERROR(end_.record(stream_));
  NIBBLE_ASSIGN_OR_RETURN(const double ms, cuda::Event::elapsed_ms(begin_, end_));
  return ms * kUsOfMs / repeats;
}

}  // namespace nibble
