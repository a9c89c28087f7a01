// Streams, events and graphs, as move-only owners.
//
//   NIBBLE_ASSIGN_OR_RETURN(Stream stream, Stream::make());
//   NIBBLE_ASSIGN_OR_RETURN(Graph graph, stream.capture([&] { return enqueue_layer(stream); }));
//   NIBBLE_RETURN_IF_ERROR(begin.record(stream));
//   NIBBLE_RETURN_IF_ERROR(graph.launch(stream));
//   NIBBLE_RETURN_IF_ERROR(end.record(stream));
//   NIBBLE_ASSIGN_OR_RETURN(const double ms, Event::elapsed_ms(begin, end));
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cuda/owned.h"

namespace nibble::cuda {

class Stream;

// Recorded into a stream; when the work before it is done, its time stands.
class Event {
 public:
  static Result<Event> make();
  Result<> record(Stream& stream);
  // While a graph is captured: a node of it that records the event at every replay.
  Result<> record_in_graph(Stream& stream);
  Result<> synchronize() const;
  // Waits for `end`.
  static Result<double> elapsed_ms(const Event& begin, const Event& end);
  abi::Event handle() const { return event_.get(); }

 private:
  Event() = default;

  Owned<abi::Event, &abi::Functions::EventDestroy> event_;
};

// Captured work, ready to be launched again and again. What it reads and writes (buffers, modules)
// must live as long.
class Graph {
 public:
  Result<> launch(Stream& stream);
  std::size_t nodes() const { return nodes_; }

 private:
  friend class Stream;
  Graph() = default;

  Owned<abi::GraphExec, &abi::Functions::GraphExecDestroy> exec_;
  std::size_t nodes_ = 0;
  std::shared_ptr<const std::string> kernels_;  // for the trail of the streams it is launched into
};

// Work in order, on the GPU that was current when it was made. Does not wait for the default
// stream.
class Stream {
 public:
  static Result<Stream> make();
  Result<> synchronize();
  Result<> wait(const Event& event);  // what comes next waits for it
  // Runs `enqueue`, which gives this stream its work, and makes a graph of it; nothing runs. The
  // thread that captures must not allocate or synchronize meanwhile.
  Result<Graph> capture(const std::function<Result<>()>& enqueue);

  abi::Stream handle() const { return stream_.get(); }
  abi::Context context() const { return stream_.context(); }
  const Driver& driver() const { return stream_.driver(); }
  LaunchTrail& trail() { return trail_; }

 private:
  friend class BorrowedStream;
  Stream() = default;

  Owned<abi::Stream, &abi::Functions::StreamDestroy> stream_;
  LaunchTrail trail_;
};

// Somebody else's stream: used like one of ours, never destroyed. Null: the context's default one.
class BorrowedStream {
 public:
  BorrowedStream(const Driver& driver, abi::Context context, abi::Stream handle) {
    stream_.stream_ = {driver, context, handle};
  }
  ~BorrowedStream() { stream_.stream_.release(); }
  BorrowedStream(const BorrowedStream&) = delete;
  BorrowedStream& operator=(const BorrowedStream&) = delete;

  Stream& stream() { return stream_; }

 private:
  Stream stream_;
};

}  // namespace nibble::cuda
