// Where a token's time goes at one level, by Little's law:
//
//   in flight / output rate = step + queue + outside of the engine
//   step = running / output rate = floor + kernels + collectives + clocks + prefill + host + rest
//
// Known bars never exceed what was measured. Where their sum would, they are cut in this order, the
// least certain first: clocks, prefill, collectives, kernels, host; then front end and queue, where
// the floor alone does not fit beside them. A floor above the measured time is an accounting error
// unless it is within the rate's own noise.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"
#include "diagnose/diagnosis.h"
#include "diagnose/waterfall_parts.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsPerS = 1e3;
constexpr double kLeastNoise = 0.01;
constexpr double kRounding = 1e-12;
// A trace is of this level where its step is no more than half longer or shorter.
constexpr double kAlikeSteps = 1.5;

std::string ms_text(double ms) {
  return fmt::format("{} ms", format_number(ms, 3));
}

bool is_collective(std::string_view op) {
  constexpr std::array<std::string_view, 7> kParts = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "dispatch", "combine", "pp.send"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return op.find(part) != std::string_view::npos;
  });
}

class Waterfall {
 public:
  Waterfall(const Evidence& evidence, const LevelEvidence& level, const InSystem& counts,
            double rate)
      : evidence_(evidence),
        level_(level),
        counts_(counts),
        ms_per_request_(kMsPerS / rate),
        measured_ms_(counts.in_flight * ms_per_request_) {}

  // Empty: it went well; else why there is no waterfall.
  std::string build() {
    share_out_system();
    const std::string error = take_floor();
    if (!error.empty()) return error;
    // Whatever is taken first is kept longest.
    take_host();
    take_kernels();
    take_collectives();
    take_prefill();
    take_clocks();
    double known = 0;
    for (const WaterfallBar& bar : bars_) known += bar.ms.value_or(0);
    double rest = measured_ms_ - known;
    if (rest < kRounding * measured_ms_) rest = 0;
    add("unexplained", "unexplained", rest, "what no bar explains");
    return "";
  }

