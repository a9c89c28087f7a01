// Devices, and memory of GPUs for programs that have none of their own.
#include <memory>
#include <nibble/nibble.h>

#include "capi/arguments.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "kernels/gemm/device/w4a4.h"
#include "machine/isa.h"

namespace nibble::capi {
namespace {

constexpr std::int64_t kMostThreads = 1024;

nibble_device_info describe_gpu(const cuda::Device& device) {
  const cuda::DeviceInfo& from = device.info();
  nibble_device_info info = {};
  info.is_gpu = 1;
  const std::optional<cuda::Arch> arch = cuda::parse_arch(from.arch());
  info.fp4_mma = arch && has_fp4_mma(*arch) ? 1 : 0;
  info.major = from.major;
  info.minor = from.minor;
  info.sms = from.sms;
  info.memory_bytes = static_cast<std::int64_t>(from.memory_bytes);
  write_text(info.name, from.name);
  write_text(info.arch, from.arch());
  return info;
}

nibble_device_info describe_cpu(const CpuTeam& team) {
  nibble_device_info info = {};
  info.threads = team.threads();
  write_text(info.name, to_string(best_isa()));
  return info;
}

cuda::DevicePointer address_of(const void* memory) {
  return reinterpret_cast<cuda::DevicePointer>(memory);
}

// Runs `work` with the driver and the context of a GPU.
template <class Work>
nibble_status with_driver(nibble_device* device, std::string_view call, const Work& work) {
  return guarded([&]() -> Result<> {
    NIBBLE_ASSIGN_OR_RETURN(const auto state, gpu_of(device, call));
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
    return on_gpu(*state->gpu, [&]() -> Result<> { return work(*driver); });
  });
}

}  // namespace

Result<std::shared_ptr<DeviceState>> gpu_of(const nibble_device* device, std::string_view call) {
  NIBBLE_RETURN_IF_ERROR(check_given(device, "device"));
  if (device->state->gpu) return device->state;
  return input_error("{} works on a GPU, and the device is of nibble_cpu_open()", call);
}

Result<std::shared_ptr<DeviceState>> cpu_of(const nibble_device* device, std::string_view call) {
  NIBBLE_RETURN_IF_ERROR(check_given(device, "device"));
  if (device->state->cpu) return device->state;
  return input_error("{} works on the CPU, and the device is of nibble_device_open()", call);
}

extern "C" {

nibble_status nibble_device_open(int32_t ordinal, nibble_device** device) {
  return guarded([&]() -> nibble_status {
    if (const Result<> given = check_given(device, "device"); !given.ok()) {
      return report(NIBBLE_INVALID_ARGUMENT, given.error().message);
    }
    *device = nullptr;
    const Result<const cuda::Driver*> driver = cuda::Driver::get();
    if (!driver.ok()) return report(NIBBLE_NO_DEVICE, driver.error().message);
    const KeepContext keep(**driver);
    Result<cuda::Device> opened = cuda::Device::open(ordinal);
    if (!opened.ok()) return report(NIBBLE_NO_DEVICE, opened.error().message);
    auto state = std::make_shared<DeviceState>();
    state->gpu = std::make_unique<Gpu>(std::move(*opened));
    *device = std::make_unique<nibble_device>(nibble_device{std::move(state)}).release();
    return NIBBLE_OK;
  });
}

nibble_status nibble_cpu_open(int32_t threads, nibble_device** device) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(device, "device"));
    *device = nullptr;
    NIBBLE_RETURN_IF_ERROR(check_range("threads", threads, 0, kMostThreads));
    auto state = std::make_shared<DeviceState>();
    NIBBLE_ASSIGN_OR_RETURN(state->cpu, CpuTeam::start(threads));
    *device = std::make_unique<nibble_device>(nibble_device{std::move(state)}).release();
    return {};
  });
}

void nibble_device_close(nibble_device* device) {
  const std::unique_ptr<nibble_device> owned(device);
}

nibble_status nibble_device_describe(const nibble_device* device, nibble_device_info* info) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(device, "device"));
    const DeviceState& state = *device->state;
    return write_struct(
        info, state.gpu ? describe_gpu(state.gpu->device) : describe_cpu(*state.cpu), "info");
  });
}

nibble_status nibble_device_allocate(nibble_device* device, size_t bytes, void** memory) {
  return with_driver(device, "nibble_device_allocate", [&](const cuda::Driver& driver) -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(memory, "memory"));
    *memory = nullptr;
    if (bytes == 0) return input_error("bytes is 0; give 1 or more");
    cuda::DevicePointer address = 0;
    NIBBLE_RETURN_IF_ERROR(cuda::check(driver.MemAlloc(&address, bytes), "cuMemAlloc"));
    *memory = reinterpret_cast<void*>(address);
    return {};
  });
}

nibble_status nibble_device_release(nibble_device* device, void* memory) {
  return with_driver(device, "nibble_device_release", [&](const cuda::Driver& driver) -> Result<> {
    if (memory == nullptr) return {};
    return cuda::check(driver.MemFree(address_of(memory)), "cuMemFree");
  });
}

nibble_status nibble_device_upload(nibble_device* device, void* to, const void* from,
                                   size_t bytes) {
  return with_driver(device, "nibble_device_upload", [&](const cuda::Driver& driver) -> Result<> {
    if (bytes == 0) return {};
    NIBBLE_RETURN_IF_ERROR(check_given(to, "to"));
    NIBBLE_RETURN_IF_ERROR(check_given(from, "from"));
    // What writes there in any stream has ended before.
    NIBBLE_RETURN_IF_ERROR(cuda::check(driver.CtxSynchronize(), "cuCtxSynchronize"));
    return cuda::check(driver.MemcpyHtoD(address_of(to), from, bytes), "cuMemcpyHtoD");
  });
}

nibble_status nibble_device_download(nibble_device* device, void* to, const void* from,
                                     size_t bytes) {
  return with_driver(device, "nibble_device_download", [&](const cuda::Driver& driver) -> Result<> {
    if (bytes == 0) return {};
    NIBBLE_RETURN_IF_ERROR(check_given(to, "to"));
    NIBBLE_RETURN_IF_ERROR(check_given(from, "from"));
    NIBBLE_RETURN_IF_ERROR(cuda::check(driver.CtxSynchronize(), "cuCtxSynchronize"));
    return cuda::check(driver.MemcpyDtoH(to, address_of(from), bytes), "cuMemcpyDtoH");
  });
}

}  // extern "C"

}  // namespace nibble::capi
