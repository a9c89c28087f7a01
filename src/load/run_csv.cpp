// A line a level for a spreadsheet.
#include <array>

#include "load/run_report.h"

namespace nibble::load {
namespace {

constexpr std::array<std::string_view, 3> kSteady = {"request_throughput", "output_throughput",
                                                     "request_goodput"};
constexpr std::array<std::string_view, 7> kAudit = {
    "client_limited", "cpu_limited",      "late",      "loop_lag_p99_ms",
    "loop_cpu_share", "cpu_us_per_event", "late_sends"};
constexpr std::array<std::string_view, 2> kCalibrated = {"ttft_error_ms", "itl_error_ms"};

std::string header() {
  std::string line = csv_header();
  line.pop_back();  // its line end
  for (const std::string_view name : kSteady) line += ",steady_" + std::string(name);
  line += ",joined_window";
  for (const SeenInfo& info : seen_infos()) line += "," + std::string(info.name);
  for (const std::string_view name : kAudit) line += ",client_" + std::string(name);
  for (const std::string_view name : kCalibrated) line += ",client_" + std::string(name) + "_p50";
  return line + "\n";
}

std::string row(const LevelResult& level) {
  const Json json = to_json(level.report);
  std::string line = csv_row(json);
  line.pop_back();
  for (const std::string_view name : kSteady) {
    line += "," + csv_cell(json.find("steady")->find(name));
  }
  const Json window(level.window);
  line += "," + csv_cell(&window);
  const Json joined = to_json(level.joined);
  for (const SeenInfo& info : seen_infos()) line += "," + csv_cell(joined.find(info.name));
  const Json audit = to_json(level.audit);
  for (const std::string_view name : kAudit) line += "," + csv_cell(audit.find(name));
  const Json* calibration = audit.find("calibration");
  for (const std::string_view name : kCalibrated) {
    const Json* error = calibration->find(name);
    line += "," + csv_cell(error != nullptr ? error->find("p50") : nullptr);
  }
  return line + "\n";
}

}  // namespace

std::string run_csv(const RunReport& report) {
  std::string text = header();
  for (const LevelResult& level : report.levels) text += row(level);
  return text;
}

}  // namespace nibble::load
