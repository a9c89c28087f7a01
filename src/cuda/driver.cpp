#include "cuda/driver.h"

#include <algorithm>

#include "machine/probe_parse.h"

namespace nibble::cuda {
namespace {

constexpr const char* kGives =
    "kernels on the GPU need an NVIDIA GPU with a driver for CUDA 12.8 or newer; the CPU's kernels "
    "run without one";

// cuGetProcAddress_v2, by which all others are found: the only name that is looked up as it is.
using GetProcAddress = abi::Status(const char* name, void** function, int version,
                                   std::uint64_t flags, int* query);

std::string name_of(const abi::Functions& api, abi::Status status) {
  const char* name = nullptr;
  const bool known = api.GetErrorName != nullptr &&
                     api.GetErrorName(status, &name) == abi::kSuccess && name != nullptr;
  return known ? name : "CUDA error";
}

std::string text_of(const abi::Functions& api, abi::Status status) {
  const char* text = nullptr;
  const bool known = api.GetErrorString != nullptr &&
                     api.GetErrorString(status, &text) == abi::kSuccess && text != nullptr;
  return known ? fmt::format(": {}", text) : "";
}

// Errors of a kernel that ran: illegal address, timeout, assertion, illegal instruction and so on.
bool is_of_a_kernel(abi::Status status) {
  return status == 700 || status == 702 || status == 710 || (status >= 714 && status <= 719);
}

Error failure(abi::Status status, std::string_view call, std::string_view context) {
  const Result<const Driver*> driver = Driver::get();
  const abi::Functions none;
  const abi::Functions& api = driver ? **driver : none;
  const std::string after = is_of_a_kernel(status)
                                ? "; this process cannot use the GPU any more, and "
                                  "compute-sanitizer says where it happened"
                                : "";
  return run_error("{}{}: {} ({}){}{}", call, context, name_of(api, status), status,
                   text_of(api, status), after);
}

std::string after_text(const LaunchTrail& trail) {
  const std::string kernels = trail.text();
  return kernels.empty() ? "" : " after " + kernels;
}

}  // namespace

Result<Driver> Driver::open() {
  Driver driver;
  driver.library_ = DynamicLibrary::open({"libcuda.so.1"});
  if (!driver.library_) {
    return run_error("there is no CUDA driver ({}); {}", driver.library_.reason(), kGives);
  }
  auto* get = driver.library_.symbol<GetProcAddress>("cuGetProcAddress_v2");
  auto* get_version = driver.library_.symbol<abi::Status(int*)>("cuDriverGetVersion");
  if (get_version != nullptr) get_version(&driver.version_);
  if (get == nullptr || driver.version_ < kOldestDriver) {
    return run_error("the CUDA driver {} is for CUDA {}; {}", driver.path(),
                     cuda_version_text(driver.version_), kGives);
  }
  const char* missing = nullptr;
  const auto find = [&](const char* name, int version) {
    void* function = nullptr;
    int query = 0;
    const abi::Status status = get(name, &function, version, 0, &query);
    if (status != abi::kSuccess || function == nullptr) missing = name;
    return function;
  };
#define NIBBLE_CUDA_FIND(name, version, ...) \
  driver.name = reinterpret_cast<decltype(driver.name)>(find("cu" #name, version));
  NIBBLE_CUDA_DRIVER_FUNCTIONS(NIBBLE_CUDA_FIND)
#undef NIBBLE_CUDA_FIND
  if (missing != nullptr) {
    return run_error("the CUDA driver {} has no {}; {}", driver.path(), missing, kGives);
  }
  if (const abi::Status status = driver.Init(0); status != abi::kSuccess) {
    return run_error("the CUDA driver does not start (cuInit: {} ({}){}); {}",
                     name_of(driver, status), status, text_of(driver, status), kGives);
  }
  return driver;
}

Result<const Driver*> Driver::get() {
  // Never closed: a driver that was initialised does not survive being unloaded.
  static const Result<Driver>& opened = *std::make_unique<Result<Driver>>(open()).release();
  if (!opened) return opened.error();
  return &opened.value();
}

void LaunchTrail::add(const std::shared_ptr<const std::string>& kernel) {
  const auto end = names_.begin() + static_cast<std::ptrdiff_t>(count_);
  if (const auto found = std::find(names_.begin(), end, kernel); found != end) {
    std::rotate(found, found + 1, end);  // it is the last one now
    return;
  }
  if (count_ == kMost) {
    std::rotate(names_.begin(), names_.begin() + 1, names_.end());
    more_ = true;
    --count_;
  }
  names_[count_++] = kernel;
}

void LaunchTrail::clear() {
  for (auto& name : names_) name.reset();
  count_ = 0;
  more_ = false;
}

std::string LaunchTrail::text() const {
  std::string text = more_ ? "others, " : "";
  for (std::size_t i = 0; i < count_; ++i) {
    if (i > 0) text += ", ";
    text += *names_[i];
  }
  return text;
}

LaunchTrail& LaunchTrail::of_thread() {
  thread_local LaunchTrail trail;
  return trail;
}

Result<> check(abi::Status status, std::string_view call, std::string_view kernel) {
  if (status == abi::kSuccess) return {};
  if (!kernel.empty()) return failure(status, call, fmt::format(" of {}", kernel));
  return failure(status, call, is_of_a_kernel(status) ? after_text(LaunchTrail::of_thread()) : "");
}

Result<> check_after(abi::Status status, std::string_view call, const LaunchTrail& trail) {
  if (status == abi::kSuccess) return {};
  return failure(status, call, after_text(trail));
}

}  // namespace nibble::cuda
