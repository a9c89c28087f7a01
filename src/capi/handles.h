// What stands behind the handles of nibble.h. Every object holds the device that it was made on, so
// that they may be destroyed in any order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nibble/nibble.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "capi/cpu_team.h"
#include "capi/tuning.h"
#include "cuda/device.h"
#include "cuda/module.h"
#include "cuda/stream.h"

namespace nibble::capi {

struct Gpu {
  explicit Gpu(cuda::Device opened) : device(std::move(opened)) {}

  cuda::Device device;
  std::mutex mutex;  // of the lists below: what layers and plans share while one of them lives
  std::map<std::string, std::weak_ptr<const void>> programs;  // by all that they depend on
  std::weak_ptr<const cuda::Kernel> alpha_pairs;
};

// One of the two.
struct DeviceState {
  std::unique_ptr<Gpu> gpu;
  TeamPointer cpu;
  DeviceTuning tuning;  // of the CPU
};

// The context that is current in this thread stays so, whatever the scope makes current.
class KeepContext {
 public:
  explicit KeepContext(const cuda::Driver& driver) : driver_(driver) {
    known_ = driver_.CtxGetCurrent(&before_) == cuda::abi::kSuccess;
  }
  ~KeepContext() {
    if (known_) driver_.CtxSetCurrent(before_);
  }
  KeepContext(const KeepContext&) = delete;
  KeepContext& operator=(const KeepContext&) = delete;

 private:
  const cuda::Driver& driver_;
  cuda::abi::Context before_ = nullptr;
  bool known_ = false;
};

// Runs `work` with the GPU's context current.
template <class Work>
auto on_gpu(const Gpu& gpu, const Work& work) -> decltype(work()) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
  const KeepContext keep(*driver);
  NIBBLE_RETURN_IF_ERROR(gpu.device.make_current());
  return work();
}

// An input error for a handle that is null or of the other kind.
Result<std::shared_ptr<DeviceState>> gpu_of(const nibble_device* device, std::string_view call);
Result<std::shared_ptr<DeviceState>> cpu_of(const nibble_device* device, std::string_view call);

}  // namespace nibble::capi

struct nibble_device {
  std::shared_ptr<nibble::capi::DeviceState> state;
};
