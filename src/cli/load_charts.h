// The pictures of a load test: over users, or over the rates that were offered.
//
//   const LoadCharts charts = load_charts(report);
//   document.sections.push_back({.heading = "Throughput", .charts = charts.throughput});
#pragma once

#include <vector>

#include "load/run_report.h"
#include "report/document.h"

namespace nibble::cli {

// A picture takes two levels that differ: what is flat stands in a table.
struct LoadCharts {
  std::vector<Chart> throughput;
  std::vector<Chart> latency;
  std::vector<Chart> machine;
};
LoadCharts load_charts(const load::RunReport& report);

}  // namespace nibble::cli
