#include "cli/diagnose_diff.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "diagnose/diff.h"

namespace nibble::cli {
namespace {

using diagnose::BarChange;
using diagnose::Change;
using diagnose::DiagnosisDiff;
using diagnose::LevelChange;

// Bars that differ by less, in ms of the measured time, are left out.
constexpr double kLeastShare = 0.02;
constexpr std::size_t kMostBars = 8;
constexpr std::size_t kMostDiagnosisBytes = std::size_t{64} << 20;

Result<Json> read_diagnosis(const std::string& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostDiagnosisBytes));
  return Json::parse(text, path);
}

std::string number_cell(const std::optional<double>& value) {
  return value ? format_number(*value, 4) : std::string("-");
}

std::string change_cell(const Change& change) {
  return change.change ? fmt::format("{:+.1f} %", *change.change * 100) : std::string("-");
}

Emphasis emphasis_of(const LevelChange& level) {
  if (level.verdict == "faster") return Emphasis::kGood;
  return level.verdict == "slower" ? Emphasis::kBad : Emphasis::kNone;
}

std::string levels_text(const DiagnosisDiff& diff, const Style& style) {
  Table table({{"level"},
               {"tok/s before", Align::kRight, 2},
               {"after", Align::kRight, 2},
               {"change", Align::kRight},
               {"noise", Align::kRight, 1},
               {""},
               {"ms/token before", Align::kRight, 4},
               {"after", Align::kRight, 4},
               {"verdict before", Align::kLeft, 3},
               {"after", Align::kLeft, 3}});
  for (const LevelChange& level : diff.levels) {
    table.row({printable(level.name), number_cell(level.rate.before), number_cell(level.rate.after),
               change_cell(level.rate), format_share(level.noise),
               Cell(level.verdict, emphasis_of(level)), number_cell(level.measured_ms.before),
               number_cell(level.measured_ms.after), printable(level.class_before),
               printable(level.class_after)});
  }
  return table.render(style);
}

double size_of(const BarChange& bar) {
  return std::fabs(bar.ms.after.value_or(0) - bar.ms.before.value_or(0));
}

// Where the time of the highest level that both have went, the largest change first.
std::string bars_text(const LevelChange& level, const Style& style) {
  std::vector<BarChange> bars = level.bars;
  std::stable_sort(bars.begin(), bars.end(),
                   [](const BarChange& a, const BarChange& b) { return size_of(a) > size_of(b); });
  const double least = kLeastShare * std::max(level.measured_ms.before.value_or(0),
                                              level.measured_ms.after.value_or(0));
  Table table({{fmt::format("ms a token, {}", printable(level.name))},
               {"before", Align::kRight},
               {"after", Align::kRight},
               {"difference", Align::kRight},
               {"", Align::kLeft, 1}});
  std::size_t shown = 0;
  for (const BarChange& bar : bars) {
    if (shown == kMostBars || size_of(bar) < least) break;
    ++shown;
    const bool both = bar.ms.before && bar.ms.after;
    table.row({printable(bar.title), number_cell(bar.ms.before), number_cell(bar.ms.after),
               both ? fmt::format("{:+.3f}", *bar.ms.after - *bar.ms.before) : std::string("-"),
               printable(bar.note)});
  }
  return shown == 0 ? std::string() : "\n" + table.render(style);
}

void print_diff(const DiagnosisDiff& diff, const Style& style) {
  fmt::print("{}\n\n{}", style.wrap(diff.sentence, 0), levels_text(diff, style));
  const auto both = [](const LevelChange& level) {
    return level.measured_ms.before && level.measured_ms.after;
  };
  const auto highest = std::find_if(diff.levels.rbegin(), diff.levels.rend(), both);
  if (highest != diff.levels.rend()) fmt::print("{}", bars_text(*highest, style));
}

}  // namespace

Result<int> run_diagnose_diff(const Arguments& arguments) {
  for (const auto& [option, values] : arguments.given) {
    if (option == "--diff" || option == "--json") continue;
    return usage_error(
        "{} has no meaning beside --diff, which compares two diagnoses; leave it out", option);
  }
  const std::vector<std::string> paths = arguments.all("--diff");
  if (paths.size() != 2) {
    return usage_error("--diff has {}; give two diagnoses, as --diff before.json after.json",
                       paths.size() == 1 ? "one file" : fmt::format("{} files", paths.size()));
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json before, read_diagnosis(paths[0]));
  NIBBLE_ASSIGN_OR_RETURN(const Json after, read_diagnosis(paths[1]));
  NIBBLE_ASSIGN_OR_RETURN(const DiagnosisDiff diff,
                          diagnose::diff_of(before, after, paths[0], paths[1]));
  if (arguments.has("--json")) {
    fmt::print("{}\n", to_json(diff).dump());
  } else {
    print_diff(diff, Style::for_stdout());
  }
  return 0;
}

}  // namespace nibble::cli
