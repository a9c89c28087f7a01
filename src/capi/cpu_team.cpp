#include "capi/cpu_team.h"

#include <optional>
#include <unistd.h>
#include <utility>

namespace nibble::capi {
namespace {

int threads_wanted(int threads) {
  return threads > 0 ? threads : static_cast<int>(usable_processors().size());
}

Error not_started(int threads, std::string_view why) {
  return run_error(
      "{} threads of the CPU do not start ({}); ask nibble_cpu_open() for fewer, or raise this "
      "process's limits on threads and memory",
      threads_wanted(threads), why);
}

}  // namespace

void EndTeam::operator()(CpuTeam* team) const {
  if (team->check_process().ok()) delete team;
}

Result<TeamPointer> CpuTeam::start(int threads) {
  try {
    return TeamPointer(new CpuTeam(threads));
  } catch (const std::exception& exception) {
    return not_started(threads, exception.what());
  } catch (...) {
    return not_started(threads, "an exception of no known type");
  }
}

CpuTeam::CpuTeam(int threads)
    : threads_(threads_wanted(threads)), process_(::getpid()), thread_([this] { serve(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_; });
  if (!failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(failure_);
}

CpuTeam::~CpuTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<> CpuTeam::check_process() const {
  const pid_t here = ::getpid();
  if (here == process_) return {};
  return input_error(
      "the device was opened in process {}, and this is {}, which has none of its threads; open "
      "one after the fork",
      process_, here);
}

// The process first: of another one, who held the locks when it was forked is not here.
Result<> CpuTeam::run(const std::function<void(ThreadPool&)>& job) {
  NIBBLE_RETURN_IF_ERROR(check_process());
  const std::lock_guard turn(turn_);
  std::unique_lock lock(mutex_);
  job_ = &job;
  changed_.notify_all();
  changed_.wait(lock, [this] { return job_ == nullptr; });
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) {
    std::rethrow_exception(failure);
  }
  return {};
}

void CpuTeam::serve() {
  std::optional<ThreadPool> pool;
  std::exception_ptr failure;
  try {
    pool.emplace(threads_);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
    failure_ = failure;
    changed_.notify_all();
  }
  if (pool) serve_jobs(*pool);
}

void CpuTeam::serve_jobs(ThreadPool& pool) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ != nullptr || stopping_; });
    if (stopping_) return;
    const std::function<void(ThreadPool&)>& job = *job_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      job(pool);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = std::move(failure);
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace nibble::capi
