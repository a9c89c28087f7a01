// From sums to outputs of the W4A4 product: factors, biases, SwiGLU and router weights; to rows of
// floats, or to NVFP4 codes and scales for the product that follows.
#pragma once

#include "kernels/device/fp4.cuh"
#include "kernels/gemm/device/outputs.cuh"
#include "kernels/gemm/device/w4a4_params.h"
#include "kernels/gemm/device/w4a4_shape.cuh"

namespace nibble {

template <class Config>
struct W4A4Store : W4A4Shape<Config> {
  using Shape = W4A4Shape<Config>;
  using Shape::kAtomsM;
  using Shape::kAtomsN;
  using Shape::kGated;
  using Shape::kTactic;
  using Shape::kTokens;
  using Shape::kWeightRows;
  using Shape::kWeightsOnM;
  using typename Shape::Place;
  using typename Shape::Sums;
  using typename Shape::Tables;

  static constexpr int64_t kColumns = kGated ? Config::kN / 2 : Config::kN;
  // Columns of the output that a tile and a product's weight rows have.
  static constexpr int kPerRow = kGated ? 2 : 1;
  static constexpr bool kAligned = kColumns % 2 == 0;

  NIBBLE_DEVICE static int lane() { return static_cast<int>(threadIdx.x % 32); }
  NIBBLE_DEVICE static int warp_m() { return static_cast<int>(threadIdx.x / 32) / kTactic.warps_n; }
  NIBBLE_DEVICE static int warp_n() { return static_cast<int>(threadIdx.x / 32) % kTactic.warps_n; }

  // What an expert's sums are multiplied by and what is added to them.
  struct Expert {
    const W4A4Params& params;
    int32_t expert;
    float alpha[2];  // of plain or gate rows, and of up rows

    NIBBLE_DEVICE Expert(const W4A4Params& from, int32_t index)
        : params(from),
          expert(index),
          alpha{from.alpha[int64_t{index} * 2], from.alpha[int64_t{index} * 2 + 1]} {}

    NIBBLE_DEVICE float bias(int64_t row) const {
      if constexpr (!Config::kBias) return 0;
      return row < Config::kN ? params.bias[expert * Config::kN + row] : 0;
    }
    NIBBLE_DEVICE float plain(float sum, int64_t row, float factor) const {
      return sum * alpha[0] * factor + bias(row);
    }
    NIBBLE_DEVICE float both(float gate, float up, int64_t column, float factor) const {
      constexpr int64_t kHalf = Config::kN / 2;
      const int64_t first = Config::kUpFirst ? kHalf : 0;
      return gated<Config::kEpilogue>(gate * alpha[0] * factor + bias(column + first),
                                      up * alpha[1] * factor + bias(column + kHalf - first),
                                      params.swiglu_alpha, params.swiglu_limit);
    }
  };

  // A token of a tile; `there` false: a padded one, of which nothing is stored.
  struct Token {
    int64_t slot = 0;
    bool there = false;
    float factor = 1;  // of its activations
    float weight = 1;  // of its output
  };

  NIBBLE_DEVICE static Token token_of(const W4A4Params& params, const Tables& tables,
                                      const Place& place, int at) {
    Token token;
    const int32_t slot = Shape::first_slot(place, tables) + at;
    token.slot = slot;
    token.there = slot < tables.offsets[place.expert + 1];
    if (!token.there) return token;
    if (params.token_factor != nullptr) {
      const int32_t row = params.row_of != nullptr ? params.row_of[slot] : slot;
      if (row >= 0) token.factor = params.token_factor[row];
    }
    if (!kGated && params.slot_weight != nullptr) token.weight = params.slot_weight[slot];
    return token;
  }

  // Weights on M: the two tokens of a lane's columns of an atom.
  struct TokenPair {
    Token of[2];
  };
  NIBBLE_DEVICE static TokenPair tokens_on_n(const W4A4Params& params, const Tables& tables,
                                             const Place& place, int atom) {
    const int at = (warp_n() * kAtomsN + atom) * 8 + 2 * (lane() % 4);
    return {{token_of(params, tables, place, at), token_of(params, tables, place, at + 1)}};
  }
  // Tokens on M: that of a lane's row of an atom, in its upper or lower half.
  NIBBLE_DEVICE static Token token_on_m(const W4A4Params& params, const Tables& tables,
                                        const Place& place, int atom, int half) {
    const int at = (warp_m() * kAtomsM + atom) * 16 + lane() / 4 + 8 * half;
    return token_of(params, tables, place, at);
  }

  // The first weight row of an atom on M, and of one on N.
  NIBBLE_DEVICE static int64_t weight_on_m(const Place& place, int atom) {
    return int64_t{place.row_tile} * kWeightRows + (warp_m() * kAtomsM + atom) * 16;
  }
  NIBBLE_DEVICE static int64_t weight_on_n(const Place& place, int atom) {
    return int64_t{place.row_tile} * kWeightRows + (warp_n() * kAtomsN + atom) * 8;
  }

  // Field by field: an array that is indexed by a lane's number would lie in memory.
  NIBBLE_DEVICE static Token either(bool first, const Token& a, const Token& b) {
    return {first ? a.slot : b.slot, first ? a.there : b.there, first ? a.factor : b.factor,
            first ? a.weight : b.weight};
  }

  NIBBLE_DEVICE static void store_row(const W4A4Params& params, const Token& token, int64_t column,
                                      float low, float high) {
    if (!token.there || column >= kColumns) return;
    store_pair<Config::kOutput, kAligned>(params.output, token.slot * kColumns + column,
                                          low * token.weight, high * token.weight,
                                          column + 1 < kColumns);
  }

