// Point 14: where sources disagree: claims against the configuration, the case against the catalog.
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

constexpr double kClaimAgrees = 0.05;  // relative: claims are rounded

struct Known {
  double value = 0;
  std::string source;
  std::vector<FindingInput> inputs;
};

std::vector<FindingInput> model_inputs(const Scene& scene) {
  return Inputs(scene).experts().expert_sizes().layers().list();
}

std::optional<Known> model_number(const Scene& scene, std::string_view what) {
  const ModelSpec& model = scene.model();
  const std::string source = "the configuration of " + model.name;
  const auto known = [&](double value) { return Known{value, source, model_inputs(scene)}; };
  if (what == "parameters") return known(count_parameters(model).total);
  if (what == "active_parameters") return known(count_parameters(model).active);
  if (what == "hidden") return known(static_cast<double>(model.hidden));
  if (what == "layers") return known(static_cast<double>(model.layers.size()));
  if (what == "checkpoint_bytes") return known(checkpoint_bytes(model));
  if (!model.moe) return std::nullopt;
  if (what == "experts") return known(static_cast<double>(model.moe->experts));
  if (what == "experts_per_token") return known(static_cast<double>(model.moe->top_k));
  if (what == "moe_intermediate") return known(static_cast<double>(model.moe->intermediate));
  return std::nullopt;
}

std::optional<Known> machine_number(const Scene& scene, std::string_view what) {
  const MachineSpec& machine = scene.machine();
  const auto known = [&](const Sourced& number, std::string unit) {
    return Known{number.value, machine.name,
                 Inputs(scene).number(std::string(what), number, std::move(unit)).list()};
  };
  if (what == "bandwidth_gb_s") return known(machine.bandwidth_gb_s, "GB/s");
  if (what == "memory_gb") return known(machine.memory_gb, "GB");
  if (what == "sms" && machine.sms) return known(*machine.sms, "");
  if (what == "power_limit_w" && machine.power.limit_w) return known(*machine.power.limit_w, "W");
  if (what == "l2_mb" && machine.l2_mb) return known(*machine.l2_mb, "MB");
  if (what == "fp4_tflops_dense" && machine.peak(Precision::kFp4) != nullptr) {
    return known(machine.peak(Precision::kFp4)->dense_tflops, "TFLOPS");
  }
  return std::nullopt;
}

void explain_claim(Scene& scene, const Claim& claim, std::string id) {
  std::optional<Known> known = model_number(scene, claim.what);
  if (!known) known = machine_number(scene, claim.what);
  if (!known) {
    scene.cannot_say(std::move(id), 14, "Claim about " + claim.what,
                     fmt::format("nibble knows no number called \"{}\"", claim.what));
    return;
  }
  const bool agrees = std::abs(claim.value - known->value) <= kClaimAgrees * std::abs(known->value);
  known->inputs.push_back(
      {"claim", claim.value, claim.unit, fmt::format("case: {}.value", claim.path)});
  const std::string unit = claim.unit.empty() ? "" : " " + claim.unit;
  scene.conclude(
      {.id = std::move(id),
       .point = 14,
       .title = "Claim about " + claim.what,
       .value = claim.value / known->value,
       .unit = "x",
       .verdict = agrees ? "agrees" : "disagrees",
       .formula = "claimed / known",
       .inputs = std::move(known->inputs),
       .sentence = fmt::format("{} gives {}{} {}; {} gives {}{}: they {}.", claim.source,
                               format_count(claim.value), unit, claim.what, known->source,
                               format_count(known->value), unit, agrees ? "agree" : "disagree")});
}

void explain_parameters(Scene& scene) {
  const ParameterCount count = count_parameters(scene.model());
  scene.conclude({.id = "parameters",
                  .point = 14,
                  .title = "Parameters by the configuration",
                  .value = count.total,
                  .unit = "parameters",
                  .verdict = scene.found.claims.empty() ? "no claim to compare" : "",
                  .formula = "sum over matrices of rows * columns * copies",
                  .inputs = model_inputs(scene),
                  .assumptions = {"multi-token-prediction layers left out"},
                  .sentence = fmt::format(
                      "The configuration of {} makes {} parameters, {} active per token{}.",
                      scene.model().name, format_count(count.total), format_count(count.active),
                      scene.found.claims.empty() ? "; the case claims none" : "")});
}

void explain_override(Scene& scene, const Override& difference) {
  const std::string unit = difference.unit.empty() ? "" : " " + difference.unit;
  const std::string used =
      difference.replaced_by.empty()
          ? "the case's number is used"
          : fmt::format("neither is used, as a flag replaces both ({})", difference.replaced_by);
  scene.conclude(
      {.id = "disagreement." + difference.path,
       .point = 14,
       .title = "Case against catalog: " + difference.what,
       .value = difference.given / difference.catalog,
       .unit = "x",
       .verdict = "disagrees",
       .formula = "case / catalog",
       .inputs = {{"given", difference.given, difference.unit, "case: " + difference.path},
                  {"known", difference.catalog, difference.unit, difference.of}},
       .sentence = fmt::format("{}: {}{} in the case, {}{} in the {}; {}.", difference.what,
                               format_number(difference.given), unit,
                               format_number(difference.catalog), unit, difference.of, used)});
}

}  // namespace

void explain_sources(Scene& scene) {
  explain_parameters(scene);
  for (const Claim& claim : scene.found.claims) {
    std::string id = "claim." + claim.what;
    explain_claim(scene, claim, std::move(id));
  }
  for (const Override& difference : scene.overrides) explain_override(scene, difference);
  for (const std::string& reason : scene.ignored) {
    const std::string path = reason.substr(0, reason.find(':'));
    scene.cannot_say("ignored." + path, 14, "Number that could not be used", reason);
  }
}

}  // namespace nibble
