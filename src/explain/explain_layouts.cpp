// Point 10: measured ratios between layouts against what bandwidth alone predicts, and whether the
// comparison agrees with the load test.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

constexpr double kNearPrediction = 0.25;  // relative; the floor leaves a kernel's own losses out
constexpr double kRatesAgree = 0.1;       // relative, of two accounts of the same rate

// "TP4 x PP2" as part of an id.
std::string layout_slug(const MeasuredLayout& compared) {
  const ParallelLayout& layout = compared.layout;
  std::string slug = fmt::format("tp{}pp{}", layout.tp, layout.pp);
  if (layout.dp > 1) slug += fmt::format("dp{}", layout.dp);
  if (layout.ep > 1) slug += fmt::format("ep{}", layout.ep);
  if (layout.dp_attention) slug += "_dp_attention";
  return fmt::format("{}.{}", slug, level_slug(compared.concurrency));
}

std::optional<double> rate_of(const MeasuredLayout& a, const MeasuredLayout& b, bool first) {
  if (a.total_tok_s && b.total_tok_s) return first ? a.total_tok_s : b.total_tok_s;
  if (a.output_tok_s && b.output_tok_s) return first ? a.output_tok_s : b.output_tok_s;
  return std::nullopt;
}

Inputs& add_compared(Inputs& inputs, const MeasuredLayout& compared) {
  inputs.given("tp", static_cast<double>(compared.layout.tp), "GPUs", compared.path + ".tp");
  inputs.given("pp", static_cast<double>(compared.layout.pp), "stages", compared.path + ".pp");
  return inputs.given("concurrency", compared.concurrency, "requests",
                      compared.path + ".concurrency");
}

Inputs& add_rates(Inputs& inputs, const MeasuredLayout& compared) {
  if (compared.total_tok_s) {
    inputs.given("total_rate", *compared.total_tok_s, "tok/s", compared.path + ".total_tok_s");
  }
  if (compared.output_tok_s) {
    inputs.given("output_rate", *compared.output_tok_s, "tok/s", compared.path + ".output_tok_s");
  }
  return inputs;
}

Result<Step> step_of(const Scene& scene, const MeasuredLayout& compared) {
  Deployment deployment = scene.deployment();
  deployment.layout = compared.layout;
  return decode_step(deployment, std::max(1.0, running(scene.found, compared.concurrency)));
}

// Everything of the floor but this layout, which is not the server's.
Inputs prediction_inputs(const Scene& scene, const MeasuredLayout& base,
                         const MeasuredLayout& other) {
  Inputs inputs(scene);
  inputs.experts().expert_sizes().layers().bandwidth().cap().lengths();
  add_compared(inputs, base);
  add_compared(inputs, other);
  return inputs;
}

void explain_verdict(Scene& scene, const MeasuredLayout& base, const MeasuredLayout& other,
                     double measured, double predicted) {
  const std::string names =
      fmt::format("{} against {}", other.layout.describe(), base.layout.describe());
  const bool near = std::abs(measured / predicted - 1) <= kNearPrediction;
  Inputs inputs = prediction_inputs(scene, base, other);
  add_rates(add_rates(inputs, base), other);
  scene.conclude({.id = "layouts.verdict." + layout_slug(other),
                  .point = 10,
                  .title = names + ": what it proves",
                  .value = measured / predicted,
                  .unit = "x",
                  .verdict = near ? "as bandwidth predicts" : "not by bandwidth alone",
                  .formula = "measured ratio / predicted ratio",
                  .inputs = inputs.list(),
                  .confidence = Confidence::kLikely,
                  .sentence = fmt::format("{}: {} measured where bandwidth predicts {}: {}.", names,
                                          format_number(measured, 3), format_number(predicted, 3),
                                          near ? "no proof that the deployment is compute-bound"
                                               : "something else differs")});
}

// The whole floor of both layouts, on the server's link and with its routing.
void explain_floor(Scene& scene, const MeasuredLayout& base, const MeasuredLayout& other,
                   double ratio) {
  const std::string names =
      fmt::format("{} against {}", other.layout.describe(), base.layout.describe());
  Inputs inputs = prediction_inputs(scene, base, other);
  inputs.deployment();
  scene.conclude(
      {.id = "layouts.floor." + layout_slug(other),
       .point = 10,
       .title = names + ": by the whole floor",
       .value = ratio,
       .unit = "x",
       .formula = "floor rate / floor rate",
       .inputs = inputs.list(),
       .assumptions = assumptions(scene.deployment()),
       .sentence = fmt::format("{}: with collectives, activations and launches the floor gives {}.",
                               names, format_number(ratio, 3))});
}

