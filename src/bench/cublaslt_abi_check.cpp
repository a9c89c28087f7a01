// Compiled where cublasLt.h is found: our declarations are its own.
#include <cublasLt.h>
#include <type_traits>

#include "bench/cublaslt_abi.h"

namespace nibble::cublaslt_abi {

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Heuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(Heuristic, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
static_assert(kLtSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kReal32F == CUDA_R_32F && kReal16F == CUDA_R_16F && kReal16Bf == CUDA_R_16BF);
static_assert(kReal8E4m3 == CUDA_R_8F_E4M3 && kReal4E2m1 == CUDA_R_4F_E2M1);
static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kOpTransposed == CUBLAS_OP_T);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kDescAScalePointer == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kDescBScalePointer == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kDescAScaleMode == CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
static_assert(kDescBScaleMode == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(kScaleVec16 == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3);
static_assert(kPreferenceWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

// As many parameters, each as wide: pointers are opaque on both sides, and enums are ints.
template <class Ours, class Theirs>
struct IsSameCall : std::false_type {};
template <class... Ours, class... Theirs>
struct IsSameCall<Status (*)(Ours...), cublasStatus_t(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs))
      return false;
    else
      return ((sizeof(Ours) == sizeof(Theirs) &&
               std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
  }();
};
#define NIBBLE_CUBLASLT_CHECK(name, ...) \
  static_assert(IsSameCall<decltype(Functions::name), decltype(::cublasLt##name)>::value, #name);
NIBBLE_CUBLASLT_FUNCTIONS(NIBBLE_CUBLASLT_CHECK)
#undef NIBBLE_CUBLASLT_CHECK

}  // namespace nibble::cublaslt_abi
