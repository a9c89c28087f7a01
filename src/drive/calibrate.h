// How far this client is off, at a number of streams and a pace of events: measured against the
// built-in mock on this machine, or remembered from an earlier run.
//
//   const CalibrationAsk ask{.concurrency = 64, .itl_ms = 12.5};
//   if (const auto kept = find_calibration(calibration_path(), ask, unix_now())) return *kept;
//   NIBBLE_ASSIGN_OR_RETURN(const load::Calibration fresh, calibrate(ask, interrupted));
//   keep_calibration(calibration_path(), fresh);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "load/client_audit.h"
#include "load/record.h"

namespace nibble::drive {

struct CalibrationAsk {
  std::int64_t concurrency = 1;
  double itl_ms = 10;  // of the level that is judged
  std::size_t loops = 1;
};

// What is run for it.
struct CalibrationPlan {
  std::int64_t users = 1;
  double ttft_ms = 50;
  // The asked pace or a little faster: from 1 to 100 ms in steps of a quarter of an octave, so that
  // a cache serves the next run too; and so fast that some thousand events come even of few users.
  double itl_ms = 10;
  std::int64_t output_tokens = 2;
  Nanoseconds ramp = 0;  // users start over this time: a request's length
  Nanoseconds duration = 0;
};
CalibrationPlan plan_calibration(const CalibrationAsk& ask);

// The errors, from the rows: those of warm-up, of the ramp (sent before `counts_from`) and those
// that were cancelled are left out.
class CalibrationTally {
 public:
  CalibrationTally(const CalibrationPlan& plan, Nanoseconds counts_from)
      : plan_(plan), counts_from_(counts_from) {}
  void add(const load::RequestRecord& record);
  // Without what only the driver and the mock know. An error where too little came.
  Result<load::Calibration> finish() const;

 private:
  CalibrationPlan plan_;
  Nanoseconds counts_from_;
  std::int64_t requests_ = 0;
  std::int64_t failed_ = 0;
  std::vector<double> ttft_errors_ms_;  // client's - scripted
  std::vector<double> gap_errors_ms_;   // their sizes
};

// Three to five seconds: the mock in this process on threads of its own, the driver as in a run.
Result<load::Calibration> calibrate(const CalibrationAsk& ask,
                                    const std::atomic<bool>& interrupted);

// Under the XDG cache, beside the CPU's roofs.
std::filesystem::path calibration_path();
// One that is as hard or harder, and less than twice as hard in streams and in pace, of this
// machine and version, no older than a week. Never fails: a broken file holds none.
std::optional<load::Calibration> find_calibration(const std::filesystem::path& path,
                                                  const CalibrationAsk& ask, double now_unix_s);
// Beside the others of the file. Of two programs that do so at once one may lose its own, and the
// file stays whole.
Result<> keep_calibration(const std::filesystem::path& path, const load::Calibration& fresh);

}  // namespace nibble::drive
