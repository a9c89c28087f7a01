// The tables of `nibble bench`, for a reader who has not seen one before.
#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/bench.h"

namespace nibble::cli {
namespace {

std::string operations_rate(double tops) {
  return format_rate(tops * kTera, "op/s");
}

std::string roofs_table(const BenchReport& report, const Style& style) {
  const CpuRoofs& roofs = report.roofs.roofs;
  Table table({{"roof"}, {"value", Align::kRight}, {"measured with", Align::kLeft, 1}});
  table.row({"memory, read", format_rate(roofs.read.value * kGiga, "B/s"), roofs.read.path});
  for (const auto& [precision, title] :
       {std::pair<Precision, const char*>{Precision::kFp32, "multiply, 32-bit floats"},
        {Precision::kBf16, "multiply, 16-bit activations"},
        {Precision::kInt8, "multiply, 8-bit integers"}}) {
    const CpuRoof& roof = roofs.rates.at(precision);
    table.row({title, operations_rate(roof.value), roof.path});
  }
  return table.render(style);
}

std::string scaling_table(const std::vector<CpuRoofs>& scaling, const Style& style) {
  Table table({{"threads", Align::kRight},
               {"memory, read", Align::kRight},
               {"32-bit floats", Align::kRight, 1},
               {"16-bit activations", Align::kRight},
               {"8-bit integers", Align::kRight}});
  for (const CpuRoofs& roofs : scaling) {
    table.row({fmt::format("{}", roofs.threads), format_rate(roofs.read.value * kGiga, "B/s"),
               operations_rate(roofs.rates.at(Precision::kFp32).value),
               operations_rate(roofs.rates.at(Precision::kBf16).value),
               operations_rate(roofs.rates.at(Precision::kInt8).value)});
  }
  return table.render(style);
}

std::string shape_text(const BenchShape& shape) {
  const std::string matrix = shape.op == BenchOp::kMoe
                                 ? fmt::format("{} -> 2 x {}", shape.k, shape.n)
                                 : fmt::format("[{},{}]", shape.n, shape.k);
  if (shape.experts == 1) return matrix;
  return fmt::format("{}x{} top {}", shape.experts, matrix, shape.top_k);
}

// What the row moves or computes each second, in the unit of the roof that binds it.
std::string reached(const BenchRow& row) {
  const double seconds = row.time_us.median * 1e-6;
  return row.memory_bound() ? format_rate(row.bytes / seconds, "B/s", 3)
                            : format_rate(row.flop / seconds, "op/s", 3);
}

std::string roof_text(const BenchRow& row) {
  return row.memory_bound()
             ? fmt::format("memory {}", format_rate(row.roof_gb_s * kGiga, "B/s", 3))
             : fmt::format("multiply {}", format_rate(row.roof_tops * kTera, "op/s", 3));
}

bool is_doubtful(const BenchRow& row) {
  return row.timed() && (row.disturbed || row.share.median > 1);
}

Cell factor_cell(const BenchRow& row) {
  constexpr double kNear = 1.25;
  constexpr double kFar = 2;
  const double factor = 1 / row.share.median;
  const Emphasis emphasis = !row.error.empty() ? Emphasis::kBad
                            : is_doubtful(row) ? Emphasis::kWarning
                            : factor < kNear   ? Emphasis::kGood
                            : factor > kFar    ? Emphasis::kWarning
                                               : Emphasis::kNone;
  return {fmt::format("{:.2f} x{}", factor, is_doubtful(row) ? " ?" : ""), emphasis};
}

std::string weights_are(const BenchRow& row) {
  return fmt::format("{}{}", row.as_called ? "" : "not ", row.cold ? "cold" : "hot");
}

std::string rows_table(const std::vector<BenchRow>& rows, const Style& style) {
  Table table({{"op"},
               {"shape"},
               {"formats", Align::kLeft, 1},
               {"tokens", Align::kRight},
               {"weights are", Align::kLeft, 5},
               {"time", Align::kRight},
               {"+-", Align::kRight, 7},
               {"reached", Align::kRight, 2},
               {"floor", Align::kRight, 3},
               {"x floor", Align::kRight},
               {"bound by", Align::kLeft, 4},
               {"predicted", Align::kRight, 6}});
  const BenchShape* previous = nullptr;
  for (const BenchRow& row : rows) {
    if (previous != nullptr && previous->activations != row.shape.activations) table.rule();
    previous = &row.shape;
    std::vector<Cell> cells = {
        row.shape.name, shape_text(row.shape),
        fmt::format("{} x {}", to_string(row.shape.format), to_string(row.shape.activations)),
        fmt::format("{}", row.tokens), weights_are(row)};
    if (!row.timed()) {
      cells.insert(cells.end(), {Cell("not timed", Emphasis::kBad), "-", "-", "-", "-", "-", "-"});
      table.row(std::move(cells));
      continue;
    }
    const std::optional<Interval>& interval = row.time_us.interval;
    const double half = interval ? (interval->high - interval->low) / 2 : 0;
    cells.insert(cells.end(), {Cell(format_time_us(row.time_us.median), Emphasis::kStrong),
                               interval ? format_share(half / row.time_us.median) : "-",
                               reached(row), format_time_us(row.floor_us), factor_cell(row),
                               roof_text(row), format_time_us(row.predicted_us)});
    table.row(std::move(cells));
  }
  return table.render(style);
}

std::string introduction(const BenchReport& report) {
  const int threads = report.roofs.roofs.threads;
  return fmt::format(
      "What {} thread{} of this machine ({}) can do at most, and how near the kernels come to it.",
      threads, threads == 1 ? "" : "s", report.cpu.title);
}

// The two sentences below the table.
std::string explanation(const std::vector<BenchRow>& rows) {
  const bool cold = rows.front().cold;
  return fmt::format(
      "\"x floor\" is time / floor: how much longer a row takes than the roof that binds it "
      "allows; 1.00 x "
      "cannot be beaten, except by moving fewer bytes (memory) or by narrower activations "
      "(multiply). {}{}",
      cold ? "Weights are cold: they come from memory in every run, as they do in a server whose "
             "model is larger than the caches."
           : "Weights are hot: they were used just before, so only the multiply roof counts; rows "
             "marked \"not hot\" have more weights than the caches hold.",
      std::any_of(rows.begin(), rows.end(), is_doubtful)
          ? " Rows marked \"?\" are not to be trusted, for the reasons below."
          : "");
}

void add_line(std::string& text, const Style& style, std::string_view line) {
  text += style.wrap(line, 0) + "\n";
}

}  // namespace

std::string bench_text(const BenchReport& report, const Style& style) {
  std::string text;
  add_line(text, style, introduction(report));
  text += "\n" + roofs_table(report, style);
  if (!report.scaling.empty()) text += "\n" + scaling_table(report.scaling, style);
  if (!report.rows.empty()) {
    text += "\n" + rows_table(report.rows, style) + "\n";
    add_line(text, style, explanation(report.rows));
  }
  std::vector<std::string> lines;
  const auto add = [&lines](std::string line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  };
  for (const BenchRow& row : report.rows) {
    const std::string where =
        fmt::format("{}, {} x {}, {} tokens", row.shape.name, to_string(row.shape.format),
                    to_string(row.shape.activations), row.tokens);
    if (!row.error.empty()) add(fmt::format("ERROR {}: {}", where, row.error));
    for (const std::string& flag : row.flags) add(fmt::format("{}: {}", where, flag));
    if (!row.shape.note.empty()) add(fmt::format("{}: {}", row.shape.name, row.shape.note));
  }
  for (const std::string& note : report.notes) add(note);
  if (!lines.empty()) text += "\n" + style.heading("Notes") + "\n";
  for (const std::string& line : lines) text += "  " + style.wrap(line, 4) + "\n";
  return text;
}

}  // namespace nibble::cli
