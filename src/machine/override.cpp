#include <functional>

#include "base/text.h"
#include "machine/fields.h"
#include "machine/spec.h"

namespace nibble {
namespace {

// A number that --set can reach: its path and how it is replaced.
struct Slot {
  std::string path;
  NumberRule rule;
  std::function<void(Sourced)> set;
};

// How much faster the chip's sparse rate is than its dense one.
double sparse_ratio(const Peak& peak) {
  constexpr double kUsual = 2;  // 2:4 sparsity skips half of the products
  if (!peak.sparse_tflops) return kUsual;
  return peak.sparse_tflops->value / peak.dense_tflops.value;
}

// A dense rate above the sparse one would contradict it: the sparse rate then follows by the chip's
// ratio.
void set_dense(Peak& peak, Sourced number) {
  const double ratio = sparse_ratio(peak);
  peak.dense_tflops = std::move(number);
  if (sparse_fault(peak).empty()) return;
  peak.sparse_tflops = {
      peak.dense_tflops.value * ratio, Provenance::kDerived,
      fmt::format("{:.4g} x the dense rate of {}", ratio, peak.dense_tflops.source)};
}

void add_peak_slots(MachineSpec& machine, std::vector<Slot>& slots) {
  for (const Precision precision : kPrecisions) {
    const std::string prefix = fmt::format("peaks.{}", to_string(precision));
    // A dense peak may be added: a machine "with fp4" is a fair question.
    slots.push_back({prefix + ".dense_tflops", rules::kPeak, [&machine, precision](Sourced number) {
                       set_dense(machine.peaks[precision], std::move(number));
                     }});
    if (machine.peak(precision) == nullptr) continue;
    slots.push_back(
        {prefix + ".sparse_tflops", rules::kPeak, [&machine, precision](Sourced number) {
           machine.peaks[precision].sparse_tflops = std::move(number);
         }});
  }
}

void add_link_slots(MachineSpec& machine, std::vector<Slot>& slots) {
  for (std::size_t index = 0; index < machine.links.size(); ++index) {
    const std::string prefix = fmt::format("links.{}", index);
    slots.push_back(
        {prefix + ".bandwidth_gb_s", rules::kBandwidth, [&machine, index](Sourced number) {
           machine.links[index].bandwidth_gb_s = std::move(number);
         }});
    slots.push_back(
        {prefix + ".latency_us", rules::kMicroseconds, [&machine, index](Sourced number) {
           machine.links[index].latency_us = std::move(number);
         }});
  }
}

std::vector<Slot> slots_of(MachineSpec& machine) {
  std::vector<Slot> slots;
  slots.push_back({"bandwidth_gb_s", rules::kBandwidth,
                   [&machine](Sourced number) { machine.bandwidth_gb_s = std::move(number); }});
  slots.push_back({"memory_gb", rules::kMemory,
                   [&machine](Sourced number) { machine.memory_gb = std::move(number); }});
  for (const MachineField& field : kMachineFields) {
    slots.push_back({field.key, field.rule, [&machine, member = field.member](Sourced number) {
                       machine.*member = std::move(number);
                     }});
  }
  add_peak_slots(machine, slots);
  add_link_slots(machine, slots);
  for (const PowerField& field : kPowerFields) {
    slots.push_back({fmt::format("power.{}", field.key), rules::kWatts,
                     [&machine, member = field.member](Sourced number) {
                       machine.power.*member = std::move(number);
                     }});
  }
  return slots;
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

// The number at `path` is in its range; it may still contradict another one.
Result<> check_agreement(const MachineSpec& machine, std::string_view path) {
  const std::string shared = shared_memory_fault(machine);
  if (!shared.empty() && path == "shared_per_block_bytes") {
    return usage_error("{} {}", path, shared);
  }
  if (!shared.empty() && path == "shared_per_sm_bytes") {
    return usage_error("{} is {}, and shared_per_block_bytes {}; lower that one first", path,
                       machine.shared_per_sm_bytes->value, shared);
  }
  for (const auto& [precision, peak] : machine.peaks) {
    const std::string sparse = sparse_fault(peak);
    if (!sparse.empty() && path == fmt::format("peaks.{}.sparse_tflops", to_string(precision))) {
      return usage_error("{} {}", path, sparse);
    }
  }
  return {};
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
  MachineSpec changed = machine;  // a refused number leaves the machine as it was
  for (const Slot& slot : slots_of(changed)) {
    if (slot.path != path) continue;
    if (const std::string fault = number_fault(value, slot.rule); !fault.empty()) {
      return usage_error("{} {}", path, fault);
    }
    slot.set(Sourced{value, Provenance::kGiven, std::string(source)});
    NIBBLE_RETURN_IF_ERROR(check_agreement(changed, path));
    machine = std::move(changed);
    return {};
  }
  const std::vector<std::string> paths = settable_paths(machine);
  const std::string near = did_you_mean(path, paths);
  return usage_error("{} has no number \"{}\"{}", machine.name, path,
                     near.empty() ? "; the numbers are: " + join(paths, ", ") : near);
}

Result<> set_peak(MachineSpec& machine, Precision precision, double quoted_tflops, PeakIs is,
                  bool scale_others, std::string_view source) {
  if (const std::string fault = number_fault(quoted_tflops, rules::kPeak); !fault.empty()) {
    return usage_error("the quoted {} peak {}", to_string(precision), fault);
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
