#include "telemetry/nvml_source.h"

#include <array>
#include <optional>

#include "base/text.h"
#include "telemetry/nvml_limits.h"

namespace nibble::telemetry {
namespace {

using namespace nvml_abi;

// Readings that are declared once and then added or marked, each alone.
class Readings {
 public:
  Readings(SampleStore& store, const NvmlDevice& device)
      : store_(store), owner_(fmt::format("gpu{}", device.index())) {}

  std::size_t declare(Signal signal) {
    signal.name = fmt::format("{}.{}", owner_, signal.name);
    ids_.push_back(store_.declare(std::move(signal)));
    return ids_.size() - 1;
  }
  // The answer times `unit`; an error marks this signal alone.
  void add(std::size_t which, Nanoseconds at, const Result<double>& answer, double unit = 1) {
    if (answer) {
      store_.add(ids_[which], at, *answer * unit);
      ++given_;
    } else {
      store_.set_unavailable(ids_[which], answer.error().message);
      error_ = answer.error();
    }
  }
  void unavailable(std::size_t which, std::string_view reason) {
    store_.set_unavailable(ids_[which], reason);
  }
  // An error when nothing came since the last call of this.
  Result<> outcome() {
    const bool any = std::exchange(given_, 0) > 0;
    if (any || !error_) return {};
    return *std::exchange(error_, std::nullopt);
  }
  const std::vector<SignalId>& ids() const { return ids_; }
  const std::string& owner() const { return owner_; }

 private:
  SampleStore& store_;
  std::string owner_;
  std::vector<SignalId> ids_;
  int given_ = 0;
  std::optional<Error> error_;
};

class NvmlSource : public Source {
 public:
  NvmlSource(NvmlDevice device, SampleStore& store, SourceInfo info)
      : device_(std::move(device)), readings_(store, device_), info_(std::move(info)) {
    info_.name = fmt::format("{} of {}", info_.name, readings_.owner());
  }
  SourceInfo info() const override { return info_; }
  std::vector<SignalId> signals() const override { return readings_.ids(); }

 protected:
  NvmlDevice device_;
  Readings readings_;

