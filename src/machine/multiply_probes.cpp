// Written in assembly, so that the accumulators stay in registers and nothing is hoisted out of the
// loop: a compiler that sees the same product twice computes it once, and one that spills measures
// its stack.
//
// Twelve accumulators (latency 4-5 cycles x 2 units need 8-10 chains), operands in registers 12 and
// 13, a product that still has to be added in registers 14 and 15.
#include <type_traits>

#include "machine/cpu_probes.h"
#include "machine/isa.h"

namespace nibble {
namespace {

constexpr int kChains = 12;

#if defined(__x86_64__)

// Bytes 0x3F: 0.747 as fp32 and as bf16, 63 as int8. Sums of fp32 grow by 0.56 a round and stay
// exact enough to be normal numbers; integers wrap around. Neither is slower than other values.
alignas(64) constexpr unsigned char kOperand[64] = {
    0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F,
    0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F,
    0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F,
    0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F, 0x3F};

// clang-format off
#define NIBBLE_TWELVE(STEP, R)                                                          \
  STEP(R, "0", "14") STEP(R, "1", "15") STEP(R, "2", "14") STEP(R, "3", "15")           \
  STEP(R, "4", "14") STEP(R, "5", "15") STEP(R, "6", "14") STEP(R, "7", "15")           \
  STEP(R, "8", "14") STEP(R, "9", "15") STEP(R, "10", "14") STEP(R, "11", "15")

#define NIBBLE_ZERO(R, A, P) "vxorps %%xmm" A ", %%xmm" A ", %%xmm" A "\n\t"

// One instruction multiplies and adds.
#define NIBBLE_FMA(R, A, P) "vfmadd231ps %%" R "13, %%" R "12, %%" R A "\n\t"
#define NIBBLE_DPBF16(R, A, P) "vdpbf16ps %%" R "13, %%" R "12, %%" R A "\n\t"
#define NIBBLE_DPWSSD(R, A, P) "vpdpwssd %%" R "13, %%" R "12, %%" R A "\n\t"
#define NIBBLE_DPBUSD(R, A, P) "vpdpbusd %%" R "13, %%" R "12, %%" R A "\n\t"
// Products of neighbours are added in the width of the next type, then to the sum.
#define NIBBLE_MADDWD(R, A, P)                            \
  "vpmaddwd %%" R "13, %%" R "12, %%" R P "\n\t"          \
  "vpaddd %%" R P ", %%" R A ", %%" R A "\n\t"
#define NIBBLE_MADDUBSW(R, A, P)                          \
  "vpmaddubsw %%" R "13, %%" R "12, %%" R P "\n\t"        \
  "vpaddw %%" R P ", %%" R A ", %%" R A "\n\t"
#define NIBBLE_MADDUBSW_MADDWD(R, A, P)                   \
  "vpmaddubsw %%" R "13, %%" R "12, %%" R P "\n\t"        \
  "vpmaddwd %%" R "13, %%" R P ", %%" R P "\n\t"          \
  "vpaddd %%" R P ", %%" R A ", %%" R A "\n\t"

#define NIBBLE_PROBE(NAME, TARGET, LOAD, R, STEP)                                       \
  __attribute__((target(TARGET))) void NAME(std::int64_t rounds) {                      \
    asm volatile(                                                                       \
        LOAD " (%[operand]), %%" R "12\n\t" LOAD " (%[operand]), %%" R "13\n\t"         \
        NIBBLE_TWELVE(NIBBLE_ZERO, R)                                                   \
        ".p2align 5\n"                                                                  \
        "1:\n\t" NIBBLE_TWELVE(STEP, R)                                                 \
        "sub $1, %[rounds]\n\t"                                                         \
        "jnz 1b\n\t"                                                                    \
        "vzeroupper\n\t"                                                                \
        : [rounds] "+r"(rounds)                                                         \
        : [operand] "r"(&kOperand[0])                                                   \
        : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",       \
          "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"); \
  }
// clang-format on

NIBBLE_PROBE(fma_avx2, "avx2,fma", "vmovups", "ymm", NIBBLE_FMA)
NIBBLE_PROBE(maddwd_avx2, "avx2", "vmovups", "ymm", NIBBLE_MADDWD)
NIBBLE_PROBE(maddubsw_avx2, "avx2", "vmovups", "ymm", NIBBLE_MADDUBSW)
NIBBLE_PROBE(maddubsw_maddwd_avx2, "avx2", "vmovups", "ymm", NIBBLE_MADDUBSW_MADDWD)
NIBBLE_PROBE(fma_avx512, "avx512f", "vmovups", "zmm", NIBBLE_FMA)
NIBBLE_PROBE(maddwd_avx512, "avx512bw", "vmovups", "zmm", NIBBLE_MADDWD)
NIBBLE_PROBE(maddubsw_avx512, "avx512bw", "vmovups", "zmm", NIBBLE_MADDUBSW)
NIBBLE_PROBE(dpwssd_avx512, "avx512vnni", "vmovups", "zmm", NIBBLE_DPWSSD)
NIBBLE_PROBE(dpbusd_avx512, "avx512vnni", "vmovups", "zmm", NIBBLE_DPBUSD)
NIBBLE_PROBE(dpbf16_avx512, "avx512bf16", "vmovups", "zmm", NIBBLE_DPBF16)

// Multiply-adds of one instruction: the lanes of the wider operand.
constexpr double operations(int register_bytes, int element_bytes) {
  return 2.0 * kChains * register_bytes / element_bytes;
}

void add_avx2(std::vector<MultiplyProbe>& probes) {
  constexpr int kBytes = 32;
  probes.push_back({Precision::kFp32, "vfmadd231ps (avx2)", operations(kBytes, 4), fma_avx2});
  probes.push_back(
      {Precision::kBf16, "vpmaddwd+vpaddd (avx2)", operations(kBytes, 2), maddwd_avx2});
  probes.push_back(
      {Precision::kInt8, "vpmaddubsw+vpaddw (avx2)", operations(kBytes, 1), maddubsw_avx2});
  probes.push_back({Precision::kInt8, "vpmaddubsw+vpmaddwd+vpaddd (avx2)", operations(kBytes, 1),
                    maddubsw_maddwd_avx2});
}

void add_avx512(std::vector<MultiplyProbe>& probes) {
  constexpr int kBytes = 64;
  probes.push_back({Precision::kFp32, "vfmadd231ps (avx512)", operations(kBytes, 4), fma_avx512});
  probes.push_back(
      {Precision::kBf16, "vpmaddwd+vpaddd (avx512)", operations(kBytes, 2), maddwd_avx512});
  probes.push_back({Precision::kBf16, "vpdpwssd (avx512)", operations(kBytes, 2), dpwssd_avx512});
  if (has_avx512_bf16()) {
    probes.push_back(
        {Precision::kBf16, "vdpbf16ps (avx512)", operations(kBytes, 2), dpbf16_avx512});
  }
  probes.push_back(
      {Precision::kInt8, "vpmaddubsw+vpaddw (avx512)", operations(kBytes, 1), maddubsw_avx512});
  probes.push_back({Precision::kInt8, "vpdpbusd (avx512)", operations(kBytes, 1), dpbusd_avx512});
}

#endif

// Other processors: what the compiler makes of plain C++.
template <class Sum, class Operand>
void multiply_portable(std::int64_t rounds) {
  constexpr int kLanes = 16 / sizeof(Sum);  // one SSE or NEON register a chain
  Sum sums[kChains * kLanes] = {};
  Operand operands[kChains * kLanes];
  for (Operand& operand : operands) operand = static_cast<Operand>(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : : "g"(&sums[0]), "g"(&operands[0]) : "memory");
    for (int lane = 0; lane < kChains * kLanes; ++lane) {
      const auto operand = static_cast<Sum>(operands[lane]);
      if constexpr (std::is_floating_point_v<Sum>) {
        sums[lane] = sums[lane] * static_cast<Sum>(0.5) + operand;  // converges to 2
      } else {
        sums[lane] = static_cast<Sum>(sums[lane] + static_cast<Sum>(operand * operand));
      }
    }
  }
  asm volatile("" : : "g"(&sums[0]) : "memory");
}

void add_portable(std::vector<MultiplyProbe>& probes) {
  constexpr double kOperations = 2.0 * kChains * 16;
  probes.push_back({Precision::kFp32, "fp32 (portable)", kOperations / sizeof(float),
                    multiply_portable<float, float>});
  probes.push_back({Precision::kBf16, "int16 (portable)", kOperations / sizeof(std::uint32_t),
                    multiply_portable<std::uint32_t, std::uint16_t>});
  probes.push_back({Precision::kInt8, "int8 (portable)", kOperations / sizeof(std::uint16_t),
                    multiply_portable<std::uint16_t, std::uint8_t>});
}

}  // namespace

std::vector<MultiplyProbe> multiply_probes() {
  std::vector<MultiplyProbe> probes;
#if defined(__x86_64__)
  if (is_usable(Isa::kAvx2)) add_avx2(probes);
  if (is_usable(Isa::kAvx512)) add_avx512(probes);
#endif
  if (probes.empty()) add_portable(probes);
  return probes;
}

}  // namespace nibble
