// Which GPUs and which messages `nibble bench link` measures, as they are written on a command
// line.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto devices, parse_link_devices("cuda:0,1"));   // {0, 1}
//   NIBBLE_ASSIGN_OR_RETURN(const auto sizes, parse_message_sizes("2KB..64MB"));   // 16 sizes
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble {

inline constexpr int kMostLinkDevices = 16;
inline constexpr std::int64_t kLeastMessageBytes = 256;  // 8 B for each of 16 ranks, and aligned
inline constexpr std::int64_t kMostMessageBytes = std::int64_t{1} << 30;
inline constexpr std::size_t kMostMessageSizes = 64;

struct LinkRequest {
  std::vector<int> devices;  // ordinals; empty: all that there are
  std::vector<std::int64_t> sizes;
  double row_seconds = 0.25;  // budget of one size of one curve
  std::string nccl;           // the library's file; empty: as the loader finds libnccl.so.2
};

// "cuda:0,1", "cuda:0,cuda:3", or "all" (no ordinals). At least two, each once.
Result<std::vector<int>> parse_link_devices(std::string_view text);

// "2KB..64MB" (doubling), "4KB,1MB", or both; B, KB, MB and GB are powers of 1,024 B, as message
// sizes are counted. Sorted, each once.
Result<std::vector<std::int64_t>> parse_message_sizes(std::string_view text);

// "2 KB", "64 MB"; "1.5 KB" and "257 B" where it is no whole number.
std::string message_size_text(double bytes);

}  // namespace nibble
