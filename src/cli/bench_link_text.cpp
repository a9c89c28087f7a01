// The tables of `nibble bench link`.
#include <algorithm>
#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/bench_link.h"

namespace nibble::cli {
namespace {

// More columns than a terminal has; the others differ in the GPU alone.
constexpr std::size_t kMostCurves = 3;

using Curves = std::vector<const LinkCurve*>;

Curves curves_of(const LinkReport& report, LinkRoute route) {
  Curves curves;
  for (const LinkCurve& curve : report.curves) {
    if (curve.route == route) curves.push_back(&curve);
  }
  return curves;
}

std::string gb_s_text(double gb_s) {
  return format_rate(gb_s * kGiga, "B/s", 3);
}

const LinkRow* row_of(const LinkCurve& curve, double bytes) {
  for (const LinkRow& row : curve.rows) {
    if (row.bytes == bytes) return &row;
  }
  return nullptr;
}

// Times and rates by size, a pair of columns for each of the first curves.
std::string sizes_table(Curves curves, const Style& style) {
  if (curves.size() > kMostCurves) curves.resize(kMostCurves);
  std::vector<Column> columns = {{"message", Align::kRight}};
  std::vector<double> sizes;
  for (std::size_t at = 0; at < curves.size(); ++at) {
    const int drop = static_cast<int>(at);
    columns.push_back({curve_title(*curves[at]), Align::kRight, drop});
    columns.push_back({"rate", Align::kRight, drop});
    for (const LinkRow& row : curves[at]->rows) sizes.push_back(row.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  Table table(std::move(columns));
  for (const double bytes : sizes) {
    std::vector<Cell> cells = {message_size_text(bytes)};
    for (const LinkCurve* curve : curves) {
      const LinkRow* row = row_of(*curve, bytes);
      const bool timed = row != nullptr && row->error.empty();
      cells.push_back(timed ? Cell(format_time_us(row->time_us.median), Emphasis::kStrong)
                            : Cell(row == nullptr ? "-" : "failed", Emphasis::kBad));
      cells.emplace_back(timed ? gb_s_text(link_gb_s(*curve, *row)) : "-");
    }
    table.row(std::move(cells));
  }
  return table.render(style);
}

std::string fits_table(const LinkReport& report, const Style& style) {
  Table table({{"curve"},
               {"latency", Align::kRight},
               {"bandwidth", Align::kRight},
               {"worst", Align::kRight, 1},
               {"at", Align::kRight, 2}});
  for (const LinkCurve& curve : report.curves) {
    if (!curve.fit) continue;
    const LinkFit& fit = *curve.fit;
    table.row({curve_title(curve), format_time_us(fit.link.latency_us),
               gb_s_text(fit.link.bandwidth_gb_s), fmt::format("{:.2f} x", fit.worst_factor),
               fit.worst_bytes > 0 ? message_size_text(fit.worst_bytes) : "-"});
  }
  return table.render(style);
}

std::string route_heading(LinkRoute route) {
  switch (route) {
    case LinkRoute::kDirect:
      return "Copies with peer access";
    case LinkRoute::kStaged:
      return "Copies without peer access, through the host";
    case LinkRoute::kNccl:
      return "NCCL (rate: what must leave a GPU, over the time)";
  }
  NIBBLE_CHECK(false);
}

void add_wrapped(std::string& text, const Style& style, std::string_view line) {
  text += style.wrap(line, 0) + "\n";
}

std::vector<std::string> all_notes(const LinkReport& report) {
  std::vector<std::string> notes;
  for (const LinkCurve& curve : report.curves) {
    for (const LinkRow& row : curve.rows) {
      if (row.error.empty()) continue;
      notes.push_back(fmt::format("ERROR {}, {}: {}", curve_title(curve),
                                  message_size_text(row.bytes), row.error));
    }
    if (!curve.fit) notes.push_back(fmt::format("{}: {}", curve_title(curve), curve.no_fit));
  }
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  return notes;
}

}  // namespace

std::string link_text(const LinkReport& report, const Style& style) {
  std::string text;
  add_wrapped(text, style,
              fmt::format("How fast {} x {} exchange messages{}.", report.gpus.size(),
                          report.gpus.front().name, report.nvlink ? " over NVLink" : ""));
  for (const LinkRoute route : {LinkRoute::kDirect, LinkRoute::kStaged, LinkRoute::kNccl}) {
    const Curves curves = curves_of(report, route);
    if (curves.empty()) continue;
    text += "\n" + style.heading(route_heading(route)) + "\n" + sizes_table(curves, style);
    if (curves.size() > kMostCurves) {
      add_wrapped(text, style,
                  fmt::format("{} more curves are in --json", curves.size() - kMostCurves));
    }
  }
  text += "\n" + style.heading("Latency and bandwidth as the ledger's formulas take them") + "\n";
  text += fits_table(report, style) + "\n";
  add_wrapped(
      text, style,
      "\"worst\" is the largest ratio of fitted and measured time, either way, and \"at\" its "
      "message. The times hold the gap to the next operation of a graph.");
  if (report.machine_link) {
    text += "\n" + style.heading("In a machine file") + "\n";
    add_wrapped(text, style, fmt::format("\"links\": [{}]", to_json(*report.machine_link).dump(0)));
  }
  const std::vector<std::string> notes = all_notes(report);
  if (!notes.empty()) text += "\n" + style.heading("Notes") + "\n";
  for (const std::string& note : notes) text += "  " + style.wrap(note, 4) + "\n";
  return text;
}

}  // namespace nibble::cli
