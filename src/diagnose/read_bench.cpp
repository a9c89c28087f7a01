// nibble.bench/1: kernels alone beside their floors, roofs, and whole steps as a function of the
// sequences in them.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

#include "base/units.h"
#include "diagnose/read_level.h"

namespace nibble::diagnose {
namespace {

constexpr double kMost = 1e15;
// A step of half as many sequences more than were measured; beyond that it is a guess.
constexpr double kFarthest = 1.5;

struct MeasuredStep {
  double sequences = 0;
  double ms = 0;
};

// Length of a step over the sequences in it: straight lines between what was measured.
class StepCurve {
 public:
  explicit StepCurve(std::vector<MeasuredStep> steps) : steps_(std::move(steps)) {
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const auto& a, const auto& b) { return a.sequences < b.sequences; });
  }

  bool empty() const { return steps_.empty(); }

  // The reason is filled where there is no number.
  std::optional<double> ms_at(double sequences, std::string& reason) const {
    const MeasuredStep& first = steps_.front();
    const MeasuredStep& last = steps_.back();
    // The mean of a batch that is empty at times lies below one sequence; a step has one at least.
    const double asked = std::max(sequences, std::min(1.0, first.sequences));
    if (asked < first.sequences / kFarthest || asked > last.sequences * kFarthest) {
      reason = fmt::format("the level ran {} sequences; steps were measured from {} to {}",
                           format_number(sequences), format_number(first.sequences),
                           format_number(last.sequences));
      return std::nullopt;
    }
    if (steps_.size() == 1) {
      if (asked == first.sequences) return first.ms;
      reason = fmt::format("one step was measured, of {} sequences, and the level ran {}",
                           format_number(first.sequences), format_number(sequences));
      return std::nullopt;
    }
    const auto above = std::find_if(steps_.begin() + 1, steps_.end() - 1,
                                    [&](const auto& step) { return step.sequences >= asked; });
    const MeasuredStep& high = *above;
    const MeasuredStep& low = *(above - 1);
    const double share = (asked - low.sequences) / (high.sequences - low.sequences);
    return std::max(0.0, low.ms + share * (high.ms - low.ms));
  }

  // One row more in a step: a prompt token is one, too.
  std::optional<double> ms_per_row(std::string& reason) const {
    if (steps_.size() < 2) {
      reason = "one step alone says nothing of one row more";
      return std::nullopt;
    }
    const MeasuredStep& high = steps_.back();
    const MeasuredStep& low = steps_[steps_.size() - 2];
    const double slope = (high.ms - low.ms) / (high.sequences - low.sequences);
    if (slope >= 0) return slope;
    reason = "the longer step took less time: noise";
    return std::nullopt;
  }

 private:
  std::vector<MeasuredStep> steps_;
};

Result<std::vector<MeasuredStep>> parse_steps(const Json* list, const std::string& where) {
  std::vector<MeasuredStep> steps;
  if (list == nullptr) return steps;
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    ObjectReader reader(list->as_array()[index], fmt::format("{}: steps[{}]", where, index));
    const std::optional<double> sequences = reader.number("sequences", {.max = kMost, .above = 0});
    const std::optional<double> time_us = reader.number("time_us", {.max = kMost, .above = 0});
    const std::string error = reader.string("error").value_or("");
    NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
    const bool twice = std::any_of(steps.begin(), steps.end(), [&](const MeasuredStep& step) {
      return sequences == step.sequences;
    });
    if (sequences && time_us && error.empty() && !twice) {
      steps.push_back({*sequences, *time_us * 1e-3});
    }
  }
  return steps;
}

Result<std::optional<KernelEvidence>> parse_row(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  KernelEvidence kernel;
  kernel.op = reader.string("op").value_or("gemm");
  kernel.kernel = reader.string("kernel").value_or("");
  const std::optional<std::string> format = reader.string("format");
  const std::optional<double> m = reader.number("m", {.min = 0});
  const std::optional<double> n = reader.number("n", {.min = 0});
  const std::optional<double> k = reader.number("k", {.min = 0});
  kernel.tokens = reader.number("tokens", {.min = 0}).value_or(0);
  const std::optional<double> time_us = reader.number("time_us", {.max = kMost, .above = 0});
  kernel.floor_us = reader.number("floor_us", {.min = 0}).value_or(0);
  const double bytes = reader.number("bytes", {.min = 0}).value_or(0);
  const double flop = reader.number("flop", {.min = 0}).value_or(0);
  const std::string error = reader.string("error").value_or("");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (!time_us || !error.empty()) return std::optional<KernelEvidence>();
  kernel.time_us = *time_us;
  if (m && n && k) {
    kernel.shape = fmt::format("{}{}x{}x{}", format ? *format + " " : "", format_compact(*m),
                               format_compact(*n), format_compact(*k));
  }
  if (bytes > 0) kernel.intensity = flop / bytes;
  kernel.tflops = flop / *time_us * 1e-6;
  kernel.source = where;
  return std::optional(std::move(kernel));
}

