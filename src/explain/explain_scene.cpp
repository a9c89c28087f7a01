// The deployment that a case describes: the catalog's model and machine with the case's numbers.
#include "base/text.h"
#include "explain/explain_parts.h"
#include "model/config.h"

namespace nibble {
namespace {

// Keeps the catalog's number where the case says nothing; notes a difference.
class ModelOverrides {
 public:
  explicit ModelOverrides(Scene& scene) : scene_(scene) {}

  void apply(std::string_view path, std::string_view what, const std::optional<std::int64_t>& given,
             std::int64_t& number) {
    if (!given || *given == number) return;
    scene_.overrides.push_back({std::string(path), std::string(what), "",
                                static_cast<double>(*given), static_cast<double>(number),
                                fmt::format("catalog: {}", scene_.catalog_model.name)});
    number = *given;
  }

 private:
  Scene& scene_;
};

void resize_layers(std::vector<LayerSpec>& layers, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  const LayerSpec last = layers.back();
  layers.resize(size, last);
}

void override_model(Scene& scene) {
  const Case& found = scene.found;
  ModelSpec& model = scene.analysis.deployment.model;
  ModelOverrides overrides(scene);
  overrides.apply("model.hidden", "hidden size", found.hidden, model.hidden);
  if (model.moe) {
    overrides.apply("model.experts", "experts", found.experts, model.moe->experts);
    overrides.apply("model.experts_per_token", "experts per token", found.experts_per_token,
                    model.moe->top_k);
    overrides.apply("model.moe_intermediate", "expert intermediate size", found.moe_intermediate,
                    model.moe->intermediate);
  } else if (found.experts || found.experts_per_token || found.moe_intermediate) {
    scene.ignored.push_back(
        fmt::format("model.experts: {} has no experts in the catalog", model.name));
  }
  auto layers = static_cast<std::int64_t>(model.layers.size());
  overrides.apply("model.layers", "layers", found.layers, layers);
  if (!model.layers.empty()) resize_layers(model.layers, layers);
}

Result<> override_number(Scene& scene, std::string_view path, std::string_view setting,
                         std::string_view what, std::string_view unit,
                         const std::optional<double>& given, const Sourced* known) {
  if (!given) return {};
  if (known != nullptr && known->value != *given) {
    scene.overrides.push_back({std::string(path), std::string(what), std::string(unit), *given,
                               known->value, fmt::format("catalog: {}", scene.catalog_machine.name),
                               ""});
  }
  return set_number(scene.analysis.deployment.machine, setting, *given,
                    fmt::format("case: {}", path));
}

template <class T>
const T* pointer_to(const std::optional<T>& optional) {
  return optional ? &*optional : nullptr;
}

Result<> override_machine(Scene& scene) {
  const Case& found = scene.found;
  const MachineSpec& catalog = scene.catalog_machine;
  NIBBLE_RETURN_IF_ERROR(override_number(scene, "machine.bandwidth_gb_s", "bandwidth_gb_s",
                                         "memory bandwidth", "GB/s", found.bandwidth_gb_s,
                                         &catalog.bandwidth_gb_s));
  NIBBLE_RETURN_IF_ERROR(override_number(scene, "machine.memory_gb", "memory_gb", "memory", "GB",
                                         found.memory_gb, &catalog.memory_gb));
  NIBBLE_RETURN_IF_ERROR(
      override_number(scene, "machine.sms", "sms", "SMs", "", found.sms, pointer_to(catalog.sms)));
  return override_number(scene, "machine.power_limit_w", "power.limit_w", "power limit", "W",
                         found.power_limit_w, pointer_to(catalog.power.limit_w));
}

// A quoted peak implies a clock, and that clock holds for all precisions.
Result<> override_peak(Scene& scene) {
  const Case& found = scene.found;
  MachineSpec& machine = scene.analysis.deployment.machine;
  if (found.fp4_tflops_quoted.empty() && !found.fp4_tflops_dense_assumed) return {};
  const Peak* catalog = scene.catalog_machine.peak(Precision::kFp4);
  if (catalog == nullptr) {
    scene.ignored.push_back(fmt::format(
        "machine.fp4_tflops_quoted: the catalog's {} has no FP4 matrix unit", machine.name));
    return {};
  }
  const bool as_dense = scene.peak_is == PeakIs::kDense && !found.fp4_tflops_quoted.empty();
  if (!as_dense && found.fp4_tflops_dense_assumed) {
    NIBBLE_RETURN_IF_ERROR(set_peak(machine, Precision::kFp4, *found.fp4_tflops_dense_assumed,
                                    PeakIs::kDense, true,
                                    "case: machine.fp4_tflops_dense_assumed"));
  } else {
    NIBBLE_RETURN_IF_ERROR(set_peak(machine, Precision::kFp4, found.fp4_tflops_quoted.front(),
                                    scene.peak_is, true, "case: machine.fp4_tflops_quoted"));
  }
  const double dense = machine.peak(Precision::kFp4)->dense_tflops.value;
  if (dense != catalog->dense_tflops.value) {
    scene.overrides.push_back({!as_dense && found.fp4_tflops_dense_assumed
                                   ? "machine.fp4_tflops_dense_assumed"
                                   : "machine.fp4_tflops_quoted",
                               "dense FP4 peak", "TFLOPS", dense, catalog->dense_tflops.value,
                               fmt::format("catalog: {}", scene.catalog_machine.name), ""});
  }
  return {};
}

// A number of the machine that a case can state; nullptr when the machine has none such.
const Sourced* number_at(const MachineSpec& machine, std::string_view path) {
  if (path == "machine.bandwidth_gb_s") return &machine.bandwidth_gb_s;
  if (path == "machine.memory_gb") return &machine.memory_gb;
  if (path == "machine.sms") return pointer_to(machine.sms);
  if (path == "machine.power_limit_w") return pointer_to(machine.power.limit_w);
  const Peak* fp4 = machine.peak(Precision::kFp4);
  return path.starts_with("machine.fp4_") && fp4 != nullptr ? &fp4->dense_tflops : nullptr;
}

// Applies the flags, and notes which of the case's numbers they replace.
Result<> apply_flags(Scene& scene, const CaseOptions& options) {
  if (!options.adjust) return {};
  MachineSpec& machine = scene.analysis.deployment.machine;
  const MachineSpec before = machine;
  NIBBLE_RETURN_IF_ERROR(options.adjust(scene.analysis.deployment));
  const auto flag_of = [&](std::string_view path) -> std::string {
    const Sourced* was = number_at(before, path);
    const Sourced* now = number_at(machine, path);
    if (was == nullptr || now == nullptr) return "";
    return was->source == now->source && was->value == now->value ? "" : now->source;
  };
  for (Override& difference : scene.overrides) difference.replaced_by = flag_of(difference.path);
  scene.fp4_by_flag = !flag_of("machine.fp4_tflops_quoted").empty();
  return {};
}

void set_link(Scene& scene) {
  const Case& found = scene.found;
  if (!found.link_gb_s && !found.link_latency_us) return;
  Deployment& deployment = scene.analysis.deployment;
  LinkSpeed link = deployment.effective_link();
  link.bandwidth_gb_s = found.link_gb_s.value_or(link.bandwidth_gb_s);
  link.latency_us = found.link_latency_us.value_or(link.latency_us);
  deployment.link = link;
}

}  // namespace

PeakIs quoted_peak_is(const Case& found, const CaseOptions& options) {
  if (options.peak_is) return *options.peak_is;
  return found.fp4_tflops_quoted_is.starts_with("dense") ? PeakIs::kDense : PeakIs::kSparse;
}

Result<Scene> set_scene(const Case& found, const CaseOptions& options, PeakIs peak_is) {
  Scene scene(found, peak_is);
  Result<ModelSpec> model = load_model(found.model_name);
  if (!model) return input_error("case {}: model.name: {}", found.name, model.error().message);
  Result<MachineSpec> machine = load_machine(found.gpu);
  if (!machine) return input_error("case {}: machine.gpu: {}", found.name, machine.error().message);
  scene.catalog_model = *std::move(model);
  scene.catalog_machine = *std::move(machine);

  scene.analysis.source = found;
  Deployment& deployment = scene.analysis.deployment;
  deployment.model = scene.catalog_model;
  deployment.machine = scene.catalog_machine;
  deployment.layout = found.layout;
  // An engine keeps the cache in bf16 unless it is told otherwise; the checkpoint's wish is not an
  // engine's setting. kv.per_token says that this was assumed.
  deployment.kv_format = found.kv_format.value_or(Format::kBf16);
  // Without lengths the cache is left out of the floor: one token, and a finding says so.
  deployment.context = mean_context(found).value_or(1);
  override_model(scene);
  const Result<> numbers = override_machine(scene);
  if (!numbers) return input_error("case {}: {}", found.name, numbers.error().message);
  const Result<> peak = override_peak(scene);
  if (!peak) return input_error("case {}: {}", found.name, peak.error().message);
  set_link(scene);
  NIBBLE_RETURN_IF_ERROR(apply_flags(scene, options));
  return scene;
}

}  // namespace nibble
