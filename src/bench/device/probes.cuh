// The roofs of a GPU as kernels: what reads, copies, multiplies or does nothing as fast as can be.
// Sums of what was read go to `sink` if they are one number in four billion, so that no compiler
// leaves the reads out.
#pragma once

#include "bench/device/probe_params.h"
#include "kernels/device/types.cuh"
#include "kernels/ptx/address.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/globaltimer.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared.cuh"
#include "kernels/ptx/stream_load.cuh"

namespace nibble {

constexpr uint32_t kUnlikely = 0x9e3779b9;

NIBBLE_DEVICE uint32_t xor_of(const Bits128& v) {
  return v.word[0] ^ v.word[1] ^ v.word[2] ^ v.word[3];
}

NIBBLE_DEVICE void keep_sum(uint32_t sum, DeviceAddress sink) {
  if (sum == kUnlikely) *reinterpret_cast<uint32_t*>(sink) = sum;
}

// 16-byte loads, kReadsInFlight of a thread at a time, each warp's side by side.
extern "C" __global__ void __launch_bounds__(kReadThreads)
    read_plain(const __grid_constant__ ReadParams params) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Bits128* data = reinterpret_cast<const Bits128*>(params.data);
  uint32_t sum = 0;
  for (int64_t at = first; at < params.units; at += threads * kReadsInFlight) {
    Bits128 values[kReadsInFlight];
#pragma unroll
    for (int read = 0; read < kReadsInFlight; ++read) {
      const int64_t place = at + read * threads;
      values[read] = place < params.units ? ptx::ld_global_nc_16(data + place) : Bits128{};
    }
#pragma unroll
    for (int read = 0; read < kReadsInFlight; ++read) sum ^= xor_of(values[read]);
  }
  keep_sum(sum, params.sink);
}

// The same memory over and over, from L2; every pass begins elsewhere, so that no SM meets what it
// read in the pass before.
extern "C" __global__ void __launch_bounds__(kReadThreads)
    read_l2(const __grid_constant__ ReadParams params) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const Bits128* data = reinterpret_cast<const Bits128*>(params.data);
  uint32_t sum = 0;
  for (int32_t pass = 0; pass < params.passes; ++pass) {
    const int64_t block = (blockIdx.x + 37 * pass) % gridDim.x;
    const int64_t first = block * blockDim.x + threadIdx.x;
    for (int64_t at = first; at + (kReadsInFlight - 1) * threads < params.units;
         at += threads * kReadsInFlight) {
      Bits128 values[kReadsInFlight];
#pragma unroll
      for (int read = 0; read < kReadsInFlight; ++read) {
        values[read] = ptx::ld_global_cg_16(data + at + read * threads);
      }
#pragma unroll
      for (int read = 0; read < kReadsInFlight; ++read) sum ^= xor_of(values[read]);
    }
  }
  keep_sum(sum, params.sink);
}

extern "C" __global__ void __launch_bounds__(kReadThreads)
    copy_plain(const __grid_constant__ CopyParams params) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Bits128* from = reinterpret_cast<const Bits128*>(params.from);
  Bits128* to = reinterpret_cast<Bits128*>(params.to);
  for (int64_t at = first; at < params.units; at += threads * kReadsInFlight) {
    Bits128 values[kReadsInFlight];
#pragma unroll
    for (int read = 0; read < kReadsInFlight; ++read) {
      const int64_t place = at + read * threads;
      values[read] = place < params.units ? ptx::ld_global_nc_16(from + place) : Bits128{};
    }
#pragma unroll
    for (int read = 0; read < kReadsInFlight; ++read) {
      const int64_t place = at + read * threads;
      if (place < params.units) ptx::st_global_cs_16(to + place, values[read]);
    }
  }
}