void explain_prediction(Scene& scene, const MeasuredLayout& base, const MeasuredLayout& other,
                        std::optional<double> measured) {
  const std::string names =
      fmt::format("{} against {}", other.layout.describe(), base.layout.describe());
  const Result<Step> base_step = step_of(scene, base);
  const Result<Step> other_step = step_of(scene, other);
  if (!base_step || !other_step) {
    scene.cannot_say("layouts.predicted." + layout_slug(other), 10, names,
                     (base_step ? other_step : base_step).error().message);
    return;
  }
  const double by_bandwidth = base_step->weights_and_kv_us / other_step->weights_and_kv_us *
                              other_step->concurrency / base_step->concurrency;
  scene.conclude(
      {.id = "layouts.predicted." + layout_slug(other),
       .point = 10,
       .title = names + ": by bandwidth",
       .value = by_bandwidth,
       .unit = "x",
       .formula = "(weights + KV per step) of one over the other",
       .inputs = prediction_inputs(scene, base, other).list(),
       .assumptions = {"memory traffic of weights and cache alone"},
       .sentence = fmt::format("{}: with {} microbatches in flight each GPU reads {} of weights "
                               "and cache per step instead of {}: "
                               "bandwidth predicts {} of the throughput.",
                               names, format_number(other_step->microbatches),
                               format_bytes(other_step->weight_bytes + other_step->kv_bytes),
                               format_bytes(base_step->weight_bytes + base_step->kv_bytes),
                               format_number(by_bandwidth, 3))});
  explain_floor(scene, base, other, other_step->tokens_per_s / base_step->tokens_per_s);
  if (measured) explain_verdict(scene, base, other, *measured, by_bandwidth);
}

std::optional<double> explain_measured(Scene& scene, const MeasuredLayout& base,
                                       const MeasuredLayout& other) {
  const std::string slug = layout_slug(other);
  const std::string names =
      fmt::format("{} against {}", other.layout.describe(), base.layout.describe());
  const std::optional<double> base_rate = rate_of(base, other, true);
  const std::optional<double> other_rate = rate_of(base, other, false);
  if (!base_rate || !other_rate || base.concurrency != other.concurrency) {
    scene.cannot_say("layouts.measured." + slug, 10, names + ": measured",
                     base.concurrency != other.concurrency ? "the two ran at different concurrency"
                                                           : "the two state no common rate");
    return std::nullopt;
  }
  Inputs inputs(scene);
  add_rates(add_rates(inputs, base), other);
  add_compared(inputs, base);
  add_compared(inputs, other);
  scene.conclude({.id = "layouts.measured." + slug,
                  .point = 10,
                  .title = names + ": measured",
                  .value = *other_rate / *base_rate,
                  .unit = "x",
                  .formula = "rate / rate",
                  .inputs = inputs.list(),
                  .sentence = fmt::format("{}: {} against {} tok/s, {} of the throughput.", names,
                                          format_number(*other_rate), format_number(*base_rate),
                                          format_number(*other_rate / *base_rate, 3))});
  return *other_rate / *base_rate;
}

// The same layout and concurrency in the comparison and in the load test.
void explain_agreement(Scene& scene, const MeasuredLayout& compared) {
  const Case& found = scene.found;
  if (!(compared.layout == found.layout) || !compared.total_tok_s) return;
  for (std::size_t index = 0; index < scene.analysis.levels.size(); ++index) {
    const MeasuredLevel level = scene.analysis.levels[index].measured;
    if (level.concurrency != compared.concurrency) continue;
    std::optional<double> total = level.total_tok_s;
    if (!total && level.output_tok_s && found.input_len && found.output_len) {
      total = *level.output_tok_s * (*found.input_len + *found.output_len) / *found.output_len;
    }
    if (!total) return;
    Inputs inputs(scene);
    add_rates(add_compared(inputs, compared), compared);
    inputs.layout().concurrency(level);
    if (level.total_tok_s) {
      inputs.given("total_rate", *level.total_tok_s, "tok/s", level.path + ".total_tok_s");
    } else {
      inputs.rate(level).lengths();
    }
    const double ratio = *compared.total_tok_s / *total;
    const bool agrees = std::abs(ratio - 1) <= kRatesAgree;
    scene.conclude(
        {.id = "layouts.agreement." + layout_slug(compared),
         .point = 10,
         .title = "Comparison against load test",
         .value = ratio,
         .unit = "x",
         .verdict = agrees ? "agrees" : "disagrees",
         .formula = "compared total / (output rate * (input + output) / output)",
         .inputs = inputs.list(),
         .sentence = fmt::format(
             "{} at {}: {} total tok/s in the comparison, {} in the load test: they {}.",
             compared.layout.describe(), counted(compared.concurrency, "request"),
             format_number(*compared.total_tok_s), format_number(*total),
             agrees ? "agree" : "disagree, so lengths, cache hits or versions differed")});
    return;
  }
}

}  // namespace

void explain_layouts(Scene& scene) {
  const std::vector<MeasuredLayout>& compared = scene.found.layouts_compared;
  if (compared.size() < 2) {
    scene.cannot_say("layouts", 10, "Layouts compared", "the case compares fewer than two layouts");
  } else {
    std::size_t base = 0;
    for (std::size_t index = compared.size(); index-- > 0;) {
      if (compared[index].layout == scene.found.layout) base = index;
    }
    for (std::size_t index = 0; index < compared.size(); ++index) {
      if (index == base) continue;
      const std::optional<double> measured =
          explain_measured(scene, compared[base], compared[index]);
      explain_prediction(scene, compared[base], compared[index], measured);
    }
  }
  for (const MeasuredLayout& layout : compared) explain_agreement(scene, layout);
}

}  // namespace nibble
