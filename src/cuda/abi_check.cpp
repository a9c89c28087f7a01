// Our declarations of the driver and of NVRTC against the toolkit's headers, where those exist:
// types of the same size and layout, functions with as many parameters of the same size and kind,
// numbers of the same value. Compiling this file is the test; nothing links it.
#include <cudaTypedefs.h>
#include <nvrtc.h>
#include <type_traits>

#include "cuda/driver_abi.h"
#include "cuda/nvrtc_abi.h"

namespace nibble::cuda::abi {
namespace {

template <class Ours, class Theirs>
constexpr bool alike() {
  return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
         std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
}

template <class Ours, class Theirs>
struct SameShape : std::false_type {};
template <class... Ours, class Result, class... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct SameShape<Status (*)(Ours...), Result (*)(Theirs...)>
    : std::bool_constant<sizeof(Result) == sizeof(Status) && (alike<Ours, Theirs>() && ...)> {
};

#define NIBBLE_CHECK_DRIVER(name, version, ...)                                       \
  static_assert(SameShape<Status (*)(__VA_ARGS__), PFN_cu##name##_v##version>::value, \
                "cu" #name " is declared otherwise in cudaTypedefs.h");
NIBBLE_CUDA_DRIVER_FUNCTIONS(NIBBLE_CHECK_DRIVER)
#undef NIBBLE_CHECK_DRIVER

#define NIBBLE_CHECK_NVRTC(name, ...)                                                     \
  static_assert(SameShape<NvrtcStatus (*)(__VA_ARGS__), decltype(&::nvrtc##name)>::value, \
                "nvrtc" #name " is declared otherwise in nvrtc.h");
NIBBLE_NVRTC_FUNCTIONS(NIBBLE_CHECK_NVRTC)
#undef NIBBLE_CHECK_NVRTC

static_assert(alike<DevicePointer, CUdeviceptr>());
static_assert(alike<Uuid, CUuuid>());
static_assert(alike<LaunchAttributeValue, CUlaunchAttributeValue>());
static_assert(alike<LaunchAttribute, CUlaunchAttribute>());
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(alike<LaunchConfig, CUlaunchConfig>());
static_assert(offsetof(LaunchConfig, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kAttributeCluster == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(kAttributeProgrammaticSerialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(kDeviceClockKhz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(kDeviceMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kDeviceMemoryClockKhz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(kDeviceL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(kDeviceCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kDeviceCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kDeviceSharedPerMultiprocessor ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
static_assert(kDeviceRegistersPerMultiprocessor ==
              CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
static_assert(kDeviceSharedPerBlockOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kFunctionMaxThreads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(kFunctionSharedBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(kFunctionLocalBytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(kFunctionRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(kFunctionPtxVersion == CU_FUNC_ATTRIBUTE_PTX_VERSION);
static_assert(kFunctionBinaryVersion == CU_FUNC_ATTRIBUTE_BINARY_VERSION);
static_assert(kJitErrorLog == CU_JIT_ERROR_LOG_BUFFER);
static_assert(kJitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(sizeof(CUjit_option) == sizeof(int));
static_assert(kFunctionMaxDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventRecordExternal == CU_EVENT_RECORD_EXTERNAL);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kNvrtcSuccess == NVRTC_SUCCESS);
static_assert(kNvrtcCompilation == NVRTC_ERROR_COMPILATION);

}  // namespace
}  // namespace nibble::cuda::abi
