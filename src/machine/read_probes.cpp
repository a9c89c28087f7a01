// Which loop reads fastest differs from processor to processor: on 16 cores of a Xeon with AMX one
// stream without requests reads 88 GB/s and four with them 97; on two Zen 3 cores one stream reads
// 12-17 GB/s and four 21. Requests go to all caches: with those that pass the outer caches by the
// Xeon reads 36 GB/s, since the inner cache has too few of them in flight.
#include <fmt/core.h>

#include "machine/cpu_probes.h"
#include "machine/isa.h"

namespace nibble {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLineWords = kLineBytes / sizeof(std::uint64_t);

// One register; `aligned(8)`: a stream may start at any word.
using Words16 = std::uint64_t __attribute__((vector_size(16), aligned(8), may_alias));
using Words32 = std::uint64_t __attribute__((vector_size(32), aligned(8), may_alias));
using Words64 = std::uint64_t __attribute__((vector_size(64), aligned(8), may_alias));

template <int kStreams, int kAheadBytes, class Words>
[[gnu::always_inline]] inline std::uint64_t sum_streams(const std::uint64_t* words,
                                                        std::size_t count) {
  constexpr std::size_t kLoads = kLineBytes / sizeof(Words);
  const std::size_t length = count / kStreams;
  Words sums[kLoads] = {};
  for (std::size_t at = 0; at + kLineWords <= length; at += kLineWords) {
#pragma GCC unroll 8
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t* line = words + stream * length + at;
      if constexpr (kAheadBytes > 0) {
        __builtin_prefetch(line + kAheadBytes / sizeof(std::uint64_t), 0, 3);
      }
#pragma GCC unroll 4
      for (std::size_t load = 0; load < kLoads; ++load) {
        sums[load] += *reinterpret_cast<const Words*>(line + load * kLineWords / kLoads);
      }
    }
  }
  std::uint64_t total = 0;
  for (const Words& sum : sums) {
    for (std::size_t lane = 0; lane < sizeof(Words) / sizeof(std::uint64_t); ++lane)
      total += sum[lane];
  }
  return total;
}

template <int kStreams, int kAheadBytes>
std::uint64_t read_portable(const std::uint64_t* words, std::size_t count) {
  return sum_streams<kStreams, kAheadBytes, Words16>(words, count);
}

#if defined(__x86_64__)
template <int kStreams, int kAheadBytes>
__attribute__((target("avx2"))) std::uint64_t read_avx2(const std::uint64_t* words,
                                                        std::size_t count) {
  return sum_streams<kStreams, kAheadBytes, Words32>(words, count);
}

template <int kStreams, int kAheadBytes>
__attribute__((target("avx512f"))) std::uint64_t read_avx512(const std::uint64_t* words,
                                                             std::size_t count) {
  return sum_streams<kStreams, kAheadBytes, Words64>(words, count);
}
#endif

template <int kStreams, int kAheadBytes>
void add_widths(std::vector<ReadProbe>& probes) {
#if defined(__x86_64__)
  if (is_usable(Isa::kAvx512)) {
    probes.push_back({kStreams, kAheadBytes, "avx512", read_avx512<kStreams, kAheadBytes>});
  }
  if (is_usable(Isa::kAvx2)) {
    probes.push_back({kStreams, kAheadBytes, "avx2", read_avx2<kStreams, kAheadBytes>});
    return;
  }
#endif
  probes.push_back({kStreams, kAheadBytes, "portable", read_portable<kStreams, kAheadBytes>});
}

template <int kStreams>
void add_distances(std::vector<ReadProbe>& probes) {
  add_widths<kStreams, 0>(probes);
  add_widths<kStreams, 512>(probes);
  add_widths<kStreams, 1024>(probes);
}

}  // namespace

std::string to_string(const ReadProbe& probe) {
  return fmt::format("{} stream{}, {}, {}", probe.streams, probe.streams == 1 ? "" : "s",
                     probe.prefetch_bytes > 0 ? fmt::format("{} B ahead", probe.prefetch_bytes)
                                              : "no requests ahead",
                     probe.loads);
}

std::vector<ReadProbe> read_probes() {
  std::vector<ReadProbe> probes;
  add_distances<1>(probes);
  add_distances<2>(probes);
  add_distances<4>(probes);
  add_distances<8>(probes);
  return probes;
}

}  // namespace nibble
