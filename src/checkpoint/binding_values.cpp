// The values of the numbers that stand alone: factors, input scales, KV scales. They are few and,
// in files as the tools write them, side by side; looking at them costs no scan.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>

#include "checkpoint/binding_parts.h"
#include "formats/quantize.h"

namespace nibble {
namespace {

// A factor is amax / (6 * 448): of weights 2e-6 to 1e-3. factor_fault (formats/quantize.h) bounds
// it from above; its reciprocal, which the other dialect stores, lies beyond.
constexpr float kSmallestFactor = 1e-9F;
class ValueChecks {
 public:
  ValueChecks(const Binding& binding, FaultLog& log) : binding_(binding), log_(log) {}

  void check_factors();
  void check_inputs();
  void check_kv_scales();
  void check_gate_and_up();

 private:
  void error(std::string_view id, const std::string& where, std::string_view sentence) {
    log_.add(Severity::kError, id, where, sentence);
  }
  // Says what is wrong with a number that is no positive one; whether it said so.
  bool refuse(const StoredTensor& tensor, float stored, float value, std::string_view what);
  void check_factor(const BoundMatrix& matrix, bool mostly_large);

  const Binding& binding_;
  FaultLog& log_;
};

// Of a positive number: whether no multiplier of weights or activations is that large.
bool is_too_large(float factor) {
  return !factor_fault(factor).empty();
}

std::string with_value(const StoredTensor& tensor, float value) {
  return fmt::format("{} = {}", tensor.name(), value);
}

bool ValueChecks::refuse(const StoredTensor& tensor, float stored, float value,
                         std::string_view what) {
  const std::string where = with_value(tensor, stored);
  if (std::isnan(stored) || std::isinf(stored)) {
    error(fmt::format("{}-not-finite", what), where,
          "is no finite number; every product with it would be NaN or infinite");
  } else if (stored == 0) {
    error(fmt::format("zero-{}", what), where,
          what == "input-scale"
              ? "is zero, and something is divided by it: calibration did not reach this matrix; "
                "calibrate it, or multiply it by bf16 activations"
              : "is zero, and no matrix has such a factor; quantize it again");
  } else if (stored < 0) {
    error(fmt::format("negative-{}", what), where, "is negative; scales are positive");
  } else if (!std::isfinite(value) || value == 0) {
    error(fmt::format("{}-out-of-range", what), where, "has a reciprocal that fp32 does not hold");
  } else {
    return false;
  }
  return true;
}

void ValueChecks::check_factor(const BoundMatrix& matrix, bool mostly_large) {
  const StoredTensor& tensor = *matrix.stored.factor;
  const float factor = *matrix.factor;
  if (refuse(tensor, matrix.stored_factor, factor, "factor")) return;
  const std::string where = with_value(tensor, matrix.stored_factor);
  if (is_too_large(factor) && mostly_large && !is_too_large(1 / factor)) {
    error(
        "reciprocal-factor", where,
        fmt::format("would scale weights by more than 100, its reciprocal would be plausible, and "
                    "most matrices of this checkpoint are like that: it seems to hold upside down "
                    "what {} calls for",
                    matrix.stored.dialect->name));
  } else if (is_too_large(factor)) {
    error("factor-out-of-range", where,
          "would scale weights by more than 100; factors are amax / 2688, about 1e-5");
  } else if (factor < kSmallestFactor) {
    log_.add(Severity::kWarning, "factor-tiny", where,
             fmt::format("scales weights by less than {}; factors are amax / 2688, about 1e-5",
                         kSmallestFactor));
  }
}

void ValueChecks::check_factors() {
  std::uint64_t all = 0;
  std::uint64_t large = 0;
  for (const BoundMatrix& matrix : binding_.matrices()) {
    if (!matrix.factor) continue;
    ++all;
    large += std::isfinite(*matrix.factor) && is_too_large(*matrix.factor) ? 1 : 0;
  }
  for (const BoundMatrix& matrix : binding_.matrices()) {
    if (matrix.factor) check_factor(matrix, 2 * large > all);
  }
}

void ValueChecks::check_inputs() {
  for (const BoundMatrix& matrix : binding_.matrices()) {
    if (!matrix.input_scale) continue;
    const StoredTensor& tensor = *matrix.stored.input;
    if (refuse(tensor, matrix.stored_input, *matrix.input_scale, "input-scale")) continue;
    if (!is_too_large(*matrix.input_scale)) continue;
    error(
        "input-scale-out-of-range", with_value(tensor, matrix.stored_input),
        fmt::format("would scale activations by more than 100; it may be the reciprocal of what {} "
                    "calls for",
                    matrix.stored.dialect->name));
  }
}

void ValueChecks::check_kv_scales() {
  for (const KvScale& scale : binding_.kv_scales()) {
    if (std::isfinite(scale.value) && scale.value > 0) continue;
    error("kv-scale-out-of-range", fmt::format("{} = {}", scale.tensor, scale.value),
          "is no positive number; the KV cache would hold NaN or nothing");
  }
}

// Gate and up of one expert are quantized together (one factor) or apart. Apart is no fault, but a
// kernel that takes one factor for both is wrong by their ratio; a ratio unlike that of the other
// experts of a layer says that one of the two was changed after quantization.
void ValueChecks::check_gate_and_up() {
  const std::optional<ModelSpec>& model = binding_.checkpoint().model();
  if (!model || !model->moe) return;
  for (std::size_t layer = 0; layer < model->layers.size(); ++layer) {
    const std::vector<ExpertRatio> ratios = factor_ratios(binding_, layer);
    for (const ExpertRatio& ratio : ratios) {
      if (ratio.gate == ratio.up) continue;
      log_.add(Severity::kInfo, "gate-up-factors-differ", *ratio.name,
               "gate and up of this expert have factors of their own; nibble keeps both, an engine "
               "that takes one for both would be wrong");
    }
    for (const std::string* name : outliers(ratios)) {
      log_.add(Severity::kWarning, "gate-up-inconsistent", *name,
               "the ratio of gate's factor to up's is more than 8 times off that of the layer's "
               "other experts; one of them may have been changed after quantization");
    }
  }
}

}  // namespace

std::vector<ExpertRatio> factor_ratios(const Binding& binding, std::size_t layer) {
  std::vector<ExpertRatio> ratios;
  const std::int64_t experts = binding.checkpoint().model()->moe->experts;
  for (std::int64_t number = 0; number < experts; ++number) {
    const std::optional<ExpertBinding> expert = binding.expert(layer, number);
    if (!expert || expert->gate == expert->up) continue;
    const float gate = expert->gate->factor.value_or(0);
    const float up = expert->up->factor.value_or(0);
    if (!factor_fault(gate).empty() || !factor_fault(up).empty()) continue;  // told already
    ratios.push_back({&expert->gate->stored.name, gate, up});
  }
  return ratios;
}

std::vector<const std::string*> outliers(const std::vector<ExpertRatio>& ratios) {
  constexpr double kFarApart_log2 = 3;
  constexpr std::size_t kFewest = 3;  // of two nobody can say which is odd
  std::vector<std::pair<double, const std::string*>> usable;
  for (const ExpertRatio& ratio : ratios) {
    const double log_ratio = std::log2(ratio.gate / ratio.up);
    if (ratio.gate > 0 && ratio.up > 0 && std::isfinite(log_ratio)) {
      usable.emplace_back(log_ratio, ratio.name);
    }
  }
  if (usable.size() < kFewest) return {};
  std::vector<double> sorted;
  for (const auto& [log_ratio, name] : usable) sorted.push_back(log_ratio);
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  std::vector<const std::string*> odd;
  for (const auto& [log_ratio, name] : usable) {
    if (std::abs(log_ratio - median) > kFarApart_log2) odd.push_back(name);
  }
  return odd;
}

void check_values(const Binding& binding, FaultLog& log) {
  ValueChecks checks(binding, log);
  checks.check_factors();
  checks.check_inputs();
  checks.check_kv_scales();
  checks.check_gate_and_up();
}

}  // namespace nibble