#if __CUDA_ARCH__ >= 900
// Bulk copies into a ring of stages: block b takes tiles b, b + blocks, ...
extern "C" __global__ void __launch_bounds__(kBulkThreads)
    read_bulk(const __grid_constant__ BulkParams params) {
  extern __shared__ __align__(128) unsigned char stages[];
  __shared__ __align__(8) uint64_t barriers[kMostBulkStages];
  const uint32_t barrier = ptx::cvta_to_shared(barriers);
  const uint32_t shared = ptx::cvta_to_shared(stages);
  const uint32_t bytes = static_cast<uint32_t>(params.stage_bytes);
  const char* data = reinterpret_cast<const char*>(params.data);
  const uint64_t policy = ptx::createpolicy_evict_first();  // nothing is met twice
  const auto ask = [&](int32_t stage, int64_t tile) {
    if (threadIdx.x != 0 || tile >= params.tiles) return;
    ptx::mbarrier_arrive_expect_tx(barrier + 8 * stage, bytes);
    ptx::cp_async_bulk(shared + stage * bytes, data + tile * bytes, bytes, barrier + 8 * stage,
                       policy);
  };
  if (threadIdx.x == 0) {
    for (int32_t stage = 0; stage < params.stages; ++stage) {
      ptx::mbarrier_init(barrier + 8 * stage, 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int64_t step = gridDim.x;
  for (int32_t stage = 0; stage < params.stages; ++stage) ask(stage, blockIdx.x + stage * step);
  uint32_t sum = 0;
  int32_t stage = 0;
  uint32_t parity = 0;
  for (int64_t tile = blockIdx.x; tile < params.tiles; tile += step) {
    while (!ptx::mbarrier_wait_parity(barrier + 8 * stage, parity)) {
    }
    for (uint32_t at = threadIdx.x * 16; at < bytes; at += kBulkThreads * 16) {
      sum ^= xor_of(ptx::ld_shared_16(shared + stage * bytes + at));
    }
    __syncthreads();  // the stage has been read by all before it is written again
    ask(stage, tile + params.stages * step);
    if (++stage == params.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  keep_sum(sum, params.sink);
}
#endif

// Products of registers alone. The operands are bf16 values near 1 that differ in every lane.
extern "C" __global__ void __launch_bounds__(kMmaThreads)
    mma_rate(const __grid_constant__ MmaParams params) {
  float sums[kMmaTiles][4] = {};
  uint32_t a[4];
  const uint32_t lane = threadIdx.x * 2654435761u;
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    a[word] = 0x3f803f80u ^ ((lane >> word) & 0x807f807fu);
  }
  const uint32_t b0 = 0x3f803f80u ^ ((lane >> 5) & 0x807f807fu);
  const uint32_t b1 = 0x3f803f80u ^ ((lane >> 7) & 0x807f807fu);
  for (int32_t round = 0; round < params.rounds; ++round) {
#pragma unroll
    for (int tile = 0; tile < kMmaTiles; ++tile) {
      ptx::mma_m16n8k16_bf16(sums[tile], a, b0, b1);
    }
  }
  float sum = 0;
#pragma unroll
  for (int tile = 0; tile < kMmaTiles; ++tile) {
    for (int value = 0; value < 4; ++value) sum += sums[tile][value];
  }
  keep_sum(__float_as_uint(sum), params.sink);
}

extern "C" __global__ void empty() {}

// May begin before the kernel before it has ended, and lets the next one begin.
extern "C" __global__ void empty_programmatic() {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
}

// Keeps the stream busy while the host gives it what is to be timed.
extern "C" __global__ void hold(const __grid_constant__ HoldParams params) {
  const uint64_t start = ptx::globaltimer();
  while (ptx::globaltimer() - start < static_cast<uint64_t>(params.nanoseconds)) {
  }
}

NIBBLE_DEVICE uint32_t mixed(uint64_t x) {  // SplitMix64's output function
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>(x >> 32);
}

// One word of 32 random bits made what the filling asks for; `at` is its byte.
NIBBLE_DEVICE uint32_t filled_word(const FillParams& params, uint32_t bits, int64_t at) {
  switch (params.filling) {
    case Filling::kBf16:  // exponent 126 or 127, any sign and mantissa
      return (bits & 0x80ff80ffu) | 0x3f003f00u;
    case Filling::kFp16:  // exponent 14 or 15
      return (bits & 0x87ff87ffu) | 0x38003800u;
    case Filling::kFp8:  // exponent 5 or 7 of a bias of 7
      return ((bits & 0x8f8f8f8fu) | 0x28282828u) + (bits & 0x10101010u);
    case Filling::kTiles:
      if (at % params.tile_bytes < params.code_bytes) return bits;
      break;
    default:
      return bits;
  }
  uint32_t scales = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const uint32_t random = (bits >> (8 * byte)) & 0xff;
    const uint32_t scale = params.scale_low + random % params.scale_count;
    scales |= scale << (8 * byte);
  }
  return scales;
}

extern "C" __global__ void __launch_bounds__(kFillThreads)
    fill_random(const __grid_constant__ FillParams params) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Bits128* data = reinterpret_cast<Bits128*>(params.data);
  for (int64_t unit = first; unit < params.bytes / 16; unit += threads) {
    Bits128 value;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int64_t at = unit * 16 + word * 4;
      const uint64_t counter = static_cast<uint64_t>(params.seed) * 0x9e3779b97f4a7c15ull +
                               static_cast<uint64_t>(at / 4) * 0xd1342543de82ef95ull;
      value.word[word] = filled_word(params, mixed(counter), at);
    }
    data[unit] = value;
  }
}

}  // namespace nibble