  std::vector<WaterfallBar> take_bars() {
    constexpr std::array<std::string_view, 17> kOrder = {"expert_weights",
                                                         "other_weights",
                                                         "kv",
                                                         "activations",
                                                         "compute",
                                                         "collectives",
                                                         "launches",
                                                         "pipeline_bubble",
                                                         "kernels",
                                                         "kernels_timed",
                                                         "collectives_excess",
                                                         "clocks",
                                                         "prefill",
                                                         "host",
                                                         "queue",
                                                         "front_end",
                                                         "unexplained"};
    const auto place = [&](const WaterfallBar& bar) {
      return std::find(kOrder.begin(), kOrder.end(), bar.id) - kOrder.begin();
    };
    std::stable_sort(bars_.begin(), bars_.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    std::string holds;
    for (const WaterfallBar& bar : bars_) {
      if (!bar.ms) holds += (holds.empty() ? "" : ", ") + bar.title;
    }
    if (uncovered_ > 0) {
      holds += fmt::format("{}what lies above the floor of {} operation{} without a kernel timed",
                           holds.empty() ? "" : ", ", uncovered_, uncovered_ == 1 ? "" : "s");
    }
    if (!holds.empty()) bars_.back().note = "holds what is not known, too: " + holds;
    return std::move(bars_);
  }

 private:
  WaterfallBar& add(std::string id, std::string title, double ms, std::string note) {
    return bars_.emplace_back(WaterfallBar{.id = std::move(id),
                                           .title = std::move(title),
                                           .ms = ms,
                                           .note = std::move(note),
                                           .reason = {},
                                           .origin = Origin::kDerived});
  }

  void add_unknown(std::string id, std::string title, std::string reason) {
    bars_.push_back({.id = std::move(id),
                     .title = std::move(title),
                     .ms = std::nullopt,
                     .note = {},
                     .reason = reason.empty() ? std::string("not known") : std::move(reason),
                     .origin = Origin::kDerived});
  }

  WaterfallBar* find(std::string_view id) {
    const auto found = std::find_if(bars_.begin(), bars_.end(),
                                    [&](const WaterfallBar& bar) { return bar.id == id; });
    return found == bars_.end() ? nullptr : &*found;
  }

  // A bar of the step, no longer than what is left of it.
  void add_of_step(std::string id, std::string title, double ms, std::string note) {
    const double left = std::max(0.0, step_ms_ - taken_ms_);
    if (ms > left) {
      note += fmt::format("{}cut from {}: more of the step is not left", note.empty() ? "" : "; ",
                          ms_text(ms));
      ms = left;
    }
    taken_ms_ += ms;
    add(std::move(id), std::move(title), ms, std::move(note));
  }

  void share_out_system() {
    step_ms_ = counts_.running * ms_per_request_;
    if (!counts_.running_known && !counts_.waiting) {
      const std::string& why = level_[Fact::kRunning].reason;
      add_unknown("queue", "queue", why);
      add_unknown("front_end", "front end and client", why);
      return;
    }
    if (!counts_.waiting) {
      add_unknown("queue", "queue", level_[Fact::kWaiting].reason);
      add_unknown("front_end", "front end and client", level_[Fact::kWaiting].reason);
      return;
    }
    add("queue", "queue", *counts_.waiting * ms_per_request_,
        counts_.note.empty() ? fmt::format("{} requests wait", format_number(*counts_.waiting, 3))
                             : counts_.note);
    if (!counts_.running_known) {
      add_unknown("front_end", "front end and client", level_[Fact::kRunning].reason);
      return;
    }
    const double outside = counts_.in_flight - counts_.running - *counts_.waiting;
    add("front_end", "front end and client", std::max(0.0, outside) * ms_per_request_,
        fmt::format("{} requests neither run nor wait in the engine",
                    format_number(std::max(0.0, outside), 3)));
  }

  std::string take_floor() {
    if (!level_.floor) {
      for (const auto& [id, title] : kFloorTitles) add_unknown(id, title, level_.floor_reason);
      return "";
    }
    const double floor = level_.floor->total();
    const double noise = std::max(kLeastNoise, level_.get(Fact::kRateNoise).value_or(0));
    if (!std::isfinite(floor) || floor > measured_ms_ * (1 + noise)) {
      return fmt::format(
          "accounting error: the floor of {} exceeds the {} that were measured; the model, the "
          "machine or the layout is not the one that served",
          ms_text(floor), ms_text(measured_ms_));
    }
    const double scale = floor > measured_ms_ ? measured_ms_ / floor : 1;
    make_room(floor * scale);
    add_floor_bars(*level_.floor, scale);
    taken_ms_ = floor * scale;
    return "";
  }

  // Counts are sampled: where the floor does not fit beside queue and front end, they are too long.
  void make_room(double floor) {
    double lacking = floor - step_ms_;
    for (const char* id : {"front_end", "queue"}) {
      WaterfallBar* bar = find(id);
      if (lacking <= 0 || bar == nullptr || !bar->ms || *bar->ms <= 0) continue;
      const double cut = std::min(lacking, *bar->ms);
      bar->note +=
          fmt::format("; cut from {}: the step takes its floor at least", ms_text(*bar->ms));
      *bar->ms -= cut;
      lacking -= cut;
    }
    step_ms_ = std::max(step_ms_, floor);
  }

  void add_floor_bars(const FloorParts& parts, double scale) {
    const std::array<double, 8> values = {
        parts.expert_weights, parts.other_weights, parts.kv,       parts.activations,
        parts.compute,        parts.collectives,   parts.launches, parts.pipeline_bubble};
    for (std::size_t index = 0; index < values.size(); ++index) {
      add(kFloorTitles[index].first, kFloorTitles[index].second, values[index] * scale,
          scale < 1 ? "within the noise of the rate, cut to what was measured" : "");
    }
  }

  // The trace, where its step is one of this level.
  const TraceEvidence* trace(std::string& reason) const {
    if (!evidence_.trace) {
      reason = evidence_.trace_reason.empty() ? "no trace was given" : evidence_.trace_reason;
      return nullptr;
    }
    const double step = level_.get(Fact::kServerStep).value_or(step_ms_);
    const double ratio = step > 0 ? evidence_.trace->step_ms / step : 0;
    if (ratio >= 1 / kAlikeSteps && ratio <= kAlikeSteps) return &*evidence_.trace;
    reason = fmt::format("the trace's step of {} is none of this level, where it takes {}",
                         ms_text(evidence_.trace->step_ms), ms_text(step));
    return nullptr;
  }

  // Requests that run while the engine is in no step. Where less than one runs on average the
  // engine is idle for want of requests: that time is none of the step's.
  void take_host() {
    std::string reason;
    const TraceEvidence* traced = trace(reason);
    const std::optional<double> occupancy = level_.get(Fact::kOccupancy);
    std::optional<double> ms;
    std::string note;
    if (occupancy && counts_.running > 0) {
      const double busy = std::min(1.0, counts_.running);
      ms = step_ms_ * std::max(0.0, busy - *occupancy) / busy;
      note = fmt::format("the engine is in a step {} of the time", format_share(*occupancy));
    }
    if (traced != nullptr) {
      const double launches = level_.floor ? level_.floor->launches : 0;
      const double gaps = std::max(0.0, traced->step_ms - traced->busy_ms - launches);
      if (gaps > ms.value_or(0)) {
        ms = gaps;
        note = "no kernel runs in the traced step, launches at their floor left out";
      }
    }
    if (ms) return add_of_step("host", "host between kernels and steps", *ms, note);
    add_unknown("host", "host between kernels and steps",
                fmt::format("{}; {}", level_[Fact::kOccupancy].reason, reason));
  }

  void take_kernels() {
    const char* title = "kernels above their floor";
    std::string reason;
    const TraceEvidence* traced = trace(reason);
    const std::optional<double> alone = level_.get(Fact::kKernels);
    if (traced == nullptr && !alone) {
      if (level_.cover && level_.cover->covered() > 0) return take_covered(*level_.cover);
      return add_unknown("kernels", title, level_[Fact::kKernels].reason);
    }
    double ms = alone.value_or(0);
    double floor = 0;
    std::string note = fmt::format("{} alone", ms_text(ms));
    if (level_.floor) {
      floor = level_.floor->total() - level_.floor->collectives - level_.floor->pipeline_bubble;
    }
    if (traced != nullptr) {
      ms = std::min(op_ms(*traced, false), traced->busy_ms);
      note = fmt::format("{} served, by {}", ms_text(ms), traced->source);
      if (level_.floor) floor -= level_.floor->launches;
    }
    if (!level_.floor) note += "; their floor is in it, which is not known";
    add_of_step("kernels", title, std::max(0.0, ms - floor), note);
  }

  // A partial sum of kernels that are not the server's: what its own take beyond these, and what
  // the other operations take above their floor, stays unexplained.
  void take_covered(const KernelCover& cover) {
    uncovered_ = cover.ops.size() - cover.covered();
    add_of_step(
        "kernels_timed", "kernels above their floor, as far as timed",
        std::max(0.0, cover.ms() - cover.floor_ms()),
        fmt::format("{} of {} operations of a step take {} alone by kernels timed here, not "
                    "the server's; their floor is {}; nothing covers the others, whose "
                    "floor is {}",
                    cover.covered(), cover.ops.size(), ms_text(cover.ms()),
                    ms_text(cover.floor_ms()), ms_text(cover.open_floor_ms())));
  }

  static double op_ms(const TraceEvidence& traced, bool collective) {
    double sum = 0;
    for (const ServedOp& op : traced.ops) {
      if (is_collective(op.op) == collective) sum += op.ms;
    }
    return sum;
  }

  void take_collectives() {
    const char* title = "collectives above their floor";
    std::string reason;
    const TraceEvidence* traced = trace(reason);
    if (evidence_.setting.is_cpu || (level_.floor && level_.floor->collectives == 0)) {
      return add_of_step("collectives_excess", title, 0, "one device has none");
    }
    if (traced == nullptr) return add_unknown("collectives_excess", title, reason);
    const double served = op_ms(*traced, true);
    const double floor = level_.floor ? level_.floor->collectives : 0;
    add_of_step("collectives_excess", title, std::max(0.0, served - floor),
                fmt::format("{} served, by {}", ms_text(served), traced->source));
  }

  void take_prefill() {
    const std::optional<double> rate = level_.get(Fact::kPromptRate);
    const std::optional<double> price = level_.get(Fact::kPrefillPerToken);
    if (rate && price) {
      const double tokens = *rate * step_ms_ / kMsPerS;  // that come while one step's go out
      return add_of_step("prefill", "prefill in the way of decode", tokens * *price,
                         fmt::format("{} prompt tokens a step at {} each, by kernels alone",
                                     format_number(tokens, 3), ms_text(*price)));
    }
    if (level_.prefill_floor) {
      return add_of_step("prefill", "prefill in the way of decode", *level_.prefill_floor,
                         "by the ledger, at its floor");
    }
    add_unknown("prefill", "prefill in the way of decode",
                rate ? level_[Fact::kPrefillPerToken].reason : level_[Fact::kPromptRate].reason);
  }

  void take_clocks() {
    const char* title = "clock below the most";
    const std::optional<double> clock = level_.get(Fact::kSmClock);
    const std::optional<double> most = evidence_.setting.clock_mhz;
    if (!clock || *clock <= 0) return add_unknown("clocks", title, level_[Fact::kSmClock].reason);
    if (!most) return add_unknown("clocks", title, "the most that the clock reaches is not known");
    if (!level_.floor) return add_unknown("clocks", title, level_.floor_reason);
    add_of_step("clocks", title, level_.floor->compute * std::max(0.0, *most / *clock - 1),
                fmt::format("{} of {} MHz; of the matrix units alone, memory keeps its clock",
                            format_number(*clock), format_number(*most)));
  }

  static constexpr std::array<std::pair<const char*, const char*>, 8> kFloorTitles = {
      {{"expert_weights", "expert weights"},
       {"other_weights", "other weights"},
       {"kv", "KV cache"},
       {"activations", "activations"},
       {"compute", "matrix units"},
       {"collectives", "collectives"},
       {"launches", "launches"},
       {"pipeline_bubble", "pipeline bubble"}}};

  const Evidence& evidence_;
  const LevelEvidence& level_;
  const InSystem counts_;
  double ms_per_request_;
  double measured_ms_;
  double step_ms_ = 0;
  double taken_ms_ = 0;        // of the step
  std::size_t uncovered_ = 0;  // operations of which no kernel was timed, where others were
  std::vector<WaterfallBar> bars_;
};

}  // namespace

