// One GPU as NVML lets it be read while it works: power, energy, clocks, throttling, links, and the
// performance counters of GPM. Every reading is a number or the reason why there is none.
//
//   auto nvml = std::make_shared<const Nvml>(Nvml::open());
//   NIBBLE_ASSIGN_OR_RETURN(const NvmlDevice gpu, NvmlDevice::open(nvml, 0));
//   const Result<double> watts = gpu.field({nvml_abi::kFieldPowerInstant});   // milliwatts
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "machine/nvml.h"
#include "machine/nvml_abi.h"

namespace nibble {

struct NvmlField {
  unsigned id = 0;
  unsigned scope = 0;
};

// All numbers are in NVML's own units. Calls may come from several threads at once, and any of
// them may block for as long as the driver likes.
class NvmlDevice {
 public:
  static Result<NvmlDevice> open(std::shared_ptr<const Nvml> nvml, int index);
  // By its place on the bus, "0000:1b:00.0": CUDA numbers GPUs in its own order.
  static Result<NvmlDevice> open_at(std::shared_ptr<const Nvml> nvml, const std::string& pci);

  int index() const { return index_; }
  const std::string& title() const { return title_; }

  // One call for all of them; each field has its own answer.
  std::vector<Result<double>> fields(std::span<const NvmlField> wanted) const;
  Result<double> field(NvmlField wanted) const;

  Result<double> energy_mj() const;  // since the driver was loaded
  Result<double> power_mw() const;   // nvmlDeviceGetPowerUsage
  Result<double> power_limit_mw() const;
  Result<double> clock_mhz(int clock) const;  // nvml_abi::kClockSm, kClockMemory
  Result<double> temperature_c() const;
  Result<nvml_abi::Utilization> utilization() const;
  Result<double> clock_event_reasons() const;  // a mask
  Result<nvml_abi::Memory> memory() const;
  Result<double> pcie_generation() const;
  Result<double> pcie_width() const;
  // What the board and its slot can do; these do not change while it works.
  Result<double> pcie_generation_max() const;
  Result<double> pcie_width_max() const;
  Result<double> clock_mhz_max(int clock) const;
  Result<double> temperature_slowdown_c() const;
  Result<double> pcie_kb_s(int direction) const;  // blocks for 20 ms and more

 private:
  friend class GpmReader;
  struct Table;

  NvmlDevice() = default;
  static Result<NvmlDevice> of(std::shared_ptr<const Nvml> nvml);
  void read_title();
  Result<> check(std::optional<int> code, const char* what) const;
  Result<double> answer(const nvml_abi::FieldValue& value) const;
  Result<double> answer(const nvml_abi::GpmMetric& metric) const;
  template <class Out>
  Result<double> number(int (*function)(nvml_abi::Device, Out*), const char* what) const;
  // Of a reading that has several: a clock, a sensor, a direction.
  Result<double> number_of(int (*function)(nvml_abi::Device, int, unsigned*), const char* what,
                           int which) const;

  std::shared_ptr<const Nvml> nvml_;
  std::shared_ptr<const Table> table_;
  nvml_abi::Device device_ = nullptr;
  int index_ = 0;
  std::string title_;
};

// GPM: shares of time or of peak between two samples of the hardware's counters. Needs no
// privileges; samples nearer than 100 ms give NaN, so that nothing is read before kGpmSpacing.
class GpmReader {
 public:
  static constexpr Nanoseconds kGpmSpacing = 110'000'000;

  // The reason when this GPU, or its driver, has no GPM.
  static Result<GpmReader> open(const NvmlDevice& device);
  ~GpmReader();
  GpmReader(GpmReader&& other) noexcept;
  GpmReader& operator=(GpmReader&&) = delete;

  // The metrics (GPM numbers, as 10 for DRAM) from the last sample to now. nullopt: this was the
  // first sample, or too little time has passed since the last one.
  Result<std::optional<std::vector<Result<double>>>> read(std::span<const unsigned> metrics,
                                                          Nanoseconds now);

 private:
  explicit GpmReader(NvmlDevice device) : device_(std::move(device)) {}

  NvmlDevice device_;
  std::array<nvml_abi::Sample, 2> samples_{};
  int newest_ = -1;  // none yet
  Nanoseconds taken_ = 0;
  std::unique_ptr<nvml_abi::GpmMetricsGet> request_;
};

}  // namespace nibble
