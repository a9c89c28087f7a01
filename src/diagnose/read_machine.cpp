// Facts of the machine out of a table of signals: means over the GPUs where nothing else is said.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/stats.h"
#include "diagnose/read_signals.h"

namespace nibble::diagnose {
namespace {

constexpr double kPercent = 0.01;

// One number of one GPU, by the GPU's name.
using OfGpu = std::optional<double> (*)(const SignalTable& table, const std::string& name);

std::optional<double> mean_of(const SignalTable& table, const std::string& name) {
  return table.mean(name);
}
std::optional<double> middle_of(const SignalTable& table, const std::string& name) {
  const auto gauge = table.gauge(name);
  return gauge ? std::optional(gauge->p50) : std::nullopt;
}
std::optional<double> most_of(const SignalTable& table, const std::string& name) {
  const auto gauge = table.gauge(name);
  return gauge ? std::optional(gauge->max) : std::nullopt;
}

// Bits of NVML's clock event reasons.
constexpr unsigned kPowerMask = 0x4U | 0x80U;  // software power cap, hardware power brake
constexpr unsigned kHeatMask = 0x20U | 0x40U;  // software and hardware thermal slowdown

class MachineFacts {
 public:
  MachineFacts(const SignalTable& table, const FactWriter& writer, Setting& setting)
      : table_(table), writer_(writer), setting_(setting), gpus_(table.gpus()) {}

  void put_all() {
    put(Fact::kPower, "power", mean_of, 1);
    put(Fact::kUtilization, "utilization", mean_of, kPercent);
    put(Fact::kSmActive, "sm_active", mean_of, kPercent);
    put(Fact::kTensor, "tensor_active", mean_of, kPercent);
    put(Fact::kDram, "dram_active", mean_of, kPercent);
    put(Fact::kSmClock, "clock_sm", mean_of, 1);
    put_throttling();
    put_extremes();
    put_spread();
    note_limits();
    const std::optional<double> cpu = table_.mean("cpu.utilization");
    writer_.put(Fact::kHostCpu, cpu ? std::optional(*cpu * kPercent) : std::nullopt,
                "cpu.utilization", table_.why_not("cpu.utilization"));
  }

 private:
  // Of every GPU that tells.
  std::vector<double> values(std::string_view quantity, OfGpu read) const {
    std::vector<double> all;
    for (const std::string& gpu : gpus_) {
      const auto value = read(table_, fmt::format("{}.{}", gpu, quantity));
      if (value && std::isfinite(*value)) all.push_back(*value);
    }
    return all;
  }

  std::string why_not(std::string_view quantity) const {
    if (gpus_.empty()) return table_.why_no_gpu();
    return table_.why_not(fmt::format("{}.{}", gpus_.front(), quantity));
  }

  void put(Fact fact, std::string_view quantity, OfGpu read, double factor) const {
    const std::vector<double> all = values(quantity, read);
    writer_.put(fact, all.empty() ? std::nullopt : std::optional(nibble::mean(all) * factor),
                fmt::format("gpuN.{}", quantity), why_not(quantity));
  }

  // Counters of one cause overlap, so that the largest is it.
  std::optional<double> held_down(std::initializer_list<std::string_view> counters) const {
    const double length_s = table_.window().length_s();
    std::vector<double> shares;
    for (const std::string& gpu : gpus_) {
      std::optional<double> most;
      for (const std::string_view counter : counters) {
        const auto rise = table_.rise(fmt::format("{}.{}", gpu, counter));
        if (rise) most = std::max(most.value_or(0), *rise);
      }
      if (most && length_s > 0) shares.push_back(std::min(1.0, *most / length_s));
    }
    if (shares.empty()) return std::nullopt;
    return nibble::mean(shares);
  }

