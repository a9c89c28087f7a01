// Sends the requests of a level and writes a row for each: closed loop or open loop, over a few
// event loops.
//
//   NIBBLE_ASSIGN_OR_RETURN(Driver driver, Driver::make(parts, writer));
//   const LevelRun level = driver.run_level(0, {.users = 64, .requests = 640}, interrupted, {});
//   // the numbers: load::measure_level(writer.path(), ...)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "drive/run.h"
#include "load/dataset.h"
#include "load/row_file.h"
#include "net/loop.h"

namespace nibble::drive {

struct DriverParts {
  Target target;  // as negotiate() left it: with a model, without what the server refuses
  std::shared_ptr<const load::Dataset> dataset;
  std::optional<text::Tokenizer> tokenizer;
  std::uint64_t nonce = 0;
  std::size_t loops = 1;
  load::StopOptions stop;
};

// What the driver itself saw of a level; the numbers come from the rows.
struct LevelRun {
  Nanoseconds begin = 0;  // the first send of a request that counts, warm-up left out
  Nanoseconds end = 0;    // the last end
  std::int64_t sent = 0;  // requests that count
  std::int64_t rows = 0;  // written of them
  std::int64_t tokens = 0;
  std::int64_t events = 0;               // that bore tokens
  std::int64_t late = 0;                 // sent more than 1 ms behind their schedule
  std::optional<double> mean_in_flight;  // counted while they ran, not from the rows
  std::vector<net::LoopAudit> loops;     // of the time between begin and end
  std::string incomplete;                // why not all was done; empty: all was
  std::optional<Error> fault;  // ends the run: the server has died, the disk is full, Ctrl-C
};

class Driver {
 public:
  // The writer must outlive the driver.
  static Result<Driver> make(DriverParts parts, load::RowWriter& writer);
  ~Driver();
  Driver(Driver&&) noexcept;
  Driver& operator=(Driver&&) noexcept;

  // Sends options.warmups requests of the level's kind; their rows are marked and count nowhere.
  void warm_up(std::int32_t level, const LevelOptions& options,
               const std::atomic<bool>& interrupted);

  // Without warm-up. Blocks until the level has ended. `on_progress` is called some times a second
  // from the calling thread; `interrupted` cancels what runs within 0.1 s.
  LevelRun run_level(std::int32_t level, const LevelOptions& options,
                     const std::atomic<bool>& interrupted,
                     const std::function<void(const Progress&)>& on_progress);

 private:
  struct Impl;
  explicit Driver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::drive
