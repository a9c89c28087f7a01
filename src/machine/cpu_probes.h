// Loops that do one thing as fast as this processor can: read memory, or multiply and add. The best
// of a table of them is a roof (machine/cpu_roofs.h).
//
//   for (const ReadProbe& probe : read_probes()) probe.read(words, count);
//   for (const MultiplyProbe& probe : multiply_probes()) probe.run(1000);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/format.h"

namespace nibble {

struct ReadProbe {
  int streams = 1;         // places that a thread reads from in turn
  int prefetch_bytes = 0;  // how far ahead a line is requested; 0: left to the hardware
  const char* loads = "";  // "portable", "avx2", "avx512"
  // Sums `count` words of 8 bytes; `count` is a multiple of kReadStepBytes / 8.
  std::uint64_t (*read)(const std::uint64_t* words, std::size_t count) = nullptr;
};

// Every probe reads whole multiples of this: 8 streams of 64 bytes.
inline constexpr std::size_t kReadStepBytes = 512;

std::string to_string(const ReadProbe& probe);  // "4 streams, 512 B ahead, avx2"

// Those that this processor can run: 1, 2, 4, 8 streams x 0, 512, 1024 bytes ahead x each width.
std::vector<ReadProbe> read_probes();

struct MultiplyProbe {
  Precision precision = Precision::kFp32;  // kFp32, kBf16 (16-bit activations) or kInt8
  const char* path = "";                   // "vpmaddubsw+vpaddw (avx2)"
  double operations = 0;                   // of one round; a multiply-add counts as two
  void (*run)(std::int64_t rounds) = nullptr;
};

std::vector<MultiplyProbe> multiply_probes();  // those that this processor can run

}  // namespace nibble
