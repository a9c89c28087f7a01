// A backend in a child process: a tactic that crashes, hangs or loses the GPU's context costs
// itself alone. Requests and answers are JSON, a line each, over the child's standard input and
// output.
//
//   WorkerBackend backend({.words = {"/proc/self/exe", "tune", "--worker"}, .job = job});
//   backend.time_us(key, tactic, round);      // starts the child where there is none
//
//   // in the child:
//   return serve_worker(make_backend, STDIN_FILENO, STDOUT_FILENO);
//
// An error of one tactic can poison the context for all that follow (facts/sm120.md, 3A case 11):
// a child whose backend is lost ends, and the next request starts another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tactics/tune/backend.h"
#include "tactics/tune/worker_child.h"

namespace nibble::tune {

struct WorkerSetup {
  std::vector<std::string> words;  // the program and its arguments
  Json job;                        // the first line: what serve_worker() makes a backend of
  // For an answer but the first; then the child is ended. A check with more replays than
  // kUsualReplays has more time, in proportion.
  double answer_seconds = 120;
  double start_seconds = 600;  // for the first answer of a child
  int most_starts = 64;        // of children; then every request fails
};

inline constexpr int kUsualReplays = 50;

class WorkerBackend : public TuneBackend {
 public:
  explicit WorkerBackend(WorkerSetup setup) : setup_(std::move(setup)) {}

  Result<BackendIdentity> identity() override;
  Result<Candidates> candidates(const TuningKey& key) override;
  Result<CheckRun> check(const TuningKey& key, const AnyTactic& tactic, std::int64_t tokens,
                         int repeats) override;
  Result<double> time_us(const TuningKey& key, const AnyTactic& tactic, std::size_t round) override;

 private:
  Result<Json> ask(const Json& request, double seconds);
  Result<> start();

  WorkerSetup setup_;
  std::optional<WorkerChild> child_;
  int starts_ = 0;
};

// What the child does its work with; lost() says after an error that nothing will work any more.
struct WorkerService {
  std::unique_ptr<TuneBackend> backend;
  std::function<bool()> lost = [] { return false; };
};
using MakeService = std::function<Result<WorkerService>(const Json& job)>;

// Answers requests until the input ends; the exit status.
int serve_worker(const MakeService& make, int in, int out);

}  // namespace nibble::tune
