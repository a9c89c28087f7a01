// The types, numbers and functions of cuBLASLt that we call with, declared by ourselves: it is
// opened at run time, and its header is often absent. Where the header exists at build time,
// cublaslt_abi_check.cpp compares them with it.
//
//   cublaslt_abi::Functions table;
//   table.MatmulDescCreate(&desc, cublaslt_abi::kCompute32F, cublaslt_abi::kReal32F);
#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::cublaslt_abi {

using Status = int;
using Handle = struct LtOpaqueHandle*;
using Desc = struct LtOpaqueDesc*;
using Layout = struct LtOpaqueLayout*;
using Preference = struct LtOpaquePreference*;
using LtStream = void*;  // cudaStream_t, which is CUstream

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

constexpr Status kLtSuccess = 0;
constexpr int kReal32F = 0;
constexpr int kReal16F = 2;
constexpr int kReal16Bf = 14;
constexpr int kReal8E4m3 = 28;
constexpr int kReal4E2m1 = 33;
constexpr int kCompute32F = 68;
constexpr int kOpTransposed = 1;
constexpr int kDescTransA = 3;
constexpr int kDescAScalePointer = 17;
constexpr int kDescBScalePointer = 18;
constexpr int kDescAScaleMode = 31;
constexpr int kDescBScaleMode = 32;
constexpr int kScaleVec16 = 1;  // one e4m3 for 16 values
constexpr int kPreferenceWorkspace = 1;

}  // namespace nibble::cublaslt_abi

// X(name without "cublasLt", its parameters); all return a status.
#define NIBBLE_CUBLASLT_FUNCTIONS(X)                                                          \
  X(Create, Handle*)                                                                          \
  X(Destroy, Handle)                                                                          \
  X(MatmulDescCreate, Desc*, int, int)                                                        \
  X(MatmulDescDestroy, Desc)                                                                  \
  X(MatmulDescSetAttribute, Desc, int, const void*, std::size_t)                              \
  X(MatrixLayoutCreate, Layout*, int, std::uint64_t, std::uint64_t, std::int64_t)             \
  X(MatrixLayoutDestroy, Layout)                                                              \
  X(MatmulPreferenceCreate, Preference*)                                                      \
  X(MatmulPreferenceDestroy, Preference)                                                      \
  X(MatmulPreferenceSetAttribute, Preference, int, const void*, std::size_t)                  \
  X(MatmulAlgoGetHeuristic, Handle, Desc, Layout, Layout, Layout, Layout, Preference, int,    \
    Heuristic*, int*)                                                                         \
  X(Matmul, Handle, Desc, const void*, const void*, Layout, const void*, Layout, const void*, \
    const void*, Layout, void*, Layout, const Algorithm*, void*, std::size_t, LtStream)

namespace nibble::cublaslt_abi {

#define NIBBLE_CUBLASLT_MEMBER(name, ...) Status (*name)(__VA_ARGS__) = nullptr;
struct Functions {
  NIBBLE_CUBLASLT_FUNCTIONS(NIBBLE_CUBLASLT_MEMBER)
};
#undef NIBBLE_CUBLASLT_MEMBER

}  // namespace nibble::cublaslt_abi
