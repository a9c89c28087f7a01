#include "capi/cpu_team.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

namespace nibble::capi {

CpuTeam::CpuTeam(int threads)
    : threads_(threads > 0 ? threads : static_cast<int>(usable_processors().size())),
      thread_([this] { serve(); }) {}

CpuTeam::~CpuTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuTeam::run(const std::function<void(ThreadPool&)>& job) {
  const std::lock_guard turn(turn_);
  std::unique_lock lock(mutex_);
  job_ = &job;
  changed_.notify_all();
  changed_.wait(lock, [this] { return job_ == nullptr; });
  if (std::exchange(out_of_memory_, false)) throw std::bad_alloc();
  if (std::exchange(failed_, false)) throw std::runtime_error(failure_);
}

void CpuTeam::serve() {
  ThreadPool pool(threads_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ != nullptr || stopping_; });
    if (stopping_) return;
    const std::function<void(ThreadPool&)>& job = *job_;
    lock.unlock();
    try {
      job(pool);
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    } catch (const std::exception& exception) {
      failed_ = true;
      failure_ = exception.what();
    }
    lock.lock();
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace nibble::capi
