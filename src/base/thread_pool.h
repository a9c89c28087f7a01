// A fixed team of threads for kernels: starts and ends a parallel section in about a microsecond,
// because the workers spin for a while before they sleep.
//
//   ThreadPool pool(2);
//   pool.run([&](int thread) { sum_of[thread] = sum(slice(thread)); });
//
//   WorkQueue queue(units);                     // units are handed out in order, each once
//   pool.share([&](int) { while (auto unit = queue.next()) work(*unit); });
//   pool.run_for(300, work);                    // 300 ns of work: not worth waking anybody
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
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
  // everywhere again. Throws std::system_error where the system gives no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls work(0) here and work(1 ..) on the workers; returns when all have returned. Not
  // reentrant. Does not allocate: `work` is taken by reference, whatever it captures.
  template <class Work>
  void run(const Work& work) {
    run_section(std::cref(work), true);
  }
  // The same for work that work(0) can do alone, as units of a queue: a worker that has not begun
  // when work(0) returns stays away. Where other programs hold the processors, waiting for each
  // worker's turn would take longer than the work, a hundred times over.
  template <class Work>
  void share(const Work& work) {
    run_section(std::cref(work), false);
  }
  // share() for work that one thread does in about `ns`: done by the caller alone when a section
  // would save less than it costs. Starting and ending one takes 0.5 to 1 us, and two
  // threads save half of `ns`. No more than `most` threads call `work`; 0: all may.
  template <class Work>
  void run_for(double ns, const Work& work, int most = 0) {
    constexpr double kAloneNs = 2000;
    if (ns < kAloneNs || most == 1) {
      work(0);
    } else if (most == 0 || most >= threads()) {
      share(work);
    } else {
      share([&](int thread) {
        if (thread < most) work(thread);
      });
    }
  }

 private:
  void run_section(const std::function<void(int)>& work, bool all);
  void serve(int thread);
  void end_workers();
  bool enter(std::uint32_t& last);

  std::vector<std::thread> workers_;
  std::vector<int> processors_;  // of the calling thread before; empty: it was not bound
  const std::function<void(int)>* work_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;  // advanced by each section
  // Which section, whether workers may still begin, how many have and how many are at work.
  alignas(64) std::atomic<std::uint64_t> section_ = 0;
  alignas(64) std::atomic<std::uint32_t> exits_ = 0;  // advanced by each worker that has ended
  std::atomic<bool> stopping_ = false;
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

// The same for work whose neighbours share memory: a thread gets a share of its own in order, so
// that what it reads goes on where it ended, and then what the others have not begun.
class ShareQueue {
 public:
  ShareQueue(std::int64_t count, int threads)
      : count_(count), shares_(std::clamp(threads, 1, kMostShares)) {}
  std::optional<std::int64_t> next(int thread) {
    for (int tried = 0; tried < shares_; ++tried) {
      const int share = (thread + tried) % shares_;
      const std::int64_t unit =
          begin(share) +
          shares_of_[static_cast<std::size_t>(share)].taken.fetch_add(1, std::memory_order_relaxed);
      if (unit < begin(share + 1)) return unit;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kMostShares = 64;
  struct alignas(64) Share {
    std::atomic<std::int64_t> taken = 0;
  };
  std::int64_t begin(int share) const { return count_ * share / shares_; }

  std::int64_t count_;
  int shares_;
  std::array<Share, kMostShares> shares_of_;
};

}  // namespace nibble
