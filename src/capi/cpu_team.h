// The threads of a CPU device. ThreadPool binds the thread that made it to a processor and must end
// there; a caller's threads are not ours to bind, so that a thread of our own makes it and takes
// the work.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TeamPointer team, CpuTeam::start(0));
//   NIBBLE_RETURN_IF_ERROR(                          // done when it returns
//       team->run([&](ThreadPool& pool) { gemm(params, pool); }));
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <sys/types.h>
#include <thread>

#include "base/result.h"
#include "base/thread_pool.h"

namespace nibble::capi {

class CpuTeam;
// A forked process has the team's memory and not its threads: to wait for them, as ending a team
// does, would never end. There the memory stays as it is.
struct EndTeam {
  void operator()(CpuTeam* team) const;
};
using TeamPointer = std::unique_ptr<CpuTeam, EndTeam>;

class CpuTeam {
 public:
  // 0: as many threads as this process may use. A run error where the system does not give them.
  static Result<TeamPointer> start(int threads);
  // The same, throwing; all threads are there when it returns.
  explicit CpuTeam(int threads);
  ~CpuTeam();
  CpuTeam(const CpuTeam&) = delete;
  CpuTeam& operator=(const CpuTeam&) = delete;

  int threads() const { return threads_; }
  // An input error in a process that was forked after the team was made.
  Result<> check_process() const;
  // From any thread, one job after the other; an input error in another process. What the job
  // throws, this throws. A job must not give the team another one.
  Result<> run(const std::function<void(ThreadPool&)>& job);

 private:
  void serve();
  void serve_jobs(ThreadPool& pool);

  int threads_;
  pid_t process_;
  std::mutex turn_;  // held by who has a job
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(ThreadPool&)>* job_ = nullptr;
  std::exception_ptr failure_;  // of the start, then of the last job
  bool started_ = false;        // or failed to
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nibble::capi
