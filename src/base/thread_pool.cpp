#include "base/thread_pool.h"

#include <algorithm>
#include <pthread.h>
#include <sched.h>

#include "base/check.h"

namespace nibble {
namespace {

// About 100 us of spinning: longer than the gap between two kernels of one step, shorter than
// anything that a user would see in the processor's load.
constexpr int kSpins = 20'000;
// How often a spinning thread lets others run: they may be what it waits for when there are more
// threads than processors.
constexpr int kSpinsBetweenYields = 256;

// section_: 32 bits of number, 1 open, 15 of workers that have begun, 16 of those at work.
constexpr int kNumberShift = 32;
constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kOneBegan = std::uint64_t{1} << 16;
constexpr std::uint64_t kOneAtWork = 1;
constexpr int kMostThreads = 1 << 15;

std::uint32_t number_of(std::uint64_t section) {
  return static_cast<std::uint32_t>(section >> kNumberShift);
}
std::uint64_t began(std::uint64_t section) {
  return (section & (kOpen - 1)) / kOneBegan;
}
std::uint64_t at_work(std::uint64_t section) {
  return section & (kOneBegan - 1);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`: spinning, then asleep.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                              int spins) {
  for (int spin = 0; spin < spins; ++spin) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    if (spin % kSpinsBetweenYields == kSpinsBetweenYields - 1) ::sched_yield();
    pause();
  }
  while (true) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    value.wait(old, std::memory_order_acquire);
  }
}

// Binding is a help, not a need: a container may forbid it.
void bind(pthread_t thread, const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  static_cast<void>(::pthread_setaffinity_np(thread, sizeof(set), &set));
}

}  // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
    }
  }
  if (processors.empty()) {  // more processors than the set holds
    const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int cpu = 0; cpu < count; ++cpu) processors.push_back(cpu);
  }
  return processors;
}

ThreadPool::ThreadPool(int threads) {
  NIBBLE_CHECK(threads >= 1 && threads <= kMostThreads);
  const std::vector<int> processors = usable_processors();
  const bool bound = static_cast<std::size_t>(threads) <= processors.size();
  try {
    for (int thread = 1; thread < threads; ++thread) {
      workers_.emplace_back([this, thread] { serve(thread); });
      if (bound) {
        bind(workers_.back().native_handle(), {processors[static_cast<std::size_t>(thread)]});
      }
    }
  } catch (...) {  // a thread that is dropped before it is joined would end the process
    end_workers();
    throw;
  }
  if (bound && threads > 1) {
    processors_ = processors;
    bind(::pthread_self(), {processors.front()});
  }
}

ThreadPool::~ThreadPool() {
  end_workers();
  if (!processors_.empty()) bind(::pthread_self(), processors_);
}

void ThreadPool::end_workers() {
  stopping_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A worker begins a section at most once, and only while it is open: behind that, `work` is gone.
bool ThreadPool::enter(std::uint32_t& last) {
  std::uint64_t section = section_.load(std::memory_order_acquire);
  do {
    if ((section & kOpen) == 0 || number_of(section) == last) return false;
  } while (!section_.compare_exchange_weak(section, section + kOneBegan + kOneAtWork,
                                           std::memory_order_acq_rel, std::memory_order_acquire));
  last = number_of(section);
  return true;
}

void ThreadPool::serve(int thread) {
  std::uint32_t seen = 0;
  std::uint32_t last = 0;
  while (true) {
    seen = wait_for_change(generation_, seen, kSpins);
    if (stopping_) return;
    if (!enter(last)) continue;
    (*work_)(thread);
    section_.fetch_sub(kOneAtWork, std::memory_order_acq_rel);
    exits_.fetch_add(1, std::memory_order_release);
    exits_.notify_one();
  }
}

void ThreadPool::run_section(const std::function<void(int)>& work, bool all) {
  if (workers_.empty()) return work(0);
  work_ = &work;
  const std::uint32_t number = generation_.load(std::memory_order_relaxed) + 1;
  section_.store((std::uint64_t{number} << kNumberShift) | kOpen, std::memory_order_release);
  generation_.store(number, std::memory_order_release);
  generation_.notify_all();
  work(0);
  if (!all) section_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const std::uint64_t must_begin = all ? workers_.size() : 0;
  while (true) {
    const std::uint32_t exits = exits_.load(std::memory_order_acquire);
    const std::uint64_t section = section_.load(std::memory_order_acquire);
    if (began(section) >= must_begin && at_work(section) == 0) return;
    wait_for_change(exits_, exits, kSpins);
  }
}

}  // namespace nibble
