#include "engine/logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace nibble::engine {
namespace {

using text::TokenId;

// Into functions for other instruction sets, where it becomes their code.
#define NIBBLE_INLINE [[gnu::always_inline]] inline

constexpr std::size_t kLanes = 16;  // independent chains, for any vector width up to 512 bits
// Up to here a heap beats a partition of all ids: after a few thousand logits hardly one enters it.
constexpr std::int64_t kMostInHeap = 1024;

// e^x for x in [-700, 0], without a branch or a call, so that the compiler makes vector code of it:
// x = k ln 2 + r with |r| <= ln 2 / 2; the series to r^11 / 11! leaves 0.3466^12 / 12! = 6e-15.
NIBBLE_INLINE double exp_of_negative(double x) {
  constexpr double kInverseLn2 = 1.4426950408889634;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 33 bits: k times it is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kToInteger = 0x1.8p52;  // adding it leaves an integer in the low bits
  const double shifted = x * kInverseLn2 + kToInteger;
  const double k = shifted - kToInteger;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double series = 1.0 / 39916800;
  series = series * r + 1.0 / 3628800;
  series = series * r + 1.0 / 362880;
  series = series * r + 1.0 / 40320;
  series = series * r + 1.0 / 5040;
  series = series * r + 1.0 / 720;
  series = series * r + 1.0 / 120;
  series = series * r + 1.0 / 24;
  series = series * r + 1.0 / 6;
  series = series * r + 0.5;
  series = series * r + 1.0;
  series = series * r + 1.0;
  // k as an integer, moved to the exponent's place; k >= -1011 keeps the result normal.
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(series) + exponent);
}

// The more probable one first.
auto more_probable(std::span<const float> logits) {
  return [logits](TokenId a, TokenId b) {
    const float first = logits[static_cast<std::size_t>(a)];
    const float second = logits[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  };
}

std::vector<TokenId> largest_by_heap(std::span<const float> logits, std::size_t count) {
  const auto before = more_probable(logits);
  std::vector<TokenId> heap(count);  // its front is the least probable one
  std::iota(heap.begin(), heap.end(), 0);
  std::make_heap(heap.begin(), heap.end(), before);
  for (std::size_t start = count; start < logits.size(); start += 64) {
    const auto block = logits.subspan(start, std::min<std::size_t>(64, logits.size() - start));
    const float least = logits[static_cast<std::size_t>(heap.front())];
    if (!(largest_logit(block) > least)) continue;
    for (std::size_t index = start; index < start + block.size(); ++index) {
      if (!(logits[index] > logits[static_cast<std::size_t>(heap.front())])) continue;
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.back() = static_cast<TokenId>(index);
      std::push_heap(heap.begin(), heap.end(), before);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  return heap;
}

NIBBLE_INLINE double weigh(std::span<const float> logits, const Exponents& exponents,
                           std::span<double> weights) {
  constexpr double kLowest = -700;
  const double top = exponents.largest;
  const double scale = exponents.scale;
  const double least = exponents.least;
  std::array<double, kLanes> sums = {};
  const std::size_t count = logits.size();
  const std::size_t whole = count - count % kLanes;
  auto weight_of = [=](float logit) __attribute__((always_inline)) {
    const double x = (static_cast<double>(logit) - top) * scale;
    const double weight = exp_of_negative(x > kLowest ? x : kLowest);
    return x > kLowest && weight >= least ? weight : 0.0;
  };
  for (std::size_t index = 0; index < whole; index += kLanes) {
    const float* from = &logits[index];
    double* to = &weights[index];
    for (std::size_t lane = 0; lane < kLanes; ++lane) to[lane] = weight_of(from[lane]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += to[lane];
  }
  for (std::size_t index = whole; index < count; ++index) {
    weights[index] = weight_of(logits[index]);
    sums[0] += weights[index];
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) double weigh_avx2(std::span<const float> logits,
                                                  const Exponents& exponents,
                                                  std::span<double> weights) {
  return weigh(logits, exponents, weights);
}
__attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))) double weigh_avx512(
    std::span<const float> logits, const Exponents& exponents, std::span<double> weights) {
  return weigh(logits, exponents, weights);
}
#endif

}  // namespace

bool all_finite(std::span<const float> logits) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t faults = 0;
  for (const float logit : logits) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(logit) & kExponent;
    faults |= static_cast<std::uint32_t>(bits == kExponent);
  }
  return faults == 0;
}

float largest_logit(std::span<const float> logits) {
  std::array<float, kLanes> best;
  best.fill(-std::numeric_limits<float>::infinity());
  std::size_t index = 0;
  for (; index + kLanes <= logits.size(); index += kLanes) {
    const float* values = &logits[index];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = values[lane] > best[lane] ? values[lane] : best[lane];
    }
  }
  for (; index < logits.size(); ++index) best[0] = std::max(best[0], logits[index]);
  return *std::ranges::max_element(best);
}

TokenId first_of(std::span<const float> logits, float value) {
  const auto found = std::ranges::find(logits, value);
  NIBBLE_CHECK(found != logits.end());
  return static_cast<TokenId>(found - logits.begin());
}

std::vector<TokenId> largest_tokens(std::span<const float> logits, std::int64_t count) {
  const auto wanted = std::min(static_cast<std::size_t>(count), logits.size());
  if (wanted == 0) return {};
  if (count <= kMostInHeap) return largest_by_heap(logits, wanted);
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = more_probable(logits);
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(wanted), ids.end(),
                    before);
  ids.resize(wanted);
  return ids;
}

double exponentials(std::span<const float> logits, const Exponents& exponents,
                    std::span<double> weights, Isa isa) {
  NIBBLE_CHECK(weights.size() == logits.size());
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return weigh_avx512(logits, exponents, weights);
  if (isa == Isa::kAvx2) return weigh_avx2(logits, exponents, weights);
#endif
  static_cast<void>(isa);
  return weigh(logits, exponents, weights);
}

}  // namespace nibble::engine
