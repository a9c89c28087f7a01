// The threads of a CPU device. ThreadPool binds the thread that made it to a processor and must end
// there; a caller's threads are not ours to bind, so that a thread of our own makes it and takes
// the work.
//
//   CpuTeam team(0);
//   team.run([&](ThreadPool& pool) { gemm(params, pool); });  // done when it returns
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/thread_pool.h"

namespace nibble::capi {

class CpuTeam {
 public:
  // 0: as many threads as this process may use.
  explicit CpuTeam(int threads);
  ~CpuTeam();
  CpuTeam(const CpuTeam&) = delete;
  CpuTeam& operator=(const CpuTeam&) = delete;

  int threads() const { return threads_; }
  // From any thread, one job after the other. Where the job throws, this does: std::bad_alloc for
  // one, std::runtime_error with its text for others. A job must not give the team another one.
  void run(const std::function<void(ThreadPool&)>& job);

 private:
  void serve();

  int threads_;
  std::mutex turn_;  // held by who has a job
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(ThreadPool&)>* job_ = nullptr;
  bool out_of_memory_ = false;  // of the last job, as the next two
  bool failed_ = false;
  std::string failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nibble::capi
