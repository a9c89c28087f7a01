// The run over time for its document: what the rows tell, and what telemetry saw beside them.
//
//   NIBBLE_ASSIGN_OR_RETURN(report.series, run_series(rows, report.levels, &telemetry));
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "load/run_report.h"
#include "load/series.h"
#include "telemetry/store.h"

namespace nibble::drive {

// Each signal of which something was sampled in the run: gauges as they are, counters as rates.
std::vector<load::Series> sampled_series(const telemetry::SampleStore& store,
                                         const load::SeriesGrid& grid);

// Without telemetry (nullptr) there are the client's own signals and the reason.
Result<std::optional<load::RunSeries>> run_series(const std::filesystem::path& rows,
                                                  const std::vector<load::LevelResult>& levels,
                                                  const telemetry::SampleStore* store);

}  // namespace nibble::drive