 private:
  SourceInfo info_;
};

// More than any board draws; a driver that fails says 4,294,967,295 mW.
constexpr double kMostWatts = 5000;

class PowerSource : public NvmlSource {
 public:
  PowerSource(NvmlDevice device, SampleStore& store)
      : NvmlSource(std::move(device), store, {"power", "nvml", kPowerPeriod}) {
    readings_.declare({.name = "power",
                       .unit = "W",
                       .source = "NVML field 186 (instant)",
                       .low = 0,
                       .high = kMostWatts});
    readings_.declare({.name = "power_average",
                       .unit = "W",
                       .source = "NVML field 185 (trailing average)",
                       .low = 0,
                       .high = kMostWatts});
  }
  Result<> sample() override {
    constexpr std::array<NvmlField, 2> kWanted = {{{kFieldPowerInstant}, {kFieldPowerAverage}}};
    const Nanoseconds at = monotonic_now();
    const std::vector<Result<double>> answers = device_.fields(kWanted);
    readings_.add(0, at, answers[0], 1e-3);
    readings_.add(1, at, answers[1], 1e-3);
    return readings_.outcome();
  }
};

class EnergySource : public NvmlSource {
 public:
  // A lane of its own: the call takes milliseconds, and power must not wait for it.
  EnergySource(NvmlDevice device, SampleStore& store)
      : NvmlSource(std::move(device), store, {"energy counter", "nvml energy", kEnergyPeriod}) {
    readings_.declare({.name = "energy",
                       .unit = "J",
                       .source = "NVML total energy",
                       .kind = SignalKind::kCounter,
                       .low = 0});
  }
  Result<> sample() override {
    const Nanoseconds begin = monotonic_now();
    const Result<double> energy = device_.energy_mj();
    // Some time within the call; its middle is off by half of it at most.
    readings_.add(0, begin + (monotonic_now() - begin) / 2, energy, 1e-3);
    return readings_.outcome();
  }
};

// Blocks for 20 ms and more; only for devices whose byte counters NVML does not give.
class PcieRateSource : public NvmlSource {
 public:
  PcieRateSource(NvmlDevice device, SampleStore& store)
      : NvmlSource(std::move(device), store, {"PCIe throughput", "nvml pcie", kStatePeriod}) {
    for (const char* name : {"pcie_tx_rate", "pcie_rx_rate"}) {
      readings_.declare({.name = name,
                         .unit = "B/s",
                         .source = "NVML PCIe throughput (20 ms)",
                         .low = 0,
                         .high = 1e12});
    }
  }
  Result<> sample() override {
    const Result<double> transmitted = device_.pcie_kb_s(kPcieTransmit);
    readings_.add(0, monotonic_now(), transmitted, 1e3);
    const Result<double> received = device_.pcie_kb_s(kPcieReceive);
    readings_.add(1, monotonic_now(), received, 1e3);
    return readings_.outcome();
  }
};

// Fields that are counters, with what one of their units is in ours.
struct CounterField {
  const char* name;
  const char* unit;
  NvmlField field;
  double scale;
};
constexpr std::array<CounterField, 9> kCounters = {{
    {"throttle_power", "s", {kFieldThrottlePower}, 1e-9},
    {"throttle_thermal", "s", {kFieldThrottleThermal}, 1e-9},
    {"throttle_sync_boost", "s", {kFieldThrottleSyncBoost}, 1e-9},
    {"throttle_board_limit", "s", {kFieldThrottleBoard}, 1e-9},
    {"throttle_reliability", "s", {kFieldThrottleReliability}, 1e-9},
    {"pcie_tx", "B", {kFieldPcieTransmitted}, 1},
    {"pcie_rx", "B", {kFieldPcieReceived}, 1},
    {"nvlink_tx", "B", {kFieldNvlinkTransmitted, kAllLinks}, 1024},
    {"nvlink_rx", "B", {kFieldNvlinkReceived, kAllLinks}, 1024},
}};
constexpr std::array<const char*, 3> kSlowdowns = {"throttle_sw_thermal", "throttle_hw_thermal",
                                                   "throttle_hw_power_brake"};

// Which numbers the slowdown counters have on this driver, or why that cannot be known: under the
// other numbering the same numbers are settings of power smoothing.
Result<unsigned> slowdown_numbering(const NvmlDevice& device) {
  const auto all_there = [&](unsigned base) {
    const std::array<NvmlField, 3> wanted = {{{base}, {base + 1}, {base + 2}}};
    for (const Result<double>& answer : device.fields(wanted)) {
      if (!answer) return false;
    }
    return true;
  };
  const bool since = all_there(kFieldSlowdownsSince580);
  const bool before = all_there(kFieldSlowdownsBefore580);
  if (since && before) {
    return run_error("fields 251 to 253 and 269 to 271 both answer; which are counters is unclear");
  }
  if (since) return kFieldSlowdownsSince580;
  if (before) return kFieldSlowdownsBefore580;
  return run_error("neither fields 269 to 271 nor 251 to 253 answer");
}

class StateSource : public NvmlSource {
 public:
  StateSource(NvmlDevice device, SampleStore& store)
      : NvmlSource(std::move(device), store, {"state", "nvml", kStatePeriod}) {
    gauge("clock_sm", "MHz", 10000);
    gauge("clock_memory", "MHz", 30000);
    gauge("temperature", "C", 150);
    gauge("utilization", "%", 100);  // some kernel was resident; says nothing about its work
    gauge("utilization_memory", "%", 100);
    gauge("throttle_mask", "", 65535);
    gauge("memory_used", "B", 1e14);
    gauge("pcie_generation", "", 10);
    gauge("pcie_width", "", 32);
    gauge("power_limit", "W", kMostWatts);
    for (const BoardLimit& limit : kBoardLimits) gauge(limit.name, limit.unit, limit.high);
    first_counter_ = readings_.ids().size();
    for (const CounterField& counter : kCounters) {
      declare_counter(counter.name, counter.unit);
      fields_.push_back(counter.field);
      scales_.push_back(counter.scale);
    }
    for (const char* name : kSlowdowns) declare_counter(name, "s");
  }

