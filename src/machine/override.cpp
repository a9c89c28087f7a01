#include <cmath>
#include <functional>

#include "base/text.h"
#include "machine/fields.h"
#include "machine/spec.h"

namespace nibble {
namespace {

// A number that --set can reach: its path and how it is replaced.
struct Slot {
  std::string path;
  bool may_be_zero = false;
  std::function<void(Sourced)> set;
};

void add_peak_slots(MachineSpec& machine, std::vector<Slot>& slots) {
  for (const Precision precision : kPrecisions) {
    const std::string prefix = fmt::format("peaks.{}", to_string(precision));
    // A dense peak may be added: a machine "with fp4" is a fair question.
    slots.push_back({prefix + ".dense_tflops", false, [&machine, precision](Sourced number) {
                       machine.peaks[precision].dense_tflops = std::move(number);
                     }});
    if (machine.peak(precision) == nullptr) continue;
    slots.push_back({prefix + ".sparse_tflops", false, [&machine, precision](Sourced number) {
                       machine.peaks[precision].sparse_tflops = std::move(number);
                     }});
  }
}

void add_link_slots(MachineSpec& machine, std::vector<Slot>& slots) {
  for (std::size_t index = 0; index < machine.links.size(); ++index) {
    const std::string prefix = fmt::format("links.{}", index);
    slots.push_back({prefix + ".bandwidth_gb_s", false, [&machine, index](Sourced number) {
                       machine.links[index].bandwidth_gb_s = std::move(number);
                     }});
    slots.push_back({prefix + ".latency_us", true, [&machine, index](Sourced number) {
                       machine.links[index].latency_us = std::move(number);
                     }});
  }
}

std::vector<Slot> slots_of(MachineSpec& machine) {
  std::vector<Slot> slots;
  slots.push_back({"bandwidth_gb_s", false,
                   [&machine](Sourced number) { machine.bandwidth_gb_s = std::move(number); }});
  slots.push_back(
      {"memory_gb", false, [&machine](Sourced number) { machine.memory_gb = std::move(number); }});
  for (const MachineField& field : kMachineFields) {
    slots.push_back({field.key, false, [&machine, member = field.member](Sourced number) {
                       machine.*member = std::move(number);
                     }});
  }
  add_peak_slots(machine, slots);
  add_link_slots(machine, slots);
  for (const PowerField& field : kPowerFields) {
    slots.push_back({fmt::format("power.{}", field.key), false,
                     [&machine, member = field.member](Sourced number) {
                       machine.power.*member = std::move(number);
                     }});
  }
  return slots;
}

// How much faster the chip's sparse rate is than its dense one.
double sparse_ratio(const Peak& peak) {
  constexpr double kUsual = 2;  // 2:4 sparsity skips half of the products
  if (!peak.sparse_tflops) return kUsual;
  return peak.sparse_tflops->value / peak.dense_tflops.value;
}

void scale(Sourced& number, double factor, std::string_view why) {
  number.source = fmt::format("{} x {:.4g}: {}", number.value, factor, why);
  number.value *= factor;
  number.provenance = Provenance::kDerived;
}

void scale(Peak& peak, double factor, std::string_view why) {
  scale(peak.dense_tflops, factor, why);
  if (peak.sparse_tflops) scale(*peak.sparse_tflops, factor, why);
}

std::string peak_names(const MachineSpec& machine) {
  std::vector<std::string> names;
  for (const Precision precision : kPrecisions) {
    if (machine.peak(precision) != nullptr) names.emplace_back(to_string(precision));
  }
  return join(names, ", ");
}

}  // namespace

std::vector<std::string> settable_paths(const MachineSpec& machine) {
  MachineSpec copy = machine;
  std::vector<std::string> paths;
  for (const Slot& slot : slots_of(copy)) paths.push_back(slot.path);
  return paths;
}

Result<> set_number(MachineSpec& machine, std::string_view path, double value,
                    std::string_view source) {
  for (const Slot& slot : slots_of(machine)) {
    if (slot.path != path) continue;
    const NumberRange range = slot.may_be_zero ? kLatency : kPositive;
    const bool zero_is_fine = slot.may_be_zero && value == 0;
    if (!std::isfinite(value) || (value <= 0 && !zero_is_fine)) {
      return usage_error("{} is {}; give a number {}", path, value,
                         slot.may_be_zero ? "of at least 0" : "above 0");
    }
    if (value < range.min || value > range.max) {
      return usage_error("{} is {}; give a number from {} to {}", path, value, range.min,
                         range.max);
    }
    slot.set(Sourced{value, Provenance::kGiven, std::string(source)});
    return {};
  }
  const std::vector<std::string> paths = settable_paths(machine);
  const std::string near = did_you_mean(path, paths);
  return usage_error("{} has no number \"{}\"{}", machine.name, path,
                     near.empty() ? "; the numbers are: " + join(paths, ", ") : near);
}

Result<> set_peak(MachineSpec& machine, Precision precision, double quoted_tflops, PeakIs is,
                  bool scale_others, std::string_view source) {
  if (!std::isfinite(quoted_tflops) || quoted_tflops <= 0 || quoted_tflops > kPositive.max) {
    return usage_error("the quoted {} peak is {}; give TFLOPS above 0", to_string(precision),
                       quoted_tflops);
  }
  if (machine.peak(precision) == nullptr) {
    return usage_error("{} has no {} peak to replace; it has {}", machine.name,
                       to_string(precision), peak_names(machine));
  }
  Peak& peak = machine.peaks[precision];
  const double ratio = sparse_ratio(peak);
  const double dense = is == PeakIs::kSparse ? quoted_tflops / ratio : quoted_tflops;
  const double factor = dense / peak.dense_tflops.value;
  const std::string how =
      is == PeakIs::kSparse
          ? fmt::format("{}: {} TFLOPS meant sparse, / {:.4g}", source, quoted_tflops, ratio)
          : fmt::format("{}: {} TFLOPS meant dense", source, quoted_tflops);
  peak.dense_tflops = {dense, Provenance::kGiven, how};
  if (peak.sparse_tflops) peak.sparse_tflops = {dense * ratio, Provenance::kGiven, how};
  if (!scale_others) return {};
  const std::string why = fmt::format("the {} peak of {} implies this clock for all precisions",
                                      to_string(precision), source);
  for (auto& [other, other_peak] : machine.peaks) {
    if (other != precision) scale(other_peak, factor, why);
  }
  return {};
}

}  // namespace nibble
