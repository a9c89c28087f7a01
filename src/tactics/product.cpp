#include "tactics/product.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <vector>

#include "base/text.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/gemm/device/w4a4.h"

namespace nibble {

std::string_view to_string(TacticFamily family) {
  return family == TacticFamily::kW4A4 ? "w4a4" : "w4a16";
}

W4A4Problem TacticProduct::w4a4() const {
  W4A4Problem problem{
      .experts = experts, .n = n, .k = k, .format = format, .epilogue = epilogue, .bias = bias};
  constexpr std::int64_t kRowsOfTwoBlocks = 32;  // 16 gate rows and as many up rows
  const bool whole = n % kRowsOfTwoBlocks == 0;
  if (epilogue != Epilogue::kPlain && format == Format::kNvfp4 && whole) {
    problem.output = W4A4Output::kNvfp4;
  }
  return problem;
}

W4A16Problem TacticProduct::w4a16() const {
  const W4A16Mode mode = epilogue == Epilogue::kSwiGlu          ? W4A16Mode::kSwiGlu
                         : epilogue == Epilogue::kClampedSwiGlu ? W4A16Mode::kClampedSwiGlu
                                                                : W4A16Mode::kPlain;
  return {.experts = experts, .n = n, .k = k, .format = format, .mode = mode, .bias = bias};
}

Result<> TacticProduct::check(TacticFamily family) const {
  return family == TacticFamily::kW4A4 ? check_problem(w4a4()) : check_problem(w4a16());
}

std::string TacticProduct::text(TacticFamily family) const {
  return family == TacticFamily::kW4A4 ? to_string(w4a4()) : to_string(w4a16());
}

std::string to_string(const TacticTile& tile) {
  return fmt::format("{}x{}x{}", tile.m, tile.n, tile.k);
}

Result<TacticTile> parse_tactic_tile(std::string_view text) {
  constexpr int kLargestSide = 4096;
  // CUTLASS counts K of block-scaled tiles in bytes: two FP4 values each.
  const bool in_bytes = text.ends_with('B');
  const std::string_view numbers = in_bytes ? text.substr(0, text.size() - 1) : text;
  std::vector<int> sizes;
  for (const std::string& part : split(numbers, 'x')) {
    int size = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), size);
    const bool whole = fault == std::errc{} && end == part.data() + part.size();
    if (whole && size >= 1 && size <= kLargestSide) sizes.push_back(size);
  }
  if (in_bytes && sizes.size() == 3) sizes[2] *= 2;
  if (sizes.size() != 3 || sizes[2] > kLargestSide ||
      std::count(text.begin(), text.end(), 'x') != 2) {
    return usage_error(
        "tile \"{}\" is not M x N x K with sides from 1 to {}, as 128x256x128, or "
        "as CUTLASS names it with K in bytes, 128x256x64B",
        printable(text), kLargestSide);
  }
  return TacticTile{sizes[0], sizes[1], sizes[2]};
}

}  // namespace nibble
