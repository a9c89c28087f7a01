#include "bench/link_timer.h"

#include <algorithm>
#include <cmath>

namespace nibble {
namespace {

constexpr int kWarmUps = 3;  // NCCL connects its ranks in the first
constexpr int kMostRepetitions = 64;
// What stands before the measured repetitions lasts longer than the host takes to enqueue them on
// eight GPUs (some 10 us each), so that no GPU waits for the host.
constexpr double kLeastRun_us = 400;

}  // namespace

int link_repetitions(double time_us) {
  if (!(time_us > 0)) return kMostRepetitions;
  return static_cast<int>(
      std::clamp(std::ceil(kLeastRun_us / time_us), 2.0, static_cast<double>(kMostRepetitions)));
}

Result<LinkTimer> LinkTimer::make(const std::vector<cuda::Device>& devices) {
  LinkTimer timer;
  for (const cuda::Device& device : devices) {
    NIBBLE_RETURN_IF_ERROR(device.make_current());
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    NIBBLE_ASSIGN_OR_RETURN(cuda::Event begin, cuda::Event::make());
    NIBBLE_ASSIGN_OR_RETURN(cuda::Event end, cuda::Event::make());
    timer.streams_.push_back(std::move(stream));
    timer.begins_.push_back(std::move(begin));
    timer.ends_.push_back(std::move(end));
  }
  return timer;
}

Result<> LinkTimer::synchronize() {
  for (cuda::Stream& stream : streams_) NIBBLE_RETURN_IF_ERROR(stream.synchronize());
  return {};
}

// Every GPU's stream is captured into a graph of its own, all at the same time: NCCL enqueues a
// group on all of them. Nothing else of this thread may allocate until all captures have ended, so
// that the graphs are made afterwards (Stream::capture makes its own at once).
Result<LinkTimer::Graphs> LinkTimer::capture(const Repeat& repeat) {
  std::size_t begun = 0;
  Result<> done;
  while (begun < streams_.size()) {
    const cuda::CurrentContext current(driver(), streams_[begun].context());
    done = cuda::check(
        driver().StreamBeginCapture(streams_[begun].handle(), cuda::abi::kCaptureThreadLocal),
        "cuStreamBeginCapture");
    if (!done) break;
    ++begun;
  }
  if (done) done = repeat();
  std::vector<cuda::Owned<cuda::abi::Graph, &cuda::abi::Functions::GraphDestroy>> captured;
  for (std::size_t at = 0; at < begun; ++at) {
    const cuda::CurrentContext current(driver(), streams_[at].context());
    cuda::abi::Graph graph = nullptr;
    const Result<> ended =
        cuda::check(driver().StreamEndCapture(streams_[at].handle(), &graph), "cuStreamEndCapture");
    captured.emplace_back(driver(), streams_[at].context(), graph);
    if (done) done = ended;
  }
  if (!done) return done.error();
  Graphs graphs;
  for (const auto& graph : captured) {
    const cuda::CurrentContext current(driver(), graph.context());
    cuda::abi::GraphExec exec = nullptr;
    NIBBLE_RETURN_IF_ERROR(cuda::check(driver().GraphInstantiateWithFlags(&exec, graph.get(), 0),
                                       "cuGraphInstantiateWithFlags"));
    graphs.emplace_back(driver(), graph.context(), exec);
  }
  return graphs;
}

Result<> LinkTimer::launch(const Graphs& graphs) {
  for (std::size_t at = 0; at < graphs.size(); ++at) {
    const cuda::CurrentContext current(driver(), graphs[at].context());
    NIBBLE_RETURN_IF_ERROR(cuda::check(
        driver().GraphLaunch(graphs[at].get(), streams_[at].handle()), "cuGraphLaunch"));
  }
  return {};
}

Result<double> LinkTimer::one_sample(const Repeat& repeat) {
  NIBBLE_RETURN_IF_ERROR(repeat());
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    NIBBLE_RETURN_IF_ERROR(begins_[at].record(streams_[at]));
  }
  NIBBLE_RETURN_IF_ERROR(repeat());
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    NIBBLE_RETURN_IF_ERROR(ends_[at].record(streams_[at]));
  }
  NIBBLE_RETURN_IF_ERROR(synchronize());
  double slowest_ms = 0;
  for (std::size_t at = 0; at < streams_.size(); ++at) {
    NIBBLE_ASSIGN_OR_RETURN(const double ms, cuda::Event::elapsed_ms(begins_[at], ends_[at]));
    slowest_ms = std::max(slowest_ms, ms);
  }
  return slowest_ms * 1e3;
}

Result<Sample> LinkTimer::sample(const Repeat& repeat, int repetitions, const StopRule& rule) {
  Result<> fault;
  Sample sample = collect(rule, steady_now, [&] {
    // After a fault the rule sees the same number until it is content, which takes no time.
    if (!fault) return 0.0;
    const Result<double> once = one_sample(repeat);
    if (!once) fault = once.error();
    return once ? *once / repetitions : 0.0;
  });
  if (!fault) return fault.error();
  return sample;
}

Result<LinkTiming> LinkTimer::time(const LinkWork& work, const StopRule& rule) {
  for (int warm = 0; warm < kWarmUps; ++warm) NIBBLE_RETURN_IF_ERROR(work.enqueue());
  NIBBLE_RETURN_IF_ERROR(synchronize());
  NIBBLE_ASSIGN_OR_RETURN(const double first_us, one_sample(work.enqueue));
  const int repetitions = link_repetitions(first_us);
  const Repeat repeat = [&]() -> Result<> {
    for (int at = 0; at < repetitions; ++at) NIBBLE_RETURN_IF_ERROR(work.enqueue());
    return {};
  };
  LinkTiming timing;
  if (work.graphs) {
    // Gone at the end of the row: NCCL's ranks are ended after all graphs with their work.
    const Result<Graphs> graphs = capture(repeat);
    if (graphs) {
      const Repeat replay = [&] { return launch(*graphs); };
      NIBBLE_RETURN_IF_ERROR(replay());  // the first replay uploads the graph
      NIBBLE_RETURN_IF_ERROR(synchronize());
      NIBBLE_ASSIGN_OR_RETURN(timing.time_us, sample(replay, repetitions, rule));
      timing.graphs = true;
      return timing;
    }
    timing.no_graph = graphs.error().message;
  }
  NIBBLE_ASSIGN_OR_RETURN(timing.time_us, sample(repeat, repetitions, rule));
  return timing;
}

}  // namespace nibble