// The operations of the step with most sequences, all layers together.
Result<> read_ops(const Json& steps, const std::string& where, Evidence& evidence) {
  const Json::Array& list = steps.as_array();
  const auto sequences_of = [](const Json& step) {
    const Json* member = step.find("sequences");
    return member != nullptr && member->is_number() ? member->as_number() : 0.0;
  };
  std::size_t most = 0;
  for (std::size_t index = 1; index < list.size(); ++index) {
    if (sequences_of(list[index]) > sequences_of(list[most])) most = index;
  }
  if (list.empty()) return {};
  const Json* ops = list[most].find("ops");
  if (ops == nullptr || !ops->is_array()) return {};
  for (std::size_t index = 0; index < ops->as_array().size(); ++index) {
    const std::string place = fmt::format("{}: steps[{}].ops[{}]", where, most, index);
    NIBBLE_ASSIGN_OR_RETURN(auto kernel, parse_row(ops->as_array()[index], place));
    if (!kernel || !(kernel->floor_us > 0)) continue;
    kernel->tokens = sequences_of(list[most]);
    evidence.kernels.push_back(*std::move(kernel));
  }
  return {};
}

void fill_kernels(const StepCurve& curve, const ReadContext& context, Evidence& evidence) {
  for (LevelEvidence& level : evidence.levels) {
    const std::optional<double> running = level.get(Fact::kRunning);
    std::string reason = level[Fact::kRunning].reason;
    std::optional<double> ms;
    if (running && *running > 0) ms = curve.ms_at(*running, reason);
    if (running && *running <= 0) reason = "no request ran";
    level[Fact::kKernels] = ms ? datum_of(*ms, place_in(context, "steps[]"), context.origin)
                               : missing("kernels of the step: " + reason);
    const std::optional<double> row = curve.ms_per_row(reason);
    level[Fact::kPrefillPerToken] =
        row ? datum_of(*row, place_in(context, "steps[], slope of the last two"), context.origin)
            : missing("price of a prompt token: " + reason);
  }
}

}  // namespace

Result<> read_bench(const Json& json, const ReadContext& context, Evidence& evidence) {
  if (!json.is_object()) {
    return input_error("{}: the document is {}, not an object", context.name, json.kind_name());
  }
  ObjectReader reader(json, context.name);
  if (reader.string("schema").value_or("nibble.bench/1") != "nibble.bench/1") {
    reader.fault_at("schema", "is not nibble.bench/1");
  }
  const Json* rows = reader.array("rows");
  const Json* steps = reader.array("steps");
  const Json* roofs = reader.object("roofs");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (rows != nullptr) {
    for (std::size_t index = 0; index < rows->as_array().size(); ++index) {
      NIBBLE_ASSIGN_OR_RETURN(
          auto kernel,
          parse_row(rows->as_array()[index], fmt::format("{}: rows[{}]", context.name, index)));
      if (kernel) evidence.kernels.push_back(*std::move(kernel));
    }
  }
  NIBBLE_ASSIGN_OR_RETURN(std::vector<MeasuredStep> measured, parse_steps(steps, context.name));
  if (steps != nullptr) NIBBLE_RETURN_IF_ERROR(read_ops(*steps, context.name, evidence));
  const StepCurve curve(std::move(measured));
  if (!curve.empty()) fill_kernels(curve, context, evidence);
  if (evidence.kernels.empty() && evidence.kernels_reason.empty()) {
    evidence.kernels_reason = fmt::format("{} times no kernel alone", context.name);
  }
  if (roofs != nullptr && evidence.roofs.is_null()) {
    evidence.roofs = *roofs;
    evidence.roofs.set("source", context.name);
  }
  add_source(evidence, curve.empty() ? "kernels alone" : "steps of kernels alone", context,
             std::nullopt);
  return {};
}

}  // namespace nibble::diagnose
