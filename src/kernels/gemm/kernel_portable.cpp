// The integer loops and the bf16 loop in plain C++: what the others must equal bit for bit.
#include <cmath>

#include "formats/codec.h"
#include "kernels/gemm/layout.h"

namespace nibble {
namespace {

// Twice the value of each e2m1 code, plus 12.
constexpr std::uint8_t kStored[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

void unpack(const std::byte* tile, int groups, Panel& panel) {
  for (int group = 0; group < groups; ++group, tile += kGroupBytes) {
    for (int step = 0; step < kSteps; ++step) {
      std::uint8_t* const weights = panel.weights[group] + step * kTileRows * 4;
      for (int at = 0; at < 32; ++at) {
        const auto byte = static_cast<std::uint8_t>(tile[step * 32 + at]);
        weights[at] = kStored[byte & 15];
        weights[32 + at] = kStored[byte >> 4];
      }
    }
    for (int at = 0; at < kScaleBytes; ++at) {
      const auto byte = static_cast<std::uint8_t>(tile[kCodeBytes + at]);
      panel.scales[group][at] = static_cast<std::int16_t>((byte & 15) << (byte >> 4));
    }
  }
}

// Sum over a block of weights x activations; `block` 0 or 1.
std::int32_t block_sum(const std::uint8_t* weights, int row, const ActivationGroup& group,
                       int block) {
  std::int32_t sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const std::uint8_t* const lane = weights + (step * kTileRows + row) * 4 + 2 * block;
    const std::int8_t* const values = group.values + step * 4 + 2 * block;
    sum += (lane[0] - kCodeZero) * values[0] + (lane[1] - kCodeZero) * values[1];
  }
  return sum;
}

// The scaled sum of a block, exact: below 2^30.
std::int32_t scaled_sum(const Panel& panel, int at, int row, const ActivationGroup& group,
                        int block) {
  return block_sum(panel.weights[at], row, group, block) * panel.scales[at][2 * row + block];
}

template <bool kTwoScales>
void multiply_row(const Panel& panel, int row, const ActivationGroup* stream, int groups,
                  float& sum) {
  for (int at = 0; at < groups; at += kScaleGroups) {
    std::int32_t whole = 0;
    for (int next = at; next < at + kScaleGroups; ++next) {
      const std::int32_t low = scaled_sum(panel, next, row, stream[next], 0);
      const std::int32_t high = scaled_sum(panel, next, row, stream[next], 1);
      whole += low + high;
      if constexpr (kTwoScales) {
        sum = std::fma(static_cast<float>(low), stream[next].scale[0], sum);
        sum = std::fma(static_cast<float>(high), stream[next].scale[1], sum);
      }
    }
    if constexpr (!kTwoScales) {
      sum = std::fma(static_cast<float>(whole), stream[at].scale[0], sum);
    }
  }
}

template <int kStreams, bool kTwoScales>
void multiply_tile(const Panel& panel, int tile, const MultiplyArguments& arguments) {
  for (int stream = 0; stream < kStreams; ++stream) {
    float* const sums = arguments.sums_of(tile, stream);
    for (int row = 0; row < kTileRows; ++row) {
      multiply_row<kTwoScales>(panel, row, arguments.streams[stream], arguments.groups, sums[row]);
    }
  }
}

template <int kStreams, bool kTwoScales>
void multiply(const MultiplyArguments& arguments) {
  for (int tile = 0; tile < arguments.tiles; ++tile) {
    multiply_tile<kStreams, kTwoScales>(arguments.panels[tile], tile, arguments);
  }
}

template <int kStreams, bool kTwoScales>
void multiply_packed(const MultiplyArguments& arguments) {
  for (int tile = 0; tile < arguments.tiles; ++tile) {
    Panel panel;
    unpack(arguments.packed_tile(tile), arguments.groups, panel);
    multiply_tile<kStreams, kTwoScales>(panel, tile, arguments);
  }
}

template <int kStreams>
void multiply_bf16(const Bf16Arguments& arguments) {
  const auto* const weights = reinterpret_cast<const std::uint16_t*>(arguments.tile);
  for (int stream = 0; stream < kStreams; ++stream) {
    float sums[kTileRows] = {};
    for (std::int64_t column = 0; column < arguments.columns; ++column) {
      const float x = arguments.rows[stream][column];
      for (int row = 0; row < kTileRows; ++row) {
        sums[row] = std::fma(bf16_to_float(weights[column * kTileRows + row]), x, sums[row]);
      }
    }
    for (int row = 0; row < kTileRows; ++row) arguments.sums[stream][row] = sums[row];
  }
}

}  // namespace

const IntegerKernel kPortableIntegerKernel = {
    unpack,
    {multiply<1, false>, multiply<2, false>, multiply<3, false>, multiply<4, false>},
    {multiply<1, true>, multiply<2, true>, multiply<3, true>, multiply<4, true>},
    kBlockStreams,
    {multiply_packed<1, false>, multiply_packed<2, false>, multiply_packed<3, false>,
     multiply_packed<4, false>},
    {multiply_packed<1, true>, multiply_packed<2, true>, multiply_packed<3, true>,
     multiply_packed<4, true>}};
const Bf16Kernel kPortableBf16Kernel = {multiply_bf16<1>, multiply_bf16<2>, multiply_bf16<3>,
                                        multiply_bf16<4>};

}  // namespace nibble
