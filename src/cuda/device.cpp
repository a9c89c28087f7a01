#include "cuda/device.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace nibble::cuda {
namespace {

Result<int> attribute(const Driver& driver, abi::DeviceId id, int number) {
  int value = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.DeviceGetAttribute(&value, number, id), "cuDeviceGetAttribute"));
  return value;
}

std::string uuid_text(const abi::Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

Result<DeviceInfo> read_info(const Driver& driver, abi::DeviceId id) {
  DeviceInfo info;
  const std::pair<int, int*> numbers[] = {
      {abi::kDeviceCapabilityMajor, &info.major},
      {abi::kDeviceCapabilityMinor, &info.minor},
      {abi::kDeviceMultiprocessors, &info.sms},
      {abi::kDeviceSharedPerBlockOptin, &info.shared_per_block_optin},
      {abi::kDeviceSharedPerMultiprocessor, &info.shared_per_sm},
      {abi::kDeviceRegistersPerMultiprocessor, &info.registers_per_sm},
      {abi::kDeviceClockKhz, &info.clock_khz},
      {abi::kDeviceMemoryClockKhz, &info.memory_clock_khz},
  };
  for (const auto& [number, value] : numbers) {
    NIBBLE_ASSIGN_OR_RETURN(*value, attribute(driver, id, number));
  }
  NIBBLE_ASSIGN_OR_RETURN(info.l2_bytes, attribute(driver, id, abi::kDeviceL2Bytes));
  std::array<char, 256> text = {};
  constexpr int kTextBytes = static_cast<int>(text.size()) - 1;
  NIBBLE_RETURN_IF_ERROR(
      check(driver.DeviceGetName(text.data(), kTextBytes, id), "cuDeviceGetName"));
  info.name = text.data();
  text = {};
  NIBBLE_RETURN_IF_ERROR(
      check(driver.DeviceGetPCIBusId(text.data(), kTextBytes, id), "cuDeviceGetPCIBusId"));
  info.pci = text.data();
  std::size_t bytes = 0;
  NIBBLE_RETURN_IF_ERROR(check(driver.DeviceTotalMem(&bytes, id), "cuDeviceTotalMem"));
  info.memory_bytes = static_cast<double>(bytes);
  abi::Uuid uuid = {};
  NIBBLE_RETURN_IF_ERROR(check(driver.DeviceGetUuid(&uuid, id), "cuDeviceGetUuid"));
  info.uuid = uuid_text(uuid);
  return info;
}

}  // namespace

std::string arch_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

std::string DeviceInfo::arch() const {
  return arch_of(major, minor);
}

Result<Arch> arch_to_run(const DeviceInfo& info, const std::string& arch) {
  const std::optional<Arch> parsed = parse_arch(arch.empty() ? info.arch() : arch);
  if (!parsed) {
    return input_error("\"{}\" is no architecture; write it as sm_80, sm_90a or compute_80",
                       printable(arch));
  }
  if (!runs_on(*parsed, info.major, info.minor)) {
    return input_error(
        "code for {} does not run on {}, which is {}; give {}, or PTX of an earlier one as "
        "compute_80",
        parsed->name(), info.name, info.arch(), info.arch());
  }
  return *parsed;
}

Result<int> device_count() {
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  int count = 0;
  NIBBLE_RETURN_IF_ERROR(check(driver->DeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

Result<Device> Device::open(int ordinal) {
  NIBBLE_ASSIGN_OR_RETURN(const int count, device_count());
  if (ordinal < 0 || ordinal >= count) {
    return input_error("there is no GPU {}: this process sees {}, counted from 0", ordinal, count);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  abi::DeviceId id = 0;
  NIBBLE_RETURN_IF_ERROR(check(driver->DeviceGet(&id, ordinal), "cuDeviceGet"));
  Device device;
  NIBBLE_ASSIGN_OR_RETURN(device.info_, read_info(*driver, id));
  NIBBLE_RETURN_IF_ERROR(
      check(driver->DevicePrimaryCtxRetain(&device.context_, id), "cuDevicePrimaryCtxRetain"));
  device.driver_ = driver;  // from here on there is something to release
  device.ordinal_ = ordinal;
  device.id_ = id;
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  return device;
}

Device::Device(Device&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)),
      ordinal_(other.ordinal_),
      id_(other.id_),
      context_(other.context_),
      info_(std::move(other.info_)) {}

Device& Device::operator=(Device&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(ordinal_, other.ordinal_);
  std::swap(id_, other.id_);
  std::swap(context_, other.context_);
  std::swap(info_, other.info_);
  return *this;
}

Device::~Device() {
  if (driver_ != nullptr) driver_->DevicePrimaryCtxRelease(id_);
}

Result<> Device::make_current() const {
  return check(driver_->CtxSetCurrent(context_), "cuCtxSetCurrent");
}

Result<> Device::synchronize() const {
  const CurrentContext current(*driver_, context_);
  NIBBLE_RETURN_IF_ERROR(current.result());
  NIBBLE_RETURN_IF_ERROR(check(driver_->CtxSynchronize(), "cuCtxSynchronize"));
  LaunchTrail::of_thread().clear();
  return {};
}

Result<double> Device::free_memory_bytes() const {
  const CurrentContext current(*driver_, context_);
  NIBBLE_RETURN_IF_ERROR(current.result());
  std::size_t available = 0;
  std::size_t total = 0;
  NIBBLE_RETURN_IF_ERROR(check(driver_->MemGetInfo(&available, &total), "cuMemGetInfo"));
  return static_cast<double>(available);
}

Result<abi::Context> current_context(const Driver& driver) {
  abi::Context context = nullptr;
  NIBBLE_RETURN_IF_ERROR(check(driver.CtxGetCurrent(&context), "cuCtxGetCurrent"));
  if (context == nullptr) {
    return run_error("no GPU is current on this thread; Device::make_current() makes one so");
  }
  return context;
}

}  // namespace nibble::cuda
