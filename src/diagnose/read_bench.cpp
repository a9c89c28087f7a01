// nibble.bench/1: kernels alone beside their floors, roofs, and whole steps as a function of the
// sequences in them; what was measured on a GPU is in read_bench_gpu.cpp.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/curve.h"
#include "diagnose/read_bench_gpu.h"
#include "diagnose/read_level.h"

namespace nibble::diagnose {
namespace {

constexpr double kMost = 1e15;
Result<std::vector<CurvePoint>> parse_steps(const Json* list, const std::string& where) {
  std::vector<CurvePoint> steps;
  if (list == nullptr) return steps;
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    ObjectReader reader(list->as_array()[index], fmt::format("{}: steps[{}]", where, index));
    const std::optional<double> sequences = reader.number("sequences", {.max = kMost, .above = 0});
    const std::optional<double> time_us = reader.number("time_us", {.max = kMost, .above = 0});
    const std::string error = reader.string("error").value_or("");
    NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
    const bool twice = std::any_of(steps.begin(), steps.end(),
                                   [&](const CurvePoint& step) { return sequences == step.size; });
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
  const std::string on = reader.string("on").value_or("");
  if (!on.empty()) kernel.kernel += fmt::format(" on {}", printable(on));
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

void fill_kernels(const TimeCurve& curve, const ReadContext& context, Evidence& evidence) {
  for (LevelEvidence& level : evidence.levels) {
    const std::optional<double> running = level.get(Fact::kRunning);
    std::string reason = level[Fact::kRunning].reason;
    std::optional<double> ms;
    if (running && *running > 0) ms = curve.at(*running, reason);
    if (running && *running <= 0) reason = "no request ran";
    level[Fact::kKernels] = ms ? datum_of(*ms, place_in(context, "steps[]"), context.origin)
                               : missing("kernels of the step: " + reason);
    const std::optional<double> row = curve.slope(reason);
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
  NIBBLE_RETURN_IF_ERROR(read_bench_gpu(json, context, evidence));
  NIBBLE_ASSIGN_OR_RETURN(std::vector<CurvePoint> measured, parse_steps(steps, context.name));
  if (steps != nullptr) NIBBLE_RETURN_IF_ERROR(read_ops(*steps, context.name, evidence));
  const TimeCurve curve(std::move(measured), {.what = "steps", .of = "sequences"});
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
