#include "machine/cpu_roofs.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <thread>

#include "base/check.h"
#include "base/stats.h"
#include "base/units.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nibble {
namespace {

using Clock = std::chrono::steady_clock;

// Runs work(thread) on every thread `passes` times, all starting together; returns the seconds of
// each pass from the first start to the last end.
std::vector<double> timed_passes(int threads, int passes, const std::function<void(int)>& prepare,
                                 const std::function<void(int)>& work) {
  struct Span {
    Clock::time_point start;
    Clock::time_point end;
  };
  const auto pass_count = static_cast<std::size_t>(passes);
  std::vector<std::vector<Span>> spans(static_cast<std::size_t>(threads),
                                       std::vector<Span>(pass_count));
  std::barrier gate(threads);
  const auto run = [&](int thread) {
    prepare(thread);
    for (std::size_t pass = 0; pass < pass_count; ++pass) {
      gate.arrive_and_wait();
      Span& span = spans[static_cast<std::size_t>(thread)][pass];
      span.start = Clock::now();
      work(thread);
      span.end = Clock::now();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  std::vector<double> seconds;
  for (std::size_t pass = 0; pass < pass_count; ++pass) {
    Clock::time_point start = spans[0][pass].start;
    Clock::time_point end = spans[0][pass].end;
    for (const std::vector<Span>& thread_spans : spans) {
      start = std::min(start, thread_spans[pass].start);
      end = std::max(end, thread_spans[pass].end);
    }
    seconds.push_back(std::chrono::duration<double>(end - start).count());
  }
  return seconds;
}

// Keeps a result that nothing reads.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// Reading: four streams a thread, each a line at a time with the line 1 KB ahead requested into all
// caches. Measured on 16 cores of a Xeon with AMX: one stream without requests 88 GB/s, this 97
// GB/s, requests that pass the outer caches by (locality 0) 36 GB/s: the inner cache has too few of
// them in flight. On two Zen 3 cores one stream reads 12-17 GB/s, four 21 GB/s.
constexpr std::size_t kStreams = 4;
constexpr std::size_t kLineWords = 8;  // 64 B
constexpr std::size_t kPrefetchWords = 128;
constexpr std::size_t kStepBytes = kStreams * kLineWords * sizeof(std::uint64_t);

using Words = std::uint64_t __attribute__((vector_size(32), aligned(8), may_alias));
using ReadKernel = std::uint64_t (*)(const std::uint64_t* words, std::size_t count);

[[gnu::always_inline]] inline std::uint64_t sum_streams(const std::uint64_t* words,
                                                        std::size_t count) {
  const std::size_t length = count / kStreams;
  Words low = {};
  Words high = {};
  for (std::size_t at = 0; at + kLineWords <= length; at += kLineWords) {
#pragma GCC unroll 4
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t* line = words + stream * length + at;
      __builtin_prefetch(line + kPrefetchWords, 0, 3);
      low += *reinterpret_cast<const Words*>(line);
      high += *reinterpret_cast<const Words*>(line + kLineWords / 2);
    }
  }
  low += high;
  return low[0] + low[1] + low[2] + low[3];
}

std::uint64_t sum_portable(const std::uint64_t* words, std::size_t count) {
  return sum_streams(words, count);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::uint64_t sum_avx2(const std::uint64_t* words,
                                                       std::size_t count) {
  return sum_streams(words, count);
}
#endif

ReadKernel choose_read() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return sum_avx2;
#endif
  return sum_portable;
}

struct Free {
  void operator()(std::uint64_t* words) const { std::free(words); }
};
using Slice = std::unique_ptr<std::uint64_t[], Free>;

// Memory in huge pages where the kernel grants them: page walks would cost a fifth of the rate.
Slice allocate_slice(std::size_t bytes) {
  constexpr std::size_t kHugePage = 2 << 20;
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 1, rounded);
  return Slice(static_cast<std::uint64_t*>(memory));
}

// Each kernel does `rounds` rounds of independent multiply-adds and returns the FLOP it did. The
// factor 0.5 and summand 1 converge to 2: no overflow, no denormal that would slow it down.
using FmaKernel = double (*)(std::int64_t rounds);
constexpr int kChains = 12;  // latency 4-5 cycles x 2 units need 8-10 chains; 16 registers hold 12

double fma_portable(std::int64_t rounds) {
  constexpr int kLanes = 4;  // one SSE or NEON register
  float sums[kChains * kLanes] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (float& sum : sums) sum = sum * 0.5F + 1.0F;
    keep(sums);
  }
  return 2.0 * kChains * kLanes * static_cast<double>(rounds);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double fma_avx2(std::int64_t rounds) {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256 one = _mm256_set1_ps(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) {
      sums[chain] = _mm256_fmadd_ps(sums[chain], half, one);
    }
  }
  keep(sums);
  return 2.0 * kChains * 8 * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) double fma_avx512(std::int64_t rounds) {
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 half = _mm512_set1_ps(0.5F);
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) {
      sums[chain] = _mm512_fmadd_ps(sums[chain], half, one);
    }
  }
  keep(sums);
  return 2.0 * kChains * 16 * static_cast<double>(rounds);
}
#endif

