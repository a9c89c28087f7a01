// The CUDA driver, opened at run time: libcuda.so.1 comes with the GPU's driver, and nothing of a
// toolkit is needed. Every call is checked, and a failure says its name, the call and the kernel.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
//   NIBBLE_RETURN_IF_ERROR(check(driver->StreamSynchronize(stream), "cuStreamSynchronize"));
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/dynamic_library.h"
#include "base/result.h"
#include "cuda/driver_abi.h"

namespace nibble::cuda {

// The oldest driver that has every function we call, as cuDriverGetVersion says it (12.8).
inline constexpr int kOldestDriver = 12080;

namespace abi {
#define NIBBLE_CUDA_MEMBER(name, version, ...) Status (*name)(__VA_ARGS__) = nullptr;
struct Functions {
  NIBBLE_CUDA_DRIVER_FUNCTIONS(NIBBLE_CUDA_MEMBER)
};
#undef NIBBLE_CUDA_MEMBER
}  // namespace abi

// The table of the driver's functions, filled and initialised (cuInit) once for the process.
class Driver : public abi::Functions {
 public:
  // Without a driver or a GPU one sentence that says why, and what it would give. The same answer
  // at every call.
  static Result<const Driver*> get();

  int version() const { return version_; }  // 13000 for 13.0
  const std::string& path() const { return library_.path(); }

 private:
  static Result<Driver> open();

  DynamicLibrary library_;
  int version_ = 0;
};

// The kernels that were launched last, since a kernel's failure shows at a later call. Holds no
// more than four names, and adding one allocates nothing.
class LaunchTrail {
 public:
  void add(const std::shared_ptr<const std::string>& kernel);
  void clear();
  std::string text() const;  // "route, w4a16", the earliest first; "" when empty

  // Of this thread, whatever the stream; cleared when the whole GPU was waited for.
  static LaunchTrail& of_thread();

 private:
  static constexpr std::size_t kMost = 4;
  std::array<std::shared_ptr<const std::string>, kMost> names_;
  std::size_t count_ = 0;
  bool more_ = false;  // there were others before these
};

// "cuLaunchKernelEx of w4a16: CUDA_ERROR_INVALID_VALUE (1): invalid argument", or nothing for
// success. Where no kernel is given and the error is one of a kernel that ran, those of this
// thread's trail are named.
Result<> check(abi::Status status, std::string_view call, std::string_view kernel = {});
// For a call that waits for kernels: "cuStreamSynchronize after route, w4a16: ...".
Result<> check_after(abi::Status status, std::string_view call, const LaunchTrail& trail);

}  // namespace nibble::cuda
