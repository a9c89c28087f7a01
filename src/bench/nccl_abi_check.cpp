// Compares our declarations of NCCL with its own header; compiled only where that header is.
#include <nccl.h>
#include <tuple>
#include <type_traits>

#include "bench/nccl_abi.h"

namespace nibble::nccl_abi {
namespace {

// One parameter or result as the header has it, and as we declare it.
template <class Theirs, class Ours>
constexpr bool alike() {
  if constexpr (std::is_enum_v<Theirs>) {
    return std::is_same_v<Ours, int> && sizeof(Theirs) == sizeof(int);
  } else if constexpr (std::is_pointer_v<Theirs> && std::is_pointer_v<Ours>) {
    using TheirTarget = std::remove_pointer_t<Theirs>;
    using OurTarget = std::remove_pointer_t<Ours>;
    if constexpr (std::is_same_v<Theirs, ncclComm_t>) return std::is_same_v<Ours, Comm>;
    if constexpr (std::is_same_v<Theirs, cudaStream_t>) return std::is_same_v<Ours, Stream>;
    if constexpr (std::is_same_v<TheirTarget, ncclComm_t>) return std::is_same_v<OurTarget, Comm>;
    if constexpr (std::is_enum_v<TheirTarget>) return std::is_same_v<OurTarget, int>;
    return std::is_same_v<Theirs, Ours>;
  } else {
    return std::is_same_v<Theirs, Ours>;
  }
}

template <class Theirs, class Ours>
struct SameSignature : std::false_type {};
template <class R1, class... P1, class R2, class... P2>
struct SameSignature<R1(P1...), R2(P2...)> {
  static constexpr bool value() {
    if constexpr (sizeof...(P1) != sizeof...(P2)) {
      return false;
    } else {
      return alike<R1, R2>() && (alike<P1, P2>() && ...);
    }
  }
};

#define NIBBLE_NCCL_SAME(name, result, ...)                                    \
  static_assert(SameSignature<decltype(::name), result(__VA_ARGS__)>::value(), \
                #name " is declared otherwise in nccl.h");
NIBBLE_NCCL_FUNCTIONS(NIBBLE_NCCL_SAME)
#undef NIBBLE_NCCL_SAME

static_assert(ncclSuccess == kSuccess && ncclBfloat16 == kBfloat16 && ncclSum == kSum);

}  // namespace
}  // namespace nibble::nccl_abi
