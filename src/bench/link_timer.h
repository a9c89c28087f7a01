// Times work that several GPUs do together: one stream a GPU, many repetitions between two events,
// replayed as CUDA graphs where the work can be captured.
//
//   NIBBLE_ASSIGN_OR_RETURN(LinkTimer timer, LinkTimer::make(devices));
//   NIBBLE_ASSIGN_OR_RETURN(const LinkTiming timing,
//                           timer.time({.enqueue = all_reduce_once, .graphs = true}, rule));
//   timing.time_us.median, timing.graphs
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/owned.h"
#include "cuda/stream.h"
#include "measure/sampler.h"

namespace nibble {

struct LinkWork {
  std::function<Result<>()> enqueue;  // one message, on the streams that take part
  bool graphs = true;                 // may be captured
};

struct LinkTiming {
  Sample time_us;        // of one message: the slowest GPU's
  bool graphs = false;   // replayed as graphs, else enqueued one by one
  std::string no_graph;  // why not, when that was wanted
};

// How many messages of this time stand between two events: enough that neither the events nor the
// difference between the GPUs' beginnings counts.
int link_repetitions(double time_us);

class LinkTimer {
 public:
  static Result<LinkTimer> make(const std::vector<cuda::Device>& devices);

  cuda::Stream& stream(std::size_t rank) { return streams_.at(rank); }
  Result<> synchronize();
  // Warms up, chooses the repetitions, and samples until the rule is content.
  Result<LinkTiming> time(const LinkWork& work, const StopRule& rule);

 private:
  using Repeat = std::function<Result<>()>;  // enqueues all repetitions once

  using Graphs =  // one a stream
      std::vector<cuda::Owned<cuda::abi::GraphExec, &cuda::abi::Functions::GraphExecDestroy>>;

  LinkTimer() = default;
  const cuda::Driver& driver() const { return streams_.front().driver(); }
  Result<Graphs> capture(const Repeat& repeat);
  Result<> launch(const Graphs& graphs);
  // The slowest GPU's time of one `repeat`, in us; another `repeat` runs before it.
  Result<double> one_sample(const Repeat& repeat);
  Result<Sample> sample(const Repeat& repeat, int repetitions, const StopRule& rule);

  std::vector<cuda::Stream> streams_;
  std::vector<cuda::Event> begins_;
  std::vector<cuda::Event> ends_;
};

}  // namespace nibble
