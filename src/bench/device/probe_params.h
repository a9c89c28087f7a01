// The parameters of the kernels in bench/device/probes.cuh, as host and device both see them.
//
//   launch(read_plain, shape, stream, ReadParams{.data = buffer.address(), .units = bytes / 16});
#pragma once

#include "formats/host_device.h"

namespace nibble {

using DeviceAddress = unsigned long long;

inline constexpr int kReadThreads = 512;  // of a block of read_plain
inline constexpr int kReadsInFlight = 4;  // 16-byte loads of a thread
inline constexpr int kBulkThreads = 128;
inline constexpr int kMmaThreads = 512;  // 16 warps an SM: the rate is full from 8 on
inline constexpr int kMmaTiles = 8;      // independent accumulators of a warp
inline constexpr int kFillThreads = 256;

// One bulk copy engine's work: so many stages of so many bytes in shared memory.
struct BulkParams {
  DeviceAddress data = 0;
  DeviceAddress sink = 0;  // 4 bytes, never written in practice
  int64_t tiles = 0;       // of stage_bytes
  int stages = 0;          // at most kMostBulkStages
  int stage_bytes = 0;
};
inline constexpr int kMostBulkStages = 32;

struct ReadParams {
  DeviceAddress data = 0;
  DeviceAddress sink = 0;
  int64_t units = 0;  // of 16 bytes
  int passes = 1;     // over all of it
};

struct CopyParams {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
  int64_t units = 0;  // of 16 bytes
};

struct MmaParams {
  DeviceAddress sink = 0;
  int rounds = 0;  // of kMmaTiles products a warp
};

struct HoldParams {
  int64_t nanoseconds = 0;
};

// What random bytes are to be.
enum class Filling : int {
  kBits,   // anything
  kBf16,   // 16-bit floats of size 0.5 to 2, either sign
  kFp16,   // the same in fp16
  kFp8,    // e4m3 of size 0.25 to 0.5 or 1 to 2, either sign
  kTiles,  // weight tiles of kernels/gemm/device/w4a16_layout.h: codes, then scales near 1
};

struct FillParams {
  DeviceAddress data = 0;
  int64_t bytes = 0;  // a multiple of 16
  int64_t seed = 0;
  int tile_bytes = 0;  // kTiles: of a tile
  int code_bytes = 0;  // kTiles: of them codes
  int scale_low = 0;   // kTiles: scale bytes are scale_low .. scale_low + scale_count - 1
  int scale_count = 1;
  Filling filling = Filling::kBits;
};

}  // namespace nibble
