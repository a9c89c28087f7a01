// The types and numbers of nvml.h that we call with, declared by ourselves: the driver brings the
// library, but its header is often absent. Layouts are those of the C header on a 64-bit system.
//
//   nvml_abi::FieldValue value{.field_id = nvml_abi::kFieldPowerInstant};
//   if (get_field_values(device, 1, &value) == nvml_abi::kSuccess) nvml_abi::number(value);
#pragma once

#include <cstddef>
#include <optional>

#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace nibble::nvml_abi {

using Device = struct NvmlDeviceHandle*;
using Sample = struct NvmlGpmSampleHandle*;

constexpr int kSuccess = 0;  // nvmlReturn_t is an int
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr int kTemperatureThresholdSlowdown = 1;
constexpr int kPcieTransmit = 0;
constexpr int kPcieReceive = 1;
constexpr unsigned kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Utilization {
  unsigned gpu;     // % of the last sampling period in which some kernel was resident
  unsigned memory;  // % of it in which memory was read or written
};

// Which member of a value holds the number differs between drivers: value_type says.
union Value {
  double as_double;
  unsigned as_unsigned;
  unsigned long as_unsigned_long;
  unsigned long long as_unsigned_long_long;
  long long as_signed_long_long;
  int as_signed;
  unsigned short as_unsigned_short;
};
enum ValueType : unsigned {
  kDouble = 0,
  kUnsigned = 1,
  kUnsignedLong = 2,
  kUnsignedLongLong = 3,
  kSignedLongLong = 4,
  kSigned = 5,
  kUnsignedShort = 6,
};
struct FieldValue {
  unsigned field_id;
  unsigned scope_id;  // a link's number; kAllLinks: their sum
  long long timestamp_us;
  long long latency_us;
  unsigned value_type;
  int status;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, timestamp_us) == 8);
static_assert(offsetof(FieldValue, value_type) == 24 && offsetof(FieldValue, status) == 28);
static_assert(offsetof(FieldValue, value) == 32 && sizeof(Value) == 8);

// nullopt: a type that this program does not know.
std::optional<double> number(const FieldValue& value);

constexpr unsigned kAllLinks = ~0U;
constexpr unsigned kFieldThrottlePower = 74;  // NVML_FI_DEV_PERF_POLICY_*, nanoseconds
constexpr unsigned kFieldThrottleThermal = 75;
constexpr unsigned kFieldThrottleSyncBoost = 76;
constexpr unsigned kFieldThrottleBoard = 77;
constexpr unsigned kFieldThrottleReliability = 79;
constexpr unsigned kFieldNvlinkTransmitted = 138;  // NVLINK_THROUGHPUT_DATA_TX, KiB
constexpr unsigned kFieldNvlinkReceived = 139;
constexpr unsigned kFieldPowerAverage = 185;     // mW, trailing second
constexpr unsigned kFieldPowerInstant = 186;     // mW
constexpr unsigned kFieldPcieTransmitted = 197;  // PCIE_COUNT_TX_BYTES
constexpr unsigned kFieldPcieReceived = 198;
// NVML_FI_DEV_CLOCKS_EVENT_REASON_{SW_THERM,HW_THERM,HW_POWER_BRAKE}_SLOWDOWN were renumbered in
// driver 580; each numbering uses the other's numbers for power smoothing.
constexpr unsigned kFieldSlowdownsBefore580 = 251;
constexpr unsigned kFieldSlowdownsSince580 = 269;

struct GpmSupport {
  unsigned version;
  unsigned is_supported;
};
constexpr unsigned kGpmSupportVersion = 1;
constexpr unsigned kGpmMetricsGetVersion = 1;

struct GpmMetricInfo {
  const char* short_name;
  const char* long_name;
  const char* unit;
};
struct GpmMetric {
  unsigned id;
  int status;  // of this metric; anything but 0 means that `value` says nothing
  double value;
  GpmMetricInfo info;
};
// The library may write as many metrics as its own header counts: 98 in CUDA 12.0, 210 and 333
// later, 477 in driver 615. The space is for more than any of them.
constexpr std::size_t kGpmMetricSlots = 512;
struct GpmMetricsGet {
  unsigned version;
  unsigned count;
  Sample first;
  Sample second;
  GpmMetric metrics[kGpmMetricSlots];
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);
static_assert(offsetof(GpmMetricsGet, first) == 8 && offsetof(GpmMetricsGet, metrics) == 24);

#if __has_include(<nvml.h>)
static_assert(NVML_SUCCESS == kSuccess && NVML_CLOCK_SM == kClockSm);
static_assert(NVML_TEMPERATURE_THRESHOLD_SLOWDOWN == kTemperatureThresholdSlowdown);
static_assert(NVML_CLOCK_MEM == kClockMemory && NVML_TEMPERATURE_GPU == kTemperatureGpu);
static_assert(sizeof(nvmlMemory_t) == sizeof(Memory));
static_assert(sizeof(nvmlUtilization_t) == sizeof(Utilization));
static_assert(sizeof(nvmlFieldValue_t) == sizeof(FieldValue));
static_assert(sizeof(nvmlGpmSupport_t) == sizeof(GpmSupport));
static_assert(sizeof(nvmlGpmMetric_t) == sizeof(GpmMetric));
static_assert(sizeof(nvmlGpmMetricsGet_t) <= sizeof(GpmMetricsGet));
static_assert(NVML_GPM_SUPPORT_VERSION == kGpmSupportVersion);
static_assert(NVML_GPM_METRICS_GET_VERSION == kGpmMetricsGetVersion);
static_assert(NVML_DEVICE_NAME_V2_BUFFER_SIZE == kNameBytes);
#endif

}  // namespace nibble::nvml_abi
