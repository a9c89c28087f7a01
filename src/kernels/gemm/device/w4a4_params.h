// What a grouped W4A4 product takes, as host and device both see it.
//
// Codes are row-major with the even column in the low nibble; scales lie in the order of
// formats/scale_layout.h ("128x4"), whose padding is never read. A block's value is code x scale;
// what multiplies all of a matrix or of a row stands in alpha and token_factor.
#pragma once

#include "formats/host_device.h"

namespace nibble {

struct W4A4Params {
  const uint8_t* weights = nullptr;        // [experts, n, k / 2]
  const uint8_t* weight_scales = nullptr;  // [experts][swizzled_bytes(n, k / block)]
  // [experts, 2]: of gate and up rows, or twice the same: the weights' factor, times that of all
  // tokens where they have one.
  const float* alpha = nullptr;
  const float* bias = nullptr;            // [experts, n], of problems with bias
  const uint8_t* tokens = nullptr;        // [rows, k / 2]
  const uint8_t* token_scales = nullptr;  // 128x4, of the rows below
  const float* token_factor = nullptr;    // [rows], or null: 1
  // [experts + 1], ascending from 0: an expert's first slot; null for one expert: {0, rows}.
  const int32_t* offsets = nullptr;
  // [experts + 1]: an expert's first token tile; null: the kernel counts them itself.
  const int32_t* tiles = nullptr;
  const int32_t* row_of = nullptr;  // [slots]: a slot's row of tokens, -1: none; null: itself
  // [experts]: the row of token_scales where an expert's slots begin; null: the row of tokens.
  const int32_t* scale_rows = nullptr;
  const float* slot_weight = nullptr;  // [slots], or null: 1; plain products
  // Rows [slots, n], gated ones [slots, n / 2], in the problem's output; NVFP4: codes.
  void* output = nullptr;
  uint8_t* output_scales = nullptr;  // NVFP4: 128x4 of [slots, n / 2 / 16]
  float output_factor = 1;           // NVFP4: of all of the output
  int32_t rows = 0;                  // of one expert without offsets
  float* partials = nullptr;         // [grid, m x n of a tile]; split products only
  uint32_t* flags = nullptr;         // [grid], zero before the launch; split products only
  float swiglu_alpha = 0;            // of the clamped form
  float swiglu_limit = 0;
};

}  // namespace nibble
