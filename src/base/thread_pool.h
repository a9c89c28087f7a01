// A fixed team of threads for kernels: starts and ends a parallel section in about a microsecond,
// because the workers spin for a while before they sleep.
//
//   ThreadPool pool(2);
//   pool.run([&](int thread) { sum_of[thread] = sum(slice(thread)); });
//
//   WorkQueue queue(units);                     // units are handed out in order, each once
//   pool.run([&](int) { while (auto unit = queue.next()) work(*unit); });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace nibble {

class ThreadPool {
 public:
  // The calling thread and `threads` - 1 workers. While there are as many processors as threads,
  // each is bound to its own, the calling thread too: two on one processor would take twice as long
  // until the system notices. The pool must end in the thread that made it, which then may run
  // everywhere again.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls work(0) here and work(1 ..) on the workers; returns when all have returned. Not
  // reentrant. Does not allocate: `work` is taken by reference, whatever it captures.
  template <class Work>
  void run(const Work& work) {
    run_all(std::cref(work));
  }

 private:
  void run_all(const std::function<void(int)>& work);
  void serve(int thread);

  std::vector<std::thread> workers_;
  std::vector<int> processors_;  // of the calling thread before; empty: it was not bound
  const std::function<void(int)>* work_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;  // advanced by each run()
  alignas(64) std::atomic<std::uint32_t> running_ = 0;     // workers that have not returned yet
  bool stopping_ = false;
};

// Processors that this process may run on.
std::vector<int> usable_processors();

// Hands out 0 .. count - 1 to whoever asks: a thread that the system holds up takes fewer.
class WorkQueue {
 public:
  explicit WorkQueue(std::int64_t count) : count_(count) {}
  std::optional<std::int64_t> next() {
    const std::int64_t unit = next_.fetch_add(1, std::memory_order_relaxed);
    return unit < count_ ? std::optional(unit) : std::nullopt;
  }

 private:
  std::int64_t count_;
  std::atomic<std::int64_t> next_ = 0;
};

}  // namespace nibble
