#include "machine/nvml_device.h"

#include <cmath>
#include <utility>

namespace nibble {

using namespace nvml_abi;

std::optional<double> nvml_abi::number(const FieldValue& field) {
  const Value& value = field.value;
  switch (field.value_type) {
    case kDouble:
      return value.as_double;
    case kUnsigned:
      return value.as_unsigned;
    case kUnsignedLong:
      return static_cast<double>(value.as_unsigned_long);
    case kUnsignedLongLong:
      return static_cast<double>(value.as_unsigned_long_long);
    case kSignedLongLong:
      return static_cast<double>(value.as_signed_long_long);
    case kSigned:
      return value.as_signed;
    case kUnsignedShort:
      return value.as_unsigned_short;
    default:
      return std::nullopt;
  }
}

// The library's functions; those that a driver lacks are null.
struct NvmlDevice::Table {
  int (*field_values)(Device, int, FieldValue*);
  int (*total_energy)(Device, unsigned long long*);
  int (*power_usage)(Device, unsigned*);
  int (*power_limit)(Device, unsigned*);
  int (*clock_info)(Device, int, unsigned*);
  int (*temperature)(Device, int, unsigned*);
  int (*utilization_rates)(Device, Utilization*);
  int (*event_reasons)(Device, unsigned long long*);
  int (*memory_info)(Device, Memory*);
  int (*link_generation)(Device, unsigned*);
  int (*link_width)(Device, unsigned*);
  int (*most_link_generation)(Device, unsigned*);
  int (*most_link_width)(Device, unsigned*);
  int (*most_clock)(Device, int, unsigned*);
  int (*temperature_threshold)(Device, int, unsigned*);
  int (*pcie_throughput)(Device, int, unsigned*);
  int (*gpm_support)(Device, GpmSupport*);
  int (*gpm_alloc)(Sample*);
  int (*gpm_free)(Sample);
  int (*gpm_sample)(Device, Sample);
  int (*gpm_metrics)(GpmMetricsGet*);

