// What a rank multiplies, for which tactics are held against a chip.
//
//   const TacticProduct product{.op = "moe.gate_up", .experts = 256, .n = 512, .k = 6144,
//                               .epilogue = Epilogue::kSwiGlu};
//   product.text(TacticFamily::kW4A4)   // "256 x [512, 6144] nvfp4 x nvfp4 swiglu -> nvfp4"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/format.h"
#include "kernels/gemm/device/product.h"

namespace nibble {

struct W4A4Problem;   // kernels/gemm/device/w4a4.h
struct W4A16Problem;  // kernels/gemm/device/w4a16.h

enum class TacticFamily {
  kW4A4,   // 4-bit weights and activations, on the block-scaled FP4 instruction
  kW4A16,  // 4-bit weights, 16-bit activations, on mma.sync or wgmma
};
std::string_view to_string(TacticFamily family);  // "w4a4", "w4a16"

// What a rank multiplies, in either family.
struct TacticProduct {
  std::string op;            // "moe.gate_up"
  std::int64_t experts = 1;  // on this rank
  std::int64_t n = 0;        // rows of an expert's matrix; gated: gate and up together
  std::int64_t k = 0;        // its columns
  Format format = Format::kNvfp4;
  Epilogue epilogue = Epilogue::kPlain;
  bool bias = false;
  bool given = false;  // sizes were given as they are: no model was cut over ranks for them

  // A gated product in NVFP4 quantizes its output for the next one where that has whole blocks.
  W4A4Problem w4a4() const;
  W4A16Problem w4a16() const;
  Result<> check(TacticFamily family) const;
  // "256 x [512, 6144] nvfp4 x bf16 swiglu"
  std::string text(TacticFamily family) const;
};

// M x N x K of a tile: 128x256x128.
struct TacticTile {
  int m = 0;
  int n = 0;
  int k = 0;
  friend bool operator==(const TacticTile&, const TacticTile&) = default;
};
std::string to_string(const TacticTile& tile);
// "128x256x128", or CUTLASS's name of it with K in bytes of FP4, "128x256x64B"; a usage error for
// what is none, or has a side above 4,096.
Result<TacticTile> parse_tactic_tile(std::string_view text);

}  // namespace nibble
