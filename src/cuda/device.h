// A GPU and its primary context.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Device gpu, Device::open(0));
//   NIBBLE_RETURN_IF_ERROR(gpu.make_current());  // for this thread: what is made next lies there
//   compile({..., .arch = gpu.info().arch()});
#pragma once

#include <string>

#include "base/result.h"
#include "cuda/arch.h"
#include "cuda/owned.h"

namespace nibble::cuda {

struct DeviceInfo {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  int sms = 0;
  double memory_bytes = 0;
  double l2_bytes = 0;
  int shared_per_block_optin = 0;  // bytes that one block can have at most
  int shared_per_sm = 0;           // bytes
  int registers_per_sm = 0;
  int clock_khz = 0;  // the highest clock of the SMs
  int memory_clock_khz = 0;
  std::string uuid;  // "GPU-1f3b...": as NVML writes it
  std::string pci;   // "0000:3B:00.0"

  // What to compile for: "sm_90a"; the architecture's own instructions are taken where it has them.
  std::string arch() const;
};

// "sm_80", "sm_90a", "sm_120a": an "a" from 9.0 on.
std::string arch_of(int major, int minor);

// What code for this GPU is compiled for: `arch`, or where that is empty its own. An input error
// for what is no architecture, or one whose code it does not run.
Result<Arch> arch_to_run(const DeviceInfo& info, const std::string& arch);

// GPUs that this process may use (CUDA_VISIBLE_DEVICES counts).
Result<int> device_count();

// Keeps the primary context of a GPU, which all devices of that ordinal share. Buffers, streams,
// events, graphs and modules must not outlive the last of them.
class Device {
 public:
  // Opens the GPU and makes it current.
  static Result<Device> open(int ordinal);
  Device(Device&& other) noexcept;
  Device& operator=(Device&& other) noexcept;
  ~Device();

  int ordinal() const { return ordinal_; }
  const DeviceInfo& info() const { return info_; }
  abi::Context context() const { return context_; }
  Result<> make_current() const;  // for this thread
  Result<> synchronize() const;   // waits for all work of this GPU
  Result<double> free_memory_bytes() const;

 private:
  Device() = default;

  const Driver* driver_ = nullptr;
  int ordinal_ = 0;
  abi::DeviceId id_ = 0;
  abi::Context context_ = nullptr;
  DeviceInfo info_;
};

}  // namespace nibble::cuda