  Result<> sample() override {
    Nanoseconds at = monotonic_now();
    std::size_t which = 0;
    readings_.add(which++, at, device_.clock_mhz(kClockSm));
    readings_.add(which++, at, device_.clock_mhz(kClockMemory));
    readings_.add(which++, at, device_.temperature_c());
    const Result<Utilization> rates = device_.utilization();
    readings_.add(which++, at, rates ? Result<double>(rates->gpu) : rates.error());
    readings_.add(which++, at, rates ? Result<double>(rates->memory) : rates.error());
    readings_.add(which++, at, device_.clock_event_reasons());
    const Result<Memory> memory = device_.memory();
    readings_.add(which++, at,
                  memory ? Result<double>(static_cast<double>(memory->used)) : memory.error());
    readings_.add(which++, at, device_.pcie_generation());
    readings_.add(which++, at, device_.pcie_width());
    readings_.add(which++, at, device_.power_limit_mw(), 1e-3);
    for (std::size_t limit = 0; limit < kBoardLimits.size(); ++limit) {
      readings_.add(which++, at, limits_.read(limit, device_));
    }
    find_slowdowns();
    at = monotonic_now();
    const std::vector<Result<double>> answers = device_.fields(fields_);
    for (std::size_t field = 0; field < answers.size(); ++field) {
      readings_.add(first_counter_ + field, at, answers[field], scales_[field]);
    }
    return readings_.outcome();
  }

 private:
  void gauge(const char* name, const char* unit, double high) {
    readings_.declare({.name = name, .unit = unit, .source = "NVML", .low = 0, .high = high});
  }
  void declare_counter(const char* name, const char* unit) {
    readings_.declare({.name = name,
                       .unit = unit,
                       .source = "NVML counter",
                       .kind = SignalKind::kCounter,
                       .low = 0});
  }
  // Once, at the first sample.
  void find_slowdowns() {
    if (std::exchange(slowdowns_sought_, true)) return;
    const Result<unsigned> base = slowdown_numbering(device_);
    for (unsigned at = 0; at < kSlowdowns.size(); ++at) {
      if (base) {
        fields_.push_back({*base + at});
        scales_.push_back(1e-9);
      } else {
        readings_.unavailable(first_counter_ + kCounters.size() + at, base.error().message);
      }
    }
  }

