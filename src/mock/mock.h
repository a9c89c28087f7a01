// A scripted server with the OpenAI API, inside this process: what load tests are tested against,
// and what measures their own error.
//
//   NIBBLE_ASSIGN_OR_RETURN(RunningMock mock, start_mock(script, {.port = 0}));
//   run_client(mock.url());
//   const MockStats stats = mock.stats();           // how exact the mock itself was
//   for (const RequestTruth& truth : mock.take_truths()) compare(truth);
//
// The server keeps its times by itself; the clock is base/clock.h, so that due times and a client's
// stamps on the same host can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "mock/counters.h"
#include "mock/engine.h"
#include "mock/script.h"

namespace nibble::mock {

struct MockOptions {
  std::string host = "127.0.0.1";
  int port = 0;                                 // 0: any that is free
  std::size_t threads = 1;                      // each an event loop
  std::filesystem::path truth_file = {};        // a line of JSON for every answer; empty: none
  bool keep_truths = false;                     // for take_truths()
  std::filesystem::path certificate_file = {};  // PEM; with it the mock speaks https
  std::filesystem::path key_file = {};
};

// One answer as it was scripted and as it went. Times are of base/clock.h.
struct RequestTruth {
  std::uint64_t index = 0;
  Nanoseconds arrival = 0;  // the last byte of the request
  Nanoseconds start = 0;    // a slot was free; 0: it never ran
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;    // that were to come
  std::vector<Chunk> chunks;         // that came
  std::vector<Nanoseconds> written;  // when the kernel had each of them
  std::string fault;                 // the script's name of it, or ""
  bool complete = false;             // the client took the whole answer
};
Json to_json(const RequestTruth& truth);

struct MockStats {
  std::int64_t requests = 0;  // for answers, faults among them
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t most_running = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t generation_tokens = 0;
  std::int64_t completed = 0;
  std::int64_t aborted = 0;  // by the client, or by a fault
  std::int64_t steps = 0;    // of an engine of steps, as the next
  std::int64_t preemptions = 0;
  ErrorSnapshot error;  // of the moments of writing against the due times
};
Json to_json(const MockStats& stats);

class RunningMock {
 public:
  struct Impl;
  explicit RunningMock(std::unique_ptr<Impl> impl);
  ~RunningMock();  // stop()
  RunningMock(RunningMock&&) noexcept;
  RunningMock& operator=(RunningMock&&) noexcept;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8000"
  MockStats stats() const;
  void reset_error();  // forgets the errors so far
  // What has ended since the last call, in the order of ending.
  std::vector<RequestTruth> take_truths();
  // Ends all answers where they are. The first error of writing the file of truths, if any.
  Result<> stop();

 private:
  std::unique_ptr<Impl> impl_;
};

Result<RunningMock> start_mock(MockScript script, MockOptions options);

}  // namespace nibble::mock
