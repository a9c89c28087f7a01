// What a grouped W4A16 product takes, as host and device both see it.
#pragma once

#include "formats/host_device.h"

namespace nibble {

struct W4A16Params {
  const uint8_t* weights = nullptr;    // tiles of all experts (w4a16_layout.h)
  const float* alpha = nullptr;        // [experts, 2]: of gate and up rows, or twice the same
  const float* bias = nullptr;         // [experts, n]: gate, then up; or null
  const uint8_t* tokens = nullptr;     // slot tiles of k columns
  const int32_t* offsets = nullptr;    // [experts + 1], multiples of 8: an expert's first slot
  const int32_t* tiles = nullptr;      // [experts + 1]: an expert's first token tile
  const float* slot_weight = nullptr;  // [slots], or null: 1
  void* output = nullptr;              // slot tiles of n / 2 columns, or rows [slots, n]
  float* partials = nullptr;           // [grid, rows x tokens of a tile]; split products only
  uint32_t* flags = nullptr;           // [grid], zero before the launch; split products only
  float swiglu_alpha = 0;              // of the clamped form
  float swiglu_limit = 0;
};

}  // namespace nibble