  std::size_t first_counter_ = 0;
  std::vector<NvmlField> fields_;
  std::vector<double> scales_;
  bool slowdowns_sought_ = false;
  BoardLimits limits_;
};

struct GpmMetricName {
  unsigned id;
  const char* name;
  const char* unit;
  double scale;
  double high;
};
constexpr double kMebibyte = 1024.0 * 1024.0;
// A share may come out at little above 100 by the jitter of two clocks.
constexpr double kMostShare = 105;
constexpr std::array<GpmMetricName, 13> kGpmMetrics = {{
    {2, "sm_active", "%", 1, kMostShare},
    {3, "sm_occupancy", "%", 1, kMostShare},
    {5, "tensor_active", "%", 1, kMostShare},
    {7, "tensor_half_active", "%", 1, kMostShare},
    {9, "tensor_integer_active", "%", 1, kMostShare},
    {10, "dram_active", "%", 1, kMostShare},
    {11, "fp64_active", "%", 1, kMostShare},
    {12, "fp32_active", "%", 1, kMostShare},
    {13, "fp16_active", "%", 1, kMostShare},
    {20, "gpm_pcie_tx", "B/s", kMebibyte, 1e12},
    {21, "gpm_pcie_rx", "B/s", kMebibyte, 1e12},
    {60, "gpm_nvlink_rx", "B/s", kMebibyte, 1e13},
    {61, "gpm_nvlink_tx", "B/s", kMebibyte, 1e13},
}};

class GpmSource : public NvmlSource {
 public:
  GpmSource(NvmlDevice device, SampleStore& store)
      : NvmlSource(std::move(device), store, {"GPM", "nvml", kGpmPeriod}) {
    for (const GpmMetricName& metric : kGpmMetrics) {
      readings_.declare({.name = metric.name,
                         .unit = metric.unit,
                         .source = fmt::format("NVML GPM {}", metric.id),
                         .low = 0,
                         .high = metric.high});
      ids_.push_back(metric.id);
    }
    Result<GpmReader> reader = GpmReader::open(device_);
    if (reader) {
      reader_.emplace(std::move(reader).value());
      return;
    }
    reason_ = reader.error().message;
    for (std::size_t which = 0; which < ids_.size(); ++which) {
      readings_.unavailable(which, reason_);
    }
  }

  Result<> sample() override {
    if (!reader_) return run_error("{}", reason_);
    const Nanoseconds at = monotonic_now();
    const auto read = reader_->read(ids_, at);
    if (!read) return read.error();
    if (!read->has_value()) return {};
    const std::vector<Result<double>>& answers = **read;
    for (std::size_t which = 0; which < answers.size(); ++which) {
      readings_.add(which, at, answers[which], kGpmMetrics[which].scale);
    }
    return readings_.outcome();
  }

 private:
  std::vector<unsigned> ids_;
  std::optional<GpmReader> reader_;
  std::string reason_;
};

// Whether NVML counts the bytes of the PCIe link, or must be asked for a rate.
bool counts_pcie_bytes(const NvmlDevice& device) {
  return device.field({kFieldPcieTransmitted}).ok();
}

}  // namespace

std::vector<std::unique_ptr<Source>> nvml_sources(const std::shared_ptr<const Nvml>& nvml,
                                                  SampleStore& store) {
  std::vector<std::unique_ptr<Source>> sources;
  const auto absent = [&store](const std::string& name, const std::string& reason) {
    store.declare({.name = name + ".power",
                   .unit = "W",
                   .source = "NVML",
                   .available = false,
                   .reason = reason});
  };
  if (!nvml || !nvml->ready()) {
    absent("gpu", nvml ? nvml->reason() : "NVML was not opened");
    return sources;
  }
  if (nvml->device_count() == 0) absent("gpu", "NVML is there and counts no GPU");
  for (int index = 0; index < nvml->device_count(); ++index) {
    const Result<NvmlDevice> device = NvmlDevice::open(nvml, index);
    if (!device) {
      absent(fmt::format("gpu{}", index), device.error().message);
      continue;
    }
    sources.push_back(std::make_unique<PowerSource>(*device, store));
    sources.push_back(std::make_unique<EnergySource>(*device, store));
    sources.push_back(std::make_unique<StateSource>(*device, store));
    sources.push_back(std::make_unique<GpmSource>(*device, store));
    if (!counts_pcie_bytes(*device)) {
      sources.push_back(std::make_unique<PcieRateSource>(*device, store));
    }
  }
  return sources;
}

std::string throttle_text(unsigned long long mask) {
  std::vector<std::string> causes;
  const auto cause = [&](unsigned long long bit, const char* name) {
    if ((mask & bit) != 0) causes.emplace_back(name);
  };
  cause(0x4, "power cap");
  cause(0x8, "hardware slowdown");
  cause(0x20, "thermal");
  cause(0x40, "hardware thermal");
  cause(0x80, "power brake");
  return join(causes, ", ");
}

}  // namespace nibble::telemetry