FmaKernel choose_fma(std::string& path) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    path = "avx512";
    return fma_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    path = "avx2+fma";
    return fma_avx2;
  }
#endif
  path = "portable";
  return fma_portable;
}

void measure_read(const CpuRoofRequest& request, CpuRoofs& roofs) {
  const auto threads = static_cast<std::size_t>(request.threads);
  const std::size_t slice_bytes =
      std::max<std::size_t>(1,
                            static_cast<std::size_t>(request.buffer_bytes) / threads / kStepBytes) *
      kStepBytes;
  const ReadKernel kernel = choose_read();
  std::vector<Slice> slices(threads);
  std::atomic<std::uint64_t> total = 0;
  // Each thread touches its own slice first, so that the slice lies in the thread's own memory.
  const auto prepare = [&](int thread) {
    slices[static_cast<std::size_t>(thread)] = allocate_slice(slice_bytes);
  };
  const auto work = [&](int thread) {
    const std::uint64_t* words = slices[static_cast<std::size_t>(thread)].get();
    total += kernel(words, slice_bytes / sizeof(std::uint64_t));
  };
  const double bytes = static_cast<double>(slice_bytes * threads);
  for (const double seconds : timed_passes(request.threads, request.passes, prepare, work)) {
    roofs.read_passes.push_back(bytes / seconds / kGiga);
  }
  // Every byte is 1, so the sum says whether every word was read in every pass.
  constexpr std::uint64_t kWord = 0x0101010101010101;
  const std::uint64_t words = slice_bytes / sizeof(std::uint64_t) * threads;
  NIBBLE_CHECK(total == kWord * words * static_cast<std::uint64_t>(request.passes));
  roofs.read_gb_s = median(roofs.read_passes);
}

void measure_fp32(const CpuRoofRequest& request, CpuRoofs& roofs) {
  const FmaKernel kernel = choose_fma(roofs.fp32_path);
  constexpr std::int64_t kRounds =
      1'500'000;  // about 5 ms: 12 chains at 2 a cycle and 3 GHz is 3 ms
  std::vector<double> flops(static_cast<std::size_t>(request.threads));
  const auto work = [&](int thread) { flops[static_cast<std::size_t>(thread)] = kernel(kRounds); };
  // The warm-up lets the clock settle at what wide vectors allow.
  const auto warm_up = [&](int) { keep(kernel(kRounds)); };
  for (const double seconds : timed_passes(request.threads, request.passes, warm_up, work)) {
    double total = 0;
    for (const double flop : flops) total += flop;
    roofs.fp32_passes.push_back(total / seconds / kTera);
  }
  roofs.fp32_tflops = median(roofs.fp32_passes);
}

}  // namespace

CpuRoofs measure_cpu_roofs(const CpuRoofRequest& request) {
  NIBBLE_CHECK(request.threads >= 1 && request.passes >= 1 && request.buffer_bytes > 0);
  CpuRoofs roofs;
  measure_read(request, roofs);
  measure_fp32(request, roofs);
  return roofs;
}

double read_buffer_bytes(double last_level_cache_bytes, double available_bytes) {
  constexpr double kLeast = 256e6;
  // 2.5 x leaves less than 40 % to whatever part the caches keep between passes.
  const double wanted = std::max(kLeast, 2.5 * last_level_cache_bytes);
  return std::min(wanted, available_bytes / 2);
}

}  // namespace nibble
