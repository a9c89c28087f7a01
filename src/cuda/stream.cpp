#include "cuda/stream.h"

#include <utility>

namespace nibble::cuda {

Result<Event> Event::make() {
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  NIBBLE_ASSIGN_OR_RETURN(const abi::Context context, current_context(*driver));
  abi::Event handle = nullptr;
  NIBBLE_RETURN_IF_ERROR(check(driver->EventCreate(&handle, 0), "cuEventCreate"));
  Event event;
  event.event_ = {*driver, context, handle};
  return event;
}

Result<> Event::record(Stream& stream) {
  const CurrentContext current(stream.driver(), stream.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  return check_after(stream.driver().EventRecord(handle(), stream.handle()), "cuEventRecord",
                     stream.trail());
}

Result<> Event::record_in_graph(Stream& stream) {
  const CurrentContext current(stream.driver(), stream.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  return check_after(
      stream.driver().EventRecordWithFlags(handle(), stream.handle(), abi::kEventRecordExternal),
      "cuEventRecordWithFlags", stream.trail());
}

Result<> Event::synchronize() const {
  const CurrentContext current(event_.driver(), event_.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  return check(event_.driver().EventSynchronize(handle()), "cuEventSynchronize");
}

Result<double> Event::elapsed_ms(const Event& begin, const Event& end) {
  NIBBLE_RETURN_IF_ERROR(end.synchronize());
  const Driver& driver = end.event_.driver();
  const CurrentContext current(driver, end.event_.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  float ms = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.EventElapsedTime(&ms, begin.handle(), end.handle()), "cuEventElapsedTime"));
  return static_cast<double>(ms);
}

Result<> Graph::launch(Stream& stream) {
  const CurrentContext current(stream.driver(), stream.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  stream.trail().add(kernels_);
  LaunchTrail::of_thread().add(kernels_);
  return check(stream.driver().GraphLaunch(exec_.get(), stream.handle()), "cuGraphLaunch",
               *kernels_);
}

Result<Stream> Stream::make() {
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  NIBBLE_ASSIGN_OR_RETURN(const abi::Context context, current_context(*driver));
  abi::Stream handle = nullptr;
  NIBBLE_RETURN_IF_ERROR(
      check(driver->StreamCreate(&handle, abi::kStreamNonBlocking), "cuStreamCreate"));
  Stream stream;
  stream.stream_ = {*driver, context, handle};
  return stream;
}

Result<> Stream::synchronize() {
  const CurrentContext current(driver(), context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  NIBBLE_RETURN_IF_ERROR(
      check_after(driver().StreamSynchronize(handle()), "cuStreamSynchronize", trail_));
  trail_.clear();
  return {};
}

Result<> Stream::wait(const Event& event) {
  const CurrentContext current(driver(), context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  return check_after(driver().StreamWaitEvent(handle(), event.handle(), 0), "cuStreamWaitEvent",
                     trail_);
}

Result<Graph> Stream::capture(const std::function<Result<>()>& enqueue) {
  const CurrentContext current(driver(), context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  NIBBLE_RETURN_IF_ERROR(
      check_after(driver().StreamBeginCapture(handle(), abi::kCaptureThreadLocal),
                  "cuStreamBeginCapture", trail_));
  LaunchTrail before = std::exchange(trail_, LaunchTrail());
  const Result<> enqueued = enqueue();
  abi::Graph captured = nullptr;
  const abi::Status ended = driver().StreamEndCapture(handle(), &captured);
  const LaunchTrail kernels = std::exchange(trail_, std::move(before));
  const Owned<abi::Graph, &abi::Functions::GraphDestroy> owner(driver(), context(), captured);
  NIBBLE_RETURN_IF_ERROR(enqueued);
  NIBBLE_RETURN_IF_ERROR(check_after(ended, "cuStreamEndCapture", kernels));

  Graph graph;
  const std::string names = kernels.text();
  graph.kernels_ = std::make_shared<const std::string>(
      names.empty() ? "a graph without kernels" : fmt::format("the graph of {}", names));
  NIBBLE_RETURN_IF_ERROR(check(driver().GraphGetNodes(captured, nullptr, &graph.nodes_),
                               "cuGraphGetNodes", *graph.kernels_));
  abi::GraphExec exec = nullptr;
  NIBBLE_RETURN_IF_ERROR(check(driver().GraphInstantiateWithFlags(&exec, captured, 0),
                               "cuGraphInstantiateWithFlags", *graph.kernels_));
  graph.exec_ = {driver(), context(), exec};
  // Its first launch shall take as long as the others.
  NIBBLE_RETURN_IF_ERROR(
      check(driver().GraphUpload(exec, handle()), "cuGraphUpload", *graph.kernels_));
  return graph;
}

}  // namespace nibble::cuda
