// The tables of `nibble bench --on cuda:N`, for a reader who has not seen one before.
#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/bench_cuda.h"

namespace nibble::cli {
namespace {

constexpr double kWithin = 0.15;  // of a prediction

std::string value_text(const GpuRoofDef& def, double value) {
  return def.unit == std::string_view("us") ? format_time_us(value)
                                            : format_quantity(value, def.unit);
}

std::string board_text(const GpuConditions& conditions) {
  std::vector<std::string> parts;
  if (conditions.clock_mhz) parts.push_back(fmt::format("{:.0f} MHz", *conditions.clock_mhz));
  if (conditions.power_w) parts.push_back(fmt::format("{:.0f} W", *conditions.power_w));
  if (conditions.temperature_c) parts.push_back(fmt::format("{:.0f} C", *conditions.temperature_c));
  for (const std::string& reason : conditions.throttled) parts.push_back(reason);
  if (parts.empty()) return conditions.reason.empty() ? "-" : "unknown";
  return join(parts, ", ");
}

std::string gpu_roofs_table(const GpuRoofs& roofs, const Style& style) {
  Table table({{"roof"},
               {"value", Align::kRight},
               {"measured with", Align::kLeft, 2},
               {"board meanwhile", Align::kLeft, 1}});
  for (const GpuRoofDef& def : kGpuRoofs) {
    const auto found = roofs.roofs.find(def.key);
    if (found == roofs.roofs.end()) continue;
    const GpuRoof& roof = found->second;
    if (!roof.reason.empty()) {
      table.row({def.title, "-", roof.reason, "-"});
      continue;
    }
    table.row({def.title, Cell(value_text(def, roof.value), Emphasis::kStrong), roof.path,
               board_text(roof.conditions)});
  }
  return table.render(style);
}

std::string cuda_shape_text(const BenchShape& shape) {
  const std::string matrix = shape.op == BenchOp::kMoe
                                 ? fmt::format("{} -> 2 x {}", shape.k, shape.n)
                                 : fmt::format("[{},{}]", shape.n, shape.k);
  if (shape.experts == 1) return matrix;
  return fmt::format("{}x{} top {}", shape.experts, matrix, shape.top_k);
}

Cell over_floor(const CudaRow& row) {
  constexpr double kNear = 1.12;
  constexpr double kFar = 1.5;
  if (row.row.share.values.empty()) return "-";
  const double factor = 1 / row.row.share.median;
  const Emphasis emphasis = !row.row.error.empty() ? Emphasis::kBad
                            : factor <= kNear      ? Emphasis::kGood
                            : factor > kFar        ? Emphasis::kWarning
                                                   : Emphasis::kNone;
  return {fmt::format("{:.2f} x", factor), emphasis};
}

std::string rate_reached(const CudaRow& row) {
  const double us = row.row.time_us.median;
  const bool known = !row.row.share.values.empty();
  const double bytes = known ? row.row.bytes : row.bytes.value_or(0);
  const double flop = known ? row.row.flop : row.flop.value_or(0);
  if (known ? !row.row.memory_bound() : flop > 0) return format_rate(flop / us * 1e6, "FLOP/s", 3);
  return bytes > 0 ? format_rate(bytes / us * 1e6, "B/s", 3) : "-";
}

std::string plus_minus(const BenchRow& row) {
  const std::optional<Interval>& interval = row.time_us.interval;
  if (!interval) return "-";
  return format_share((interval->high - interval->low) / 2 / row.time_us.median);
}

std::string launch_text(const CudaRow& row) {
  if (!row.launch_floor_us) return "-";
  return fmt::format("{}: {}", row.launches, format_time_us(*row.launch_floor_us));
}

std::string cuda_rows_table(const std::vector<CudaRow>& rows, const Style& style) {
  Table table({{"op"},
               {"shape"},
               {"formats", Align::kLeft, 2},
               {"tokens", Align::kRight},
               {"routing", Align::kLeft, 5},
               {"time", Align::kRight},
               {"+-", Align::kRight, 9},
               {"reached", Align::kRight, 3},
               {"floor", Align::kRight, 4},
               {"x floor", Align::kRight},
               {"launches", Align::kRight, 7},
               {"predicted", Align::kRight, 6},
               {"kernel", Align::kLeft, 1}});
  for (const CudaRow& row : rows) {
    const BenchShape& shape = row.row.shape;
    std::vector<Cell> cells = {
        shape.name, cuda_shape_text(shape),
        fmt::format("{} x {}", to_string(shape.format), to_string(shape.activations)),
        fmt::format("{}", row.row.tokens), row.routing.empty() ? "-" : row.routing};
    if (!row.row.timed()) {
      cells.insert(cells.end(), {Cell("not timed", Emphasis::kBad), "-", "-", "-", "-", "-", "-",
                                 row.row.kernel.empty() ? "-" : row.row.kernel});
      table.row(std::move(cells));
      continue;
    }
    cells.insert(
        cells.end(),
        {Cell(format_time_us(row.row.time_us.median), Emphasis::kStrong), plus_minus(row.row),
         rate_reached(row), row.row.share.values.empty() ? "-" : format_time_us(row.row.floor_us),
         over_floor(row), launch_text(row),
         row.row.predicted.values.empty() ? "-" : format_time_us(row.row.predicted_us),
         row.row.kernel});
    table.row(std::move(cells));
  }
  return table.render(style);
}

void add_row_notes(const std::vector<CudaRow>& rows, std::vector<std::string>& lines) {
  const auto add = [&lines](std::string line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(std::move(line));
    }
  };
  for (const CudaRow& row : rows) {
    const std::string where =
        fmt::format("{}, {} x {}, {} tokens", row.row.shape.name, to_string(row.row.shape.format),
                    to_string(row.row.shape.activations), row.row.tokens);
    if (!row.row.error.empty()) add(fmt::format("{}: {}", where, row.row.error));
    for (const std::string& flag : row.row.flags) add(fmt::format("{}: {}", where, flag));
  }
}

std::string notes_text(const std::vector<std::string>& lines, const Style& style) {
  if (lines.empty()) return "";
  std::string text = "\n" + style.heading("Notes") + "\n";
  for (const std::string& line : lines) text += "  " + style.wrap(line, 4) + "\n";
  return text;
}

}  // namespace

