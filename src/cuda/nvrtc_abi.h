// The functions of NVRTC that we call, declared by ourselves; abi_check.cpp compares them with the
// toolkit's header where that exists at build time.
//
//   int major = 0, minor = 0;
//   functions.Version(&major, &minor);
#pragma once

#include <cstddef>

namespace nibble::cuda::abi {

using NvrtcStatus = int;  // nvrtcResult
using NvrtcProgram = struct OpaqueProgram*;

constexpr NvrtcStatus kNvrtcSuccess = 0;
constexpr NvrtcStatus kNvrtcCompilation = 6;

}  // namespace nibble::cuda::abi

// X(name without "nvrtc", its parameters). NVRTC 12 and 13 have them all.
#define NIBBLE_NVRTC_FUNCTIONS(X)                                                    \
  X(Version, int*, int*)                                                             \
  X(GetNumSupportedArchs, int*)                                                      \
  X(GetSupportedArchs, int*)                                                         \
  X(CreateProgram, NvrtcProgram*, const char*, const char*, int, const char* const*, \
    const char* const*)                                                              \
  X(DestroyProgram, NvrtcProgram*)                                                   \
  X(CompileProgram, NvrtcProgram, int, const char* const*)                           \
  X(GetCUBINSize, NvrtcProgram, std::size_t*)                                        \
  X(GetCUBIN, NvrtcProgram, char*)                                                   \
  X(GetPTXSize, NvrtcProgram, std::size_t*)                                          \
  X(GetPTX, NvrtcProgram, char*)                                                     \
  X(GetProgramLogSize, NvrtcProgram, std::size_t*)                                   \
  X(GetProgramLog, NvrtcProgram, char*)

namespace nibble::cuda::abi {

#define NIBBLE_NVRTC_MEMBER(name, ...) NvrtcStatus (*name)(__VA_ARGS__) = nullptr;
struct NvrtcFunctions {
  NIBBLE_NVRTC_FUNCTIONS(NIBBLE_NVRTC_MEMBER)
  const char* (*GetErrorString)(NvrtcStatus) = nullptr;
};
#undef NIBBLE_NVRTC_MEMBER

}  // namespace nibble::cuda::abi