  // ---- Floats
  // Weights on M: a lane has a weight row (or a gate and its up row) of two neighbouring tokens.
  NIBBLE_DEVICE static void store_weights_on_m(const W4A4Params& params, const Tables& tables,
                                               const Place& place, const Sums& sums) {
    const Expert expert(params, place.expert);
    const int g = lane() / 4;
    const bool odd = g % 2 != 0;
#pragma unroll
    for (int n = 0; n < kAtomsN; ++n) {
      const TokenPair tokens = tokens_on_n(params, tables, place, n);
#pragma unroll
      for (int m = 0; m < kAtomsM; ++m) {
        const int64_t row = weight_on_m(place, m);
#pragma unroll
        for (int half = 0; half < 2 / kPerRow; ++half) {
          const int64_t column = row / kPerRow + 8 * half + g;
          const auto value = [&](int token) {
            const float(&four)[4] = sums[m][n];
            if constexpr (kGated) {
              return expert.both(four[token], four[2 + token], column, tokens.of[token].factor);
            }
            return expert.plain(four[2 * half + token], column, tokens.of[token].factor);
          };
          const RowPair pair = exchange_rows(value(0), value(1), odd);
          store_row(params, either(odd, tokens.of[1], tokens.of[0]), column - (odd ? 1 : 0),
                    pair.low, pair.high);
        }
      }
    }
  }

  // Tokens on M: a lane has two neighbouring weight rows, or two gates and their ups, of a token.
  NIBBLE_DEVICE static void store_tokens_on_m(const W4A4Params& params, const Tables& tables,
                                              const Place& place, const Sums& sums) {
    const Expert expert(params, place.expert);
#pragma unroll
    for (int m = 0; m < kAtomsM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Token token = token_on_m(params, tables, place, m, half);
#pragma unroll
        for (int n = 0; n < kAtomsN; n += kPerRow) {
          const int64_t column = weight_on_n(place, n) / kPerRow + 2 * (lane() % 4);
          const auto value = [&](int i) {
            if constexpr (kGated) {
              return expert.both(sums[m][n][2 * half + i], sums[m][n + 1][2 * half + i], column + i,
                                 token.factor);
            }
            return expert.plain(sums[m][n][2 * half + i], column + i, token.factor);
          };
          store_row(params, token, column, value(0), value(1));
        }
      }
    }
  }

  // ---- NVFP4
  // Sixteen columns of a token: their codes and their scale. `column` is a multiple of 16.
  NIBBLE_DEVICE static void store_block(const W4A4Params& params, const Token& token,
                                        int64_t column, const Nvfp4Block& block) {
    if (!token.there || column >= kColumns) return;
    auto* codes = static_cast<uint8_t*>(params.output) + (token.slot * kColumns + column) / 2;
    reinterpret_cast<uint32_t*>(codes)[0] = block.low;
    reinterpret_cast<uint32_t*>(codes)[1] = block.high;
    params.output_scales[swizzled_offset(token.slot, column / 16, kColumns / 16)] = block.scale;
  }

  NIBBLE_DEVICE static void quantize_weights_on_m(const W4A4Params& params, const Tables& tables,
                                                  const Place& place, const Sums& sums) {
    const Expert expert(params, place.expert);
    const int g = lane() / 4;
#pragma unroll
    for (int n = 0; n < kAtomsN; ++n) {
      const TokenPair tokens = tokens_on_n(params, tables, place, n);
#pragma unroll
      for (int m = 0; m < kAtomsM; m += 2) {
        const int64_t column = weight_on_m(place, m) / 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          // Columns g and 8 + g of the block; the others are in the lanes 4 apart.
          const float first =
              expert.both(sums[m][n][i], sums[m][n][2 + i], column + g, tokens.of[i].factor);
          const float second = expert.both(sums[m + 1][n][i], sums[m + 1][n][2 + i], column + 8 + g,
                                           tokens.of[i].factor);
          const Nvfp4Block block =
              Nvfp4Block::of_lanes<4, 8>({first}, {second}, g, params.output_factor);
          if (g == i) store_block(params, tokens.of[i], column, block);
        }
      }
    }
  }

  NIBBLE_DEVICE static void quantize_tokens_on_m(const W4A4Params& params, const Tables& tables,
                                                 const Place& place, const Sums& sums) {
    const Expert expert(params, place.expert);
    const int t = lane() % 4;
#pragma unroll
    for (int m = 0; m < kAtomsM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Token token = token_on_m(params, tables, place, m, half);
#pragma unroll
        for (int n = 0; n < kAtomsN; n += 4) {
          const int64_t column = weight_on_n(place, n) / 2;
          const auto value = [&](int pair, int i) {
            return expert.both(sums[m][n + 2 * pair][2 * half + i],
                               sums[m][n + 2 * pair + 1][2 * half + i],
                               column + 8 * pair + 2 * t + i, token.factor);
          };
          const Nvfp4Block block = Nvfp4Block::of_lanes<1, 4>(
              {value(0, 0), value(0, 1)}, {value(1, 0), value(1, 1)}, t, params.output_factor);
          if (t == half) store_block(params, token, column, block);
        }
      }
    }
  }

  NIBBLE_DEVICE static void store(const W4A4Params& params, const Tables& tables,
                                  const Place& place, const Sums& sums) {
    if constexpr (Config::kFp4Output && kWeightsOnM) {
      quantize_weights_on_m(params, tables, place, sums);
    } else if constexpr (Config::kFp4Output) {
      quantize_tokens_on_m(params, tables, place, sums);
    } else if constexpr (kWeightsOnM) {
      store_weights_on_m(params, tables, place, sums);
    } else {
      store_tokens_on_m(params, tables, place, sums);
    }
  }
};

}  // namespace nibble
