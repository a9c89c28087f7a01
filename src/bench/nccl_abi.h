// The types, numbers and signatures of NCCL that we call with, declared by ourselves: the library
// often comes without its header. Where the header exists at build time, nccl_abi_check.cpp
// compares them with it.
//
//   nccl_abi::Functions calls;   // calls.ncclGroupStart(), ..., calls.ncclGroupEnd()
#pragma once

#include <cstddef>

#include "cuda/driver_abi.h"

namespace nibble::nccl_abi {

using Status = int;  // ncclResult_t
using Comm = struct OpaqueNcclComm*;
using Stream = cuda::abi::Stream;  // cudaStream_t and CUstream are one

constexpr Status kSuccess = 0;
constexpr int kBfloat16 = 9;  // ncclDataType_t
constexpr int kSum = 0;       // ncclRedOp_t

// X(name, its result, its parameters); all since NCCL 2.7.
#define NIBBLE_NCCL_FUNCTIONS(X)                                                    \
  X(ncclGetVersion, Status, int*)                                                   \
  X(ncclGetErrorString, const char*, Status)                                        \
  X(ncclCommInitAll, Status, Comm*, int, const int*)                                \
  X(ncclCommDestroy, Status, Comm)                                                  \
  X(ncclCommAbort, Status, Comm)                                                    \
  X(ncclCommGetAsyncError, Status, Comm, Status*)                                   \
  X(ncclAllReduce, Status, const void*, void*, std::size_t, int, int, Comm, Stream) \
  X(ncclAllGather, Status, const void*, void*, std::size_t, int, Comm, Stream)      \
  X(ncclSend, Status, const void*, std::size_t, int, int, Comm, Stream)             \
  X(ncclRecv, Status, void*, std::size_t, int, int, Comm, Stream)                   \
  X(ncclGroupStart, Status)                                                         \
  X(ncclGroupEnd, Status)

#define NIBBLE_NCCL_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
struct Functions {
  NIBBLE_NCCL_FUNCTIONS(NIBBLE_NCCL_MEMBER)
};
#undef NIBBLE_NCCL_MEMBER

}  // namespace nibble::nccl_abi