  explicit Table(const DynamicLibrary& library) {
    const auto find = [&](auto*& function, const char* name) {
      function = library.symbol<std::remove_reference_t<decltype(*function)>>(name);
    };
    find(field_values, "nvmlDeviceGetFieldValues");
    find(total_energy, "nvmlDeviceGetTotalEnergyConsumption");
    find(power_usage, "nvmlDeviceGetPowerUsage");
    find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    find(clock_info, "nvmlDeviceGetClockInfo");
    find(temperature, "nvmlDeviceGetTemperature");
    find(utilization_rates, "nvmlDeviceGetUtilizationRates");
    find(event_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
    if (event_reasons == nullptr) {  // its name before driver 535
      find(event_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
    find(memory_info, "nvmlDeviceGetMemoryInfo");
    find(link_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    find(link_width, "nvmlDeviceGetCurrPcieLinkWidth");
    find(most_link_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
    find(most_link_width, "nvmlDeviceGetMaxPcieLinkWidth");
    find(most_clock, "nvmlDeviceGetMaxClockInfo");
    find(temperature_threshold, "nvmlDeviceGetTemperatureThreshold");
    find(pcie_throughput, "nvmlDeviceGetPcieThroughput");
    find(gpm_support, "nvmlGpmQueryDeviceSupport");
    find(gpm_alloc, "nvmlGpmSampleAlloc");
    find(gpm_free, "nvmlGpmSampleFree");
    find(gpm_sample, "nvmlGpmSampleGet");
    find(gpm_metrics, "nvmlGpmMetricsGet");
  }
};

namespace {

template <class... Parameters, class... Values>
std::optional<int> call(int (*function)(Parameters...), Values... values) {
  if (function == nullptr) return std::nullopt;
  return function(values...);
}

}  // namespace

Result<> NvmlDevice::check(std::optional<int> code, const char* what) const {
  if (code == kSuccess) return {};
  if (!code) return run_error("{}: this driver has no such call", what);
  return run_error("{}: {}", what, nvml_->error_text(*code));
}

template <class Out>
Result<double> NvmlDevice::number(int (*function)(Device, Out*), const char* what) const {
  Out value = 0;
  NIBBLE_RETURN_IF_ERROR(check(call(function, device_, &value), what));
  return static_cast<double>(value);
}

Result<double> NvmlDevice::number_of(int (*function)(Device, int, unsigned*), const char* what,
                                     int which) const {
  unsigned value = 0;
  NIBBLE_RETURN_IF_ERROR(check(call(function, device_, which, &value), what));
  return static_cast<double>(value);
}

Result<NvmlDevice> NvmlDevice::of(std::shared_ptr<const Nvml> nvml) {
  if (!nvml || !nvml->ready()) {
    return run_error("NVML is not there: {}", nvml ? nvml->reason() : "it was never opened");
  }
  NvmlDevice device;
  device.nvml_ = std::move(nvml);
  device.table_ = std::make_shared<const Table>(device.nvml_->library());
  return device;
}

void NvmlDevice::read_title() {
  std::array<char, kNameBytes> name{};
  auto* get_name = nvml_->library().symbol<int(Device, char*, unsigned)>("nvmlDeviceGetName");
  if (call(get_name, device_, name.data(), kNameBytes - 1) == kSuccess) title_ = name.data();
}

Result<NvmlDevice> NvmlDevice::open(std::shared_ptr<const Nvml> nvml, int index) {
  NIBBLE_ASSIGN_OR_RETURN(NvmlDevice device, of(std::move(nvml)));
  device.index_ = index;
  auto* by_index =
      device.nvml_->library().symbol<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
  NIBBLE_RETURN_IF_ERROR(
      device.check(call(by_index, static_cast<unsigned>(index), &device.device_), "device handle"));
  device.read_title();
  return device;
}

Result<NvmlDevice> NvmlDevice::open_at(std::shared_ptr<const Nvml> nvml, const std::string& pci) {
  NIBBLE_ASSIGN_OR_RETURN(NvmlDevice device, of(std::move(nvml)));
  const DynamicLibrary& library = device.nvml_->library();
  auto* by_place = library.symbol<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  NIBBLE_RETURN_IF_ERROR(device.check(call(by_place, pci.c_str(), &device.device_),
                                      "device handle by its place on the bus"));
  unsigned index = 0;
  auto* get_index = library.symbol<int(Device, unsigned*)>("nvmlDeviceGetIndex");
  if (call(get_index, device.device_, &index) == kSuccess) {
    device.index_ = static_cast<int>(index);
  }
  device.read_title();
  return device;
}

Result<double> NvmlDevice::answer(const FieldValue& value) const {
  if (value.status != kSuccess) {
    return run_error("field {}: {}", value.field_id, nvml_->error_text(value.status));
  }
  const std::optional<double> plain = nvml_abi::number(value);
  if (plain) return *plain;
  return run_error("field {}: a value of the unknown type {}", value.field_id, value.value_type);
}

Result<double> NvmlDevice::answer(const GpmMetric& metric) const {
  if (metric.status != kSuccess) {
    return run_error("GPM metric {}: {}", metric.id, nvml_->error_text(metric.status));
  }
  if (!std::isfinite(metric.value)) return run_error("GPM metric {}: not a number", metric.id);
  return metric.value;
}

std::vector<Result<double>> NvmlDevice::fields(std::span<const NvmlField> wanted) const {
  std::vector<FieldValue> values(wanted.size());
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    values[at].field_id = wanted[at].id;
    values[at].scope_id = wanted[at].scope;
    // A field that the library does not touch must not look like a zero.
    values[at].status = -1;
  }
  const Result<> all =
      check(call(table_->field_values, device_, static_cast<int>(values.size()), values.data()),
            "field values");
  std::vector<Result<double>> answers;
  answers.reserve(values.size());
  for (const FieldValue& value : values) {
    answers.push_back(all ? answer(value) : Result<double>(all.error()));
  }
  return answers;
}

Result<double> NvmlDevice::field(NvmlField wanted) const {
  return std::move(fields({&wanted, 1}).front());
}

Result<double> NvmlDevice::energy_mj() const {
  return number(table_->total_energy, "energy counter");
}

Result<double> NvmlDevice::power_mw() const {
  return number(table_->power_usage, "power");
}

Result<double> NvmlDevice::power_limit_mw() const {
  return number(table_->power_limit, "power limit");
}

Result<double> NvmlDevice::clock_mhz(int clock) const {
  return number_of(table_->clock_info, "clock", clock);
}

Result<double> NvmlDevice::temperature_c() const {
  return number_of(table_->temperature, "temperature", kTemperatureGpu);
}

Result<Utilization> NvmlDevice::utilization() const {
  Utilization rates{};
  NIBBLE_RETURN_IF_ERROR(check(call(table_->utilization_rates, device_, &rates), "utilization"));
  return rates;
}

Result<double> NvmlDevice::clock_event_reasons() const {
  return number(table_->event_reasons, "clock event reasons");
}

Result<Memory> NvmlDevice::memory() const {
  Memory memory{};
  NIBBLE_RETURN_IF_ERROR(check(call(table_->memory_info, device_, &memory), "memory"));
  return memory;
}

Result<double> NvmlDevice::pcie_generation() const {
  return number(table_->link_generation, "PCIe generation");
}

Result<double> NvmlDevice::pcie_width() const {
  return number(table_->link_width, "PCIe width");
}

Result<double> NvmlDevice::pcie_generation_max() const {
  return number(table_->most_link_generation, "most PCIe generation");
}

Result<double> NvmlDevice::pcie_width_max() const {
  return number(table_->most_link_width, "most PCIe width");
}

Result<double> NvmlDevice::clock_mhz_max(int clock) const {
  return number_of(table_->most_clock, "most clock", clock);
}

Result<double> NvmlDevice::temperature_slowdown_c() const {
  return number_of(table_->temperature_threshold, "slowdown temperature",
                   kTemperatureThresholdSlowdown);
}

Result<double> NvmlDevice::pcie_kb_s(int direction) const {
  return number_of(table_->pcie_throughput, "PCIe throughput", direction);
}

Result<GpmReader> GpmReader::open(const NvmlDevice& device) {
  const NvmlDevice::Table& table = *device.table_;
  GpmSupport support{kGpmSupportVersion, 0};
  NIBBLE_RETURN_IF_ERROR(
      device.check(call(table.gpm_support, device.device_, &support), "GPM counters"));
  if (support.is_supported == 0) {
    return run_error("GPM counters: this GPU has none (they came with Hopper)");
  }
  if (table.gpm_sample == nullptr || table.gpm_metrics == nullptr || table.gpm_free == nullptr) {
    return run_error("GPM counters: this driver has no such call");
  }
  GpmReader reader(device);
  for (Sample& sample : reader.samples_) {
    NIBBLE_RETURN_IF_ERROR(device.check(call(table.gpm_alloc, &sample), "GPM sample"));
  }
  reader.request_ = std::make_unique<GpmMetricsGet>();
  return reader;
}

GpmReader::GpmReader(GpmReader&& other) noexcept
    : device_(other.device_),
      samples_(std::exchange(other.samples_, {})),
      newest_(other.newest_),
      taken_(other.taken_),
      request_(std::move(other.request_)) {}

GpmReader::~GpmReader() {
  for (const Sample sample : samples_) {
    if (sample != nullptr) call(device_.table_->gpm_free, sample);
  }
}

Result<std::optional<std::vector<Result<double>>>> GpmReader::read(
    std::span<const unsigned> metrics, Nanoseconds now) {
  using Metrics = std::optional<std::vector<Result<double>>>;
  if (metrics.size() > kGpmMetricSlots) return run_error("GPM: too many metrics in one reading");
  if (newest_ >= 0 && now - taken_ < kGpmSpacing) return Metrics();
  const int next = newest_ < 0 ? 0 : 1 - newest_;
  const auto& table = *device_.table_;
  NIBBLE_RETURN_IF_ERROR(device_.check(
      call(table.gpm_sample, device_.device_, samples_[static_cast<std::size_t>(next)]),
      "GPM sample"));
  const int before = std::exchange(newest_, next);
  taken_ = now;
  if (before < 0) return Metrics();
  *request_ = {};
  request_->version = kGpmMetricsGetVersion;
  request_->count = static_cast<unsigned>(metrics.size());
  request_->first = samples_[static_cast<std::size_t>(before)];
  request_->second = samples_[static_cast<std::size_t>(next)];
  for (std::size_t at = 0; at < metrics.size(); ++at) {
    request_->metrics[at].id = metrics[at];
    request_->metrics[at].status = -1;
  }
  NIBBLE_RETURN_IF_ERROR(device_.check(call(table.gpm_metrics, request_.get()), "GPM metrics"));
  std::vector<Result<double>> answers;
  answers.reserve(metrics.size());
  for (std::size_t at = 0; at < metrics.size(); ++at) {
    answers.push_back(device_.answer(request_->metrics[at]));
  }
  return Metrics(std::move(answers));
}

}  // namespace nibble
