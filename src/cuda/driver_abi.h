// The types, numbers and signatures of the driver's API that we call with, declared by ourselves: a
// GPU machine brings the library, but not its header. Where the header exists at build time,
// abi_check.cpp compares every one of them with it.
//
//   abi::LaunchConfig config{.grid_x = 132, .block_x = 256, .stream = stream};
//   driver->LaunchKernelEx(&config, function, parameters, nullptr);
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cuda {

using DevicePointer = std::uint64_t;  // CUdeviceptr

namespace abi {

using Status = int;  // CUresult
using DeviceId = int;
using Context = struct OpaqueContext*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Graph = struct OpaqueGraph*;
using GraphExec = struct OpaqueGraphExec*;
using GraphNode = struct OpaqueGraphNode*;

struct Uuid {
  unsigned char bytes[16];
};

// CUlaunchAttribute: an id, and a value of 64 bytes at offset 8.
union LaunchAttributeValue {
  unsigned char pad[64];
  std::uint64_t align;
  struct {
    unsigned x;
    unsigned y;
    unsigned z;
  } cluster;
  int programmatic_serialization;
};
struct LaunchAttribute {
  unsigned id;
  char pad[4];
  LaunchAttributeValue value;
};
struct LaunchConfig {
  unsigned grid_x;
  unsigned grid_y;
  unsigned grid_z;
  unsigned block_x;
  unsigned block_y;
  unsigned block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

constexpr Status kSuccess = 0;

constexpr unsigned kAttributeCluster = 4;
constexpr unsigned kAttributeProgrammaticSerialization = 6;

constexpr int kDeviceClockKhz = 13;
constexpr int kDeviceMultiprocessors = 16;
constexpr int kDeviceMemoryClockKhz = 36;
constexpr int kDeviceL2Bytes = 38;
constexpr int kDeviceCapabilityMajor = 75;
constexpr int kDeviceCapabilityMinor = 76;
constexpr int kDeviceSharedPerMultiprocessor = 81;
constexpr int kDeviceRegistersPerMultiprocessor = 82;
constexpr int kDeviceSharedPerBlockOptin = 97;

constexpr int kFunctionMaxThreads = 0;
constexpr int kFunctionSharedBytes = 1;
constexpr int kFunctionLocalBytes = 3;
constexpr int kFunctionRegisters = 4;
constexpr int kFunctionPtxVersion = 5;
constexpr int kFunctionBinaryVersion = 6;
constexpr int kFunctionMaxDynamicShared = 8;

constexpr int kJitErrorLog = 5;
constexpr int kJitErrorLogBytes = 6;

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventRecordExternal = 1;
constexpr int kCaptureThreadLocal = 1;

}  // namespace abi
}  // namespace nibble::cuda

// Every function of the driver that we use: X(name without "cu", the version of CUDA that gave it
// this signature, its parameters). CUDA 12.8 has them all.
#define NIBBLE_CUDA_DRIVER_FUNCTIONS(X)                                                         \
  X(Init, 2000, unsigned)                                                                       \
  X(DriverGetVersion, 2020, int*)                                                               \
  X(GetErrorName, 6000, Status, const char**)                                                   \
  X(GetErrorString, 6000, Status, const char**)                                                 \
  X(DeviceGetCount, 2000, int*)                                                                 \
  X(DeviceGet, 2000, DeviceId*, int)                                                            \
  X(DeviceGetName, 2000, char*, int, DeviceId)                                                  \
  X(DeviceGetUuid, 11040, Uuid*, DeviceId)                                                      \
  X(DeviceTotalMem, 3020, std::size_t*, DeviceId)                                               \
  X(DeviceGetAttribute, 2000, int*, int, DeviceId)                                              \
  X(DeviceGetPCIBusId, 4010, char*, int, DeviceId)                                              \
  X(DeviceCanAccessPeer, 4000, int*, DeviceId, DeviceId)                                        \
  X(DeviceGetP2PAttribute, 8000, int*, int, DeviceId, DeviceId)                                 \
  X(DevicePrimaryCtxRetain, 7000, Context*, DeviceId)                                           \
  X(DevicePrimaryCtxRelease, 11000, DeviceId)                                                   \
  X(CtxSetCurrent, 4000, Context)                                                               \
  X(CtxGetCurrent, 4000, Context*)                                                              \
  X(CtxGetDevice, 2000, DeviceId*)                                                              \
  X(CtxSynchronize, 2000)                                                                       \
  X(CtxEnablePeerAccess, 4000, Context, unsigned)                                               \
  X(CtxDisablePeerAccess, 4000, Context)                                                        \
  X(MemGetInfo, 3020, std::size_t*, std::size_t*)                                               \
  X(MemAlloc, 3020, DevicePointer*, std::size_t)                                                \
  X(MemFree, 3020, DevicePointer)                                                               \
  X(MemHostAlloc, 2020, void**, std::size_t, unsigned)                                          \
  X(MemFreeHost, 2000, void*)                                                                   \
  X(MemcpyHtoD, 3020, DevicePointer, const void*, std::size_t)                                  \
  X(MemcpyDtoH, 3020, void*, DevicePointer, std::size_t)                                        \
  X(MemcpyHtoDAsync, 3020, DevicePointer, const void*, std::size_t, Stream)                     \
  X(MemcpyDtoHAsync, 3020, void*, DevicePointer, std::size_t, Stream)                           \
  X(MemcpyDtoDAsync, 3020, DevicePointer, DevicePointer, std::size_t, Stream)                   \
  X(MemcpyPeerAsync, 4000, DevicePointer, Context, DevicePointer, Context, std::size_t, Stream) \
  X(MemsetD8, 3020, DevicePointer, unsigned char, std::size_t)                                  \
  X(MemsetD8Async, 3020, DevicePointer, unsigned char, std::size_t, Stream)                     \
  X(MemsetD32Async, 3020, DevicePointer, unsigned, std::size_t, Stream)                         \
  X(StreamCreate, 2000, Stream*, unsigned)                                                      \
  X(StreamDestroy, 4000, Stream)                                                                \
  X(StreamSynchronize, 2000, Stream)                                                            \
  X(StreamQuery, 2000, Stream)                                                                  \
  X(StreamWaitEvent, 3020, Stream, Event, unsigned)                                             \
  X(StreamBeginCapture, 10010, Stream, int)                                                     \
  X(StreamEndCapture, 10000, Stream, Graph*)                                                    \
  X(EventCreate, 2000, Event*, unsigned)                                                        \
  X(EventDestroy, 4000, Event)                                                                  \
  X(EventRecord, 2000, Event, Stream)                                                           \
  X(EventRecordWithFlags, 11010, Event, Stream, unsigned)                                       \
  X(EventSynchronize, 2000, Event)                                                              \
  X(EventElapsedTime, 2000, float*, Event, Event)                                               \
  X(GraphInstantiateWithFlags, 11040, GraphExec*, Graph, unsigned long long)                    \
  X(GraphGetNodes, 10000, Graph, GraphNode*, std::size_t*)                                      \
  X(GraphUpload, 11010, GraphExec, Stream)                                                      \
  X(GraphLaunch, 10000, GraphExec, Stream)                                                      \
  X(GraphDestroy, 10000, Graph)                                                                 \
  X(GraphExecDestroy, 10000, GraphExec)                                                         \
  X(ModuleLoadData, 2000, Module*, const void*)                                                 \
  X(ModuleLoadDataEx, 2010, Module*, const void*, unsigned, int*, void**)                       \
  X(ModuleUnload, 2000, Module)                                                                 \
  X(ModuleGetFunction, 2000, Function*, Module, const char*)                                    \
  X(FuncGetAttribute, 2020, int*, int, Function)                                                \
  X(FuncSetAttribute, 9000, Function, int, int)                                                 \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050, int*, Function, int, std::size_t)          \
  X(LaunchKernelEx, 11060, const LaunchConfig*, Function, void**, void**)
