// What the innermost loops of the 4-bit matrix product take from the caches, one core, in turn with
// the multiply roof: the numbers of docs/kernels.md. Not a Google Benchmark, since each sample is a
// pair of roof and loop.
//
//   build/bench/kernel_loops
#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "base/huge_buffer.h"
#include "base/stats.h"
#include "kernels/gemm/layout.h"
#include "machine/cpu_probes.h"
#include "measure/sampler.h"

namespace nibble {
namespace {

constexpr int kTiles = kUnitTiles;
constexpr std::int64_t kColumns = 2048;  // 64 groups: 74 KB packed, in L2
constexpr StopRule kRule{.half_width = 0.005, .least = 100, .most = 400, .budget_s = 0.4};

// A unit of random bytes: any code and any scale is a weight.
struct Operands {
  Result<HugeBuffer> weights = HugeBuffer::allocate(kTiles * tile_bytes() + 4096);
  std::vector<ActivationGroup> activations;  // [kPassStreams][stride]
  std::vector<Panel> panels = std::vector<Panel>(kTiles);
  alignas(64) float sums[kTiles][kPassStreams][kTileRows] = {};

  static std::size_t tile_bytes() {
    return static_cast<std::size_t>(groups_of(kColumns)) * kGroupBytes;
  }

  Operands() : activations(static_cast<std::size_t>(kPassStreams * stream_stride(kColumns))) {
    Random random(1);
    for (std::byte& byte : weights.value().bytes())
      byte = static_cast<std::byte>(random.below(176));
    for (ActivationGroup& group : activations) {
      for (std::int8_t& value : group.values) value = static_cast<std::int8_t>(random.below(255));
      group.scale[0] = group.scale[1] = 1e-9F;
    }
  }

  MultiplyArguments arguments(int first_stream, int streams, std::int64_t group, int groups) {
    MultiplyArguments all{.panels = panels.data(),
                          .packed = weights.value().bytes().data() + group * kGroupBytes,
                          .tile_bytes = tile_bytes(),
                          .tiles = kTiles,
                          .groups = groups,
                          .ahead_bytes = kAheadGroups * kGroupBytes,
                          .sums = sums[0][first_stream]};
    for (int at = 0; at < streams; ++at) {
      all.streams[at] = activations.data() + (first_stream + at) * stream_stride(kColumns) + group;
    }
    return all;
  }
};

double timed(const std::function<void()>& work) {
  const double start = steady_now();
  work();
  return steady_now() - start;
}

// Prints what `work`, which does `products` of 16 x 32 weights and a stream, takes.
void report(const std::string& name, double products, const MultiplyProbe& roof,
            const std::function<void()>& work) {
  constexpr std::int64_t kRounds = 20000;
  double rate = 0;
  double seconds = 0;
  std::vector<double> times;
  work();
  const Sample share = collect_pairs(
      kRule, steady_now,
      [&] {
        rate = roof.operations * static_cast<double>(kRounds) / timed([&] { roof.run(kRounds); });
      },
      [&] { seconds = timed(work); },
      [&] {
        times.push_back(seconds);
        return 2 * kTileRows * kGroupColumns * products / seconds / rate;
      });
  fmt::print("{:<28} {:8.2f} ns {:8.1f} %   best {:6.2f} ns\n", name,
             median(times) / products * 1e9, 100 * share.median,
             *std::min_element(times.begin(), times.end()) / products * 1e9);
}

const MultiplyProbe& roof_of(const std::vector<MultiplyProbe>& probes) {
  const MultiplyProbe* best = nullptr;
  double most = 0;
  for (const MultiplyProbe& probe : probes) {
    if (probe.precision != Precision::kInt8) continue;
    double rate = 0;
    for (int run = 0; run < 50; ++run) {
      rate = std::max(rate, probe.operations / timed([&] { probe.run(20000); }));
    }
    if (rate > most) {
      most = rate;
      best = &probe;
    }
  }
  return *best;
}

void run(Isa isa) {
  const IntegerKernel& kernel = integer_kernel(isa);
  const std::vector<MultiplyProbe> probes = multiply_probes();
  const MultiplyProbe& roof = roof_of(probes);
  Operands operands;
  constexpr std::int64_t kGroups = groups_of(kColumns);
  fmt::print("{}: time for 16 x 32 weights and a stream, share of {}\n", to_string(isa), roof.path);
  const auto unpack_all = [&](std::int64_t group) {
    for (int tile = 0; tile < kTiles; ++tile) {
      kernel.unpack(operands.weights.value().bytes().data() + tile * Operands::tile_bytes() +
                        group * kGroupBytes,
                    kChunkGroups, operands.panels[static_cast<std::size_t>(tile)]);
    }
  };
  report("unpack (no products)", static_cast<double>(kTiles * kGroups), roof, [&] {
    for (std::int64_t group = 0; group < kGroups; group += kChunkGroups) unpack_all(group);
  });
  for (int streams = 1; streams <= kernel.packed_streams; ++streams) {
    report(fmt::format("packed, {} streams", streams),
           static_cast<double>(kTiles * kGroups * streams), roof, [&] {
             for (std::int64_t group = 0; group < kGroups; group += kPackedGroups) {
               kernel.packed_one_scale[static_cast<std::size_t>(streams - 1)](
                   operands.arguments(0, streams, group, kPackedGroups));
             }
           });
  }
  for (int streams = 1; streams <= kBlockStreams; ++streams) {
    report(fmt::format("unpacked, {} streams, L1", streams),
           static_cast<double>(kTiles * kChunkGroups * streams * 16), roof, [&] {
             for (int turn = 0; turn < 16; ++turn) {
               kernel.one_scale[static_cast<std::size_t>(streams - 1)](
                   operands.arguments(0, streams, 0, kChunkGroups));
             }
           });
  }
  for (const int streams : {8, 16, 32}) {
    const auto blocks = [&](std::int64_t group) {
      for (int first = 0; first < streams; first += kBlockStreams) {
        kernel.one_scale[kBlockStreams - 1](
            operands.arguments(first, kBlockStreams, group, kChunkGroups));
      }
    };
    report(fmt::format("a chunk, {} streams", streams),
           static_cast<double>(kTiles * kChunkGroups * streams), roof, [&] { blocks(0); });
    report(fmt::format("a unit, {} streams", streams),
           static_cast<double>(kTiles * kGroups * streams), roof, [&] {
             for (std::int64_t group = 0; group < kGroups; group += kChunkGroups) {
               unpack_all(group);
               blocks(group);
             }
           });
  }
}

}  // namespace
}  // namespace nibble

int main() {
  nibble::run(nibble::best_isa());
  return 0;
}