std::string predictions_sentence(const std::vector<CudaRow>& rows) {
  int all = 0;
  int within = 0;
  double worst = 0;
  for (const CudaRow& row : rows) {
    if (row.row.predicted.values.empty() || !row.row.error.empty()) continue;
    const double off = row.row.predicted.median - 1;
    ++all;
    within += std::abs(off) <= kWithin ? 1 : 0;
    if (std::abs(off) > std::abs(worst)) worst = off;
  }
  if (all == 0) return "";
  return fmt::format(
      "{} of {} predictions lie within {:.0f} % of the time; the worst is off by {:+.0f} %.",
      within, all, 100 * kWithin, 100 * worst);
}

std::string cuda_text(const CudaBenchReport& report, const Style& style) {
  std::string text = style.wrap(
      fmt::format(
          "What {} (cuda:{}, {}, {} SMs) can do at most, and how near the kernels come to it.",
          report.roofs.title, report.ordinal, report.roofs.arch, report.roofs.sms),
      0);
  text += "\n\n" + gpu_roofs_table(report.roofs, style);
  if (!report.rows.empty()) {
    text += "\n" + cuda_rows_table(report.rows, style) + "\n";
    text += style.wrap(
        "\"x floor\" is time / floor, the time that the bytes of the experts that were met, or "
        "their "
        "arithmetic, take at the roof. \"launches\" is what a graph of as many empty kernels "
        "takes, "
        "which small batches cannot do without.",
        0);
    text += "\n";
    if (const std::string told = predictions_sentence(report.rows); !told.empty()) {
      text += style.wrap(told, 0) + "\n";
    }
  }
  if (!report.baselines.empty()) {
    text += "\n" +
            style.heading("cuBLASLt on the same dense shapes, weights as wide as it takes them") +
            "\n" + cuda_rows_table(report.baselines, style);
  }
  std::vector<std::string> lines;
  add_row_notes(report.rows, lines);
  add_row_notes(report.baselines, lines);
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return text + notes_text(lines, style);
}

std::string cuda_check_text(const CudaBenchReport& report, const Style& style) {
  Table table({{"op"},
               {"shape"},
               {"tokens", Align::kRight},
               {"routing", Align::kLeft, 2},
               {"check"},
               {"kernel"},
               {"tactic", Align::kLeft, 1}});
  for (const CudaRow& row : report.rows) {
    const bool right = row.row.error.empty();
    table.row({row.row.shape.name, cuda_shape_text(row.row.shape),
               fmt::format("{}", row.row.tokens), row.routing.empty() ? "-" : row.routing,
               Cell(right ? "right" : "failed", right ? Emphasis::kGood : Emphasis::kBad),
               row.row.kernel.empty() ? "-" : row.row.kernel,
               row.tactic.empty() ? "-" : row.tactic});
  }
  std::string text =
      style.wrap(fmt::format("Kernels on {} (cuda:{}, {}), held against double precision.",
                             report.roofs.title, report.ordinal, report.roofs.arch),
                 0);
  text += "\n\n" + table.render(style);
  std::vector<std::string> lines;
  add_row_notes(report.rows, lines);
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return text + notes_text(lines, style);
}

std::string imported_text(const Imported& imported, const Style& style) {
  std::string text =
      style.wrap(fmt::format("{} row{} of {}", imported.rows.size(),
                             imported.rows.size() == 1 ? "" : "s", printable(imported.path)),
                 0) +
      "\n\n";
  text += cuda_rows_table(imported.rows, style);
  std::vector<std::string> lines;
  add_row_notes(imported.rows, lines);
  lines.insert(lines.end(), imported.notes.begin(), imported.notes.end());
  return text + notes_text(lines, style);
}

}  // namespace nibble::cli