  // The state in which most samples of a GPU found it: share of the GPUs held down by that cause.
  std::optional<double> by_masks(unsigned bits) const {
    const std::vector<double> masks = values("throttle_mask", middle_of);
    if (masks.empty()) return std::nullopt;
    const auto held = std::count_if(masks.begin(), masks.end(), [bits](double mask) {
      return mask >= 0 && mask <= 65535 && (static_cast<unsigned>(mask) & bits) != 0;
    });
    return static_cast<double>(held) / static_cast<double>(masks.size());
  }

  void put_throttling() const {
    std::optional<double> power = held_down({"throttle_power", "throttle_hw_power_brake"});
    std::optional<double> heat =
        held_down({"throttle_thermal", "throttle_sw_thermal", "throttle_hw_thermal"});
    std::string power_from = "gpuN.throttle_power";
    std::string heat_from = "gpuN.throttle_thermal";
    // Counters that stand still while the mask names a cause are not kept by that driver.
    if (power.value_or(0) + heat.value_or(0) == 0) {
      const auto masked_power = by_masks(kPowerMask);
      const auto masked_heat = by_masks(kHeatMask);
      if (masked_power && (!power || *masked_power + *masked_heat > 0)) {
        power = masked_power;
        heat = masked_heat;
        power_from = heat_from = "gpuN.throttle_mask, median";
      }
    }
    writer_.put(Fact::kThrottledPower, power, power_from, why_not("throttle_power"));
    writer_.put(Fact::kThrottledHeat, heat, heat_from, why_not("throttle_thermal"));
  }

  void put_extremes() const {
    const std::vector<double> heat = values("temperature", most_of);
    writer_.put(Fact::kTemperature,
                heat.empty() ? std::nullopt : std::optional(*std::ranges::max_element(heat)),
                "gpuN.temperature, most", why_not("temperature"));
    // A link that trains up under load shows its idle state in a sample or two: the median tells.
    for (const auto& [fact, quantity] : {std::pair{Fact::kLinkGeneration, "pcie_generation"},
                                         std::pair{Fact::kLinkWidth, "pcie_width"}}) {
      const std::vector<double> all = values(quantity, middle_of);
      writer_.put(fact, all.empty() ? std::nullopt : std::optional(*std::ranges::min_element(all)),
                  fmt::format("gpuN.{}, lowest", quantity), why_not(quantity));
    }
  }

  void put_spread() const {
    const std::vector<double> dram = values("dram_active", mean_of);
    std::optional<double> spread;
    std::string reason = why_not("dram_active");
    if (dram.size() == 1) reason = "one GPU has no spread";
    if (dram.size() > 1) {
      const auto [least, most] = std::ranges::minmax(dram);
      reason = "no GPU's memory was busy";
      if (most > 0) spread = (most - least) / most;
    }
    writer_.put(Fact::kGpuSpread, spread, "gpuN.dram_active", reason);
  }

  void note_most(std::optional<double>& number, std::string_view quantity, OfGpu read) const {
    const std::vector<double> all = values(quantity, read);
    if (number || all.empty()) return;
    const double most = *std::ranges::max_element(all);
    if (most > 0) number = most;
  }

  void note_limits() {
    if (gpus_.size() > 1 && setting_.gpus == 1) {
      setting_.gpus = static_cast<std::int64_t>(gpus_.size());
    }
    note_most(setting_.power_limit_w, "power_limit", mean_of);
    note_most(setting_.clock_mhz, "clock_sm_max", most_of);
    note_most(setting_.link_generation, "pcie_generation_max", most_of);
    note_most(setting_.link_width, "pcie_width_max", most_of);
    note_most(setting_.throttle_temperature_c, "temperature_slowdown", most_of);
  }

  const SignalTable& table_;
  const FactWriter& writer_;
  Setting& setting_;
  std::vector<std::string> gpus_;
};

}  // namespace

void put_machine_facts(const SignalTable& table, const FactWriter& writer, Setting& setting) {
  MachineFacts(table, writer, setting).put_all();
}

}  // namespace nibble::diagnose
