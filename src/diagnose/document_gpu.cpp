// The GPU that kernels were timed on: its roofs beside the data sheet's, what the board did, and
// which operations of a step the kernels cover.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

std::string number_or_dash(const std::optional<double>& value, int digits = 4) {
  return value && std::isfinite(*value) ? format_number(*value, digits) : std::string("-");
}

std::optional<double> catalog_value(const GpuEvidence& gpu, std::string_view key) {
  if (!gpu.catalog) return std::nullopt;
  const auto peak = [&gpu](Precision precision) -> std::optional<double> {
    const Peak* found = gpu.catalog->peak(precision);
    return found == nullptr ? std::nullopt : std::optional(found->dense_tflops.value);
  };
  if (key == "read_gb_s") return gpu.catalog->bandwidth_gb_s.value;
  if (key == "bf16_tflops") return peak(Precision::kBf16);
  if (key == "fp8_tflops") return peak(Precision::kFp8);
  if (key == "graph_gap_us" && gpu.catalog->launch_gap_us) return gpu.catalog->launch_gap_us->value;
  return std::nullopt;
}

Table roofs_table(const GpuEvidence& gpu) {
  Table table({{"roof"},
               {"measured", Align::kRight},
               {"catalog", Align::kRight},
               {"unit"},
               {"power, W", Align::kRight, 2},
               {"clock, MHz", Align::kRight, 3},
               {"C", Align::kRight, 4},
               {"throttled", Align::kLeft, 1},
               {"how, or why not", Align::kLeft, 5}});
  for (const GpuRoofDef& def : kGpuRoofs) {
    const auto found = gpu.roofs.roofs.find(def.key);
    if (found == gpu.roofs.roofs.end()) continue;
    const GpuRoof& roof = found->second;
    const GpuConditions& board = roof.conditions;
    table.row({def.title, number_or_dash(gpu.roofs.value(def.key)),
               number_or_dash(catalog_value(gpu, def.key)), def.unit,
               number_or_dash(board.power_w, 3), number_or_dash(board.clock_mhz),
               number_or_dash(board.temperature_c, 3), join(board.throttled, ", "),
               printable(roof.reason.empty() ? roof.path : roof.reason)});
  }
  return table;
}

Table cover_table(const KernelCover& cover) {
  Table table({{"operation"},
               {"a step", Align::kRight, 5},
               {"tokens", Align::kRight, 6},
               {"time, us", Align::kRight, 4},
               {"floor, us", Align::kRight, 3},
               {"over floor", Align::kRight},
               {"ms a step", Align::kRight},
               {"its floor, ms", Align::kRight},
               {"kernel, or why none", Align::kLeft, 1}});
  constexpr double kMsInUs = 1e-3;
  for (const CoveredOp& op : cover.ops) {
    std::optional<double> times, whole;
    if (op.time_us) {
      whole = op.count * *op.time_us * kMsInUs;
      if (op.floor_us > 0) times = *op.time_us / op.floor_us;
    }
    constexpr double kFar = 2;
    table.row({op.op,
               format_number(op.count, 3),
               op.tokens > 0 ? format_number(op.tokens) : "-",
               number_or_dash(op.time_us, 3),
               number_or_dash(op.floor_us, 3),
               {times ? format_number(*times, 3) + " x" : std::string("-"),
                times.value_or(0) > kFar ? Emphasis::kWarning : Emphasis::kNone},
               ms_cell(whole),
               ms_cell(op.count * op.floor_us * kMsInUs),
               printable(op.time_us ? op.kernel : op.reason)});
  }
  table.rule();
  table.row({{"timed, a partial sum", Emphasis::kStrong},
             "",
             "",
             "",
             "",
             "",
             {ms_cell(cover.ms()), Emphasis::kStrong},
             {ms_cell(cover.floor_ms()), Emphasis::kStrong},
             fmt::format("{} of {} operations", cover.covered(), cover.ops.size())});
  table.row({"nothing covers", "", "", "", "", "", "-", ms_cell(cover.open_floor_ms()),
             fmt::format("{} operations", cover.ops.size() - cover.covered())});
  return table;
}

// The headline's step, else the one with most sequences.
const GpuStep* shown_step(const Diagnosis& diagnosis) {
  const GpuEvidence& gpu = *diagnosis.evidence.gpu;
  if (gpu.steps.empty()) return nullptr;
  const auto found = std::find_if(gpu.steps.begin(), gpu.steps.end(), [&](const GpuStep& step) {
    return step.level == diagnosis.headline;
  });
  return found == gpu.steps.end() ? &gpu.steps.back() : &*found;
}

std::string board_text(const GpuEvidence& gpu) {
  const GpuConditions board = conditions_over(gpu.rows);
  if (!board.reason.empty()) {
    return fmt::format("What the board did while kernels were timed is not known: {}.",
                       without_stop(board.reason));
  }
  if (!board.power_w && !board.clock_mhz) return "";
  const std::string limit =
      gpu.catalog && gpu.catalog->power.limit_w
          ? fmt::format(" of {} W", format_number(gpu.catalog->power.limit_w->value, 3))
          : "";
  return fmt::format(
      "While kernels were timed the board drew {} W{} on average at {} MHz in the middle, {} C at "
      "most; {}.",
      number_or_dash(board.power_w, 3), limit, number_or_dash(board.clock_mhz),
      number_or_dash(board.temperature_c, 3),
      board.throttled.empty() ? "nothing held its clock down"
                              : "its clock was held down by " + join(board.throttled, ", "));
}

}  // namespace

Section gpu_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Kernels alone on the GPU"};
  if (!diagnosis.evidence.gpu) return section;
  const GpuEvidence& gpu = *diagnosis.evidence.gpu;
  if (!gpu.served_elsewhere.empty()) section.paragraphs.push_back(gpu.served_elsewhere + ".");
  const GpuStep* step = shown_step(diagnosis);
  if (step != nullptr) {
    section.paragraphs.push_back(fmt::format(
        "One rank's step of {} sequences on {} ({}). Kernels are nibble's and cuBLASLt's, each "
        "timed alone with cold weights: those of a server may take longer. The sum is partial; the "
        "floor is the ledger's with the roofs below, as measured.",
        format_number(step->sequences), gpu.roofs.title, gpu.on));
    section.tables.emplace_back("", cover_table(step->cover));
  } else if (!gpu.steps_reason.empty()) {
    section.paragraphs.push_back(
        fmt::format("No step is composed of the kernels: {}.", without_stop(gpu.steps_reason)));
  }
  if (std::string board = board_text(gpu); !board.empty()) {
    section.paragraphs.push_back(std::move(board));
  }
  section.tables.emplace_back(
      fmt::format("Roofs of {}, measured by {}, beside what the catalog says.", gpu.roofs.title,
                  gpu.source),
      roofs_table(gpu));
  return section;
}

}  // namespace nibble::diagnose