void build_waterfall(const Evidence& evidence, std::size_t index, LevelDiagnosis& diagnosis) {
  const LevelEvidence& level = evidence.levels[index];
  diagnosis.measured_ms.reset();
  diagnosis.waterfall.clear();
  diagnosis.waterfall_reason.clear();
  const std::optional<double> rate = level.get(Fact::kOutputRate);
  std::optional<double> in_flight = level.get(Fact::kInFlight);
  if (!in_flight) in_flight = level.get(Fact::kUsers);
  const bool known = rate && in_flight && std::isfinite(*rate) && *rate > 0 &&
                     std::isfinite(*in_flight) && *in_flight > 0;
  const InSystem counts = in_system(evidence.setting, level, in_flight.value_or(0));
  put_energy(evidence.setting, level, counts.running, diagnosis);
  if (!known) {
    const Datum& lacks = level[rate ? Fact::kInFlight : Fact::kOutputRate];
    diagnosis.waterfall_reason = lacks.reason.empty()
                                     ? std::string("no output tokens, or no requests in flight")
                                     : lacks.reason;
    return;
  }
  diagnosis.measured_ms = *in_flight / *rate * kMsPerS;
  Waterfall waterfall(evidence, level, counts, *rate);
  diagnosis.waterfall_reason = waterfall.build();
  if (diagnosis.waterfall_reason.empty()) diagnosis.waterfall = waterfall.take_bars();
}

}  // namespace nibble::diagnose
