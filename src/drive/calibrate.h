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
#include <filesystem>
#include <optional>

#include "base/result.h"
#include "load/client_audit.h"

namespace nibble::drive {

struct CalibrationAsk {
  std::int64_t concurrency = 1;
  double itl_ms = 10;  // of the level that is judged; from 1 ms on
  std::size_t loops = 1;
};

// Two to four seconds: the mock in this process on threads of its own, the driver as in a run.
Result<load::Calibration> calibrate(const CalibrationAsk& ask,
                                    const std::atomic<bool>& interrupted);

// Under the XDG cache, beside the CPU's roofs.
std::filesystem::path calibration_path();
// One that is as hard or harder and not much harder (streams and pace of the same power of two), of
// this machine and version, no older than a week. Never fails: a broken file holds none.
std::optional<load::Calibration> find_calibration(const std::filesystem::path& path,
                                                  const CalibrationAsk& ask, double now_unix_s);
Result<> keep_calibration(const std::filesystem::path& path, const load::Calibration& fresh);

}  // namespace nibble::drive
