#include "kernels/gemm/device/w4a16.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "kernels/device/device_sources.h"
#include "kernels/gemm/device/product_checks.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostW4A16Experts = 4096;
constexpr std::int64_t kLargestSide = std::int64_t{1} << 24;

std::string_view mode_name(W4A16Mode mode) {
  switch (mode) {
    case W4A16Mode::kPlain:
      return "plain";
    case W4A16Mode::kSwiGlu:
      return "swiglu";
    case W4A16Mode::kClampedSwiGlu:
      return "clamped-swiglu";
  }
  return "?";
}

std::string_view element_name(Element element) {
  switch (element) {
    case Element::kBf16:
      return "bf16";
    case Element::kFp16:
      return "fp16";
    case Element::kFp32:
      return "fp32";
  }
  return "?";
}

std::string_view element_constant(Element element) {
  switch (element) {
    case Element::kBf16:
      return "Element::kBf16";
    case Element::kFp16:
      return "Element::kFp16";
    case Element::kFp32:
      return "Element::kFp32";
  }
  return "?";
}

std::string_view epilogue_constant(W4A16Mode mode) {
  switch (mode) {
    case W4A16Mode::kPlain:
      return "Epilogue::kPlain";
    case W4A16Mode::kSwiGlu:
      return "Epilogue::kSwiGlu";
    case W4A16Mode::kClampedSwiGlu:
      return "Epilogue::kClampedSwiGlu";
  }
  return "?";
}

bool gate_up(const W4A16Problem& problem) {
  return problem.mode != W4A16Mode::kPlain;
}

WeightTiles tiles_of(const W4A16Problem& problem) {
  return weight_tiles(problem.n, problem.k, problem.scale_bytes(),
                      gate_up(problem) ? RowOrder::kGateUp : RowOrder::kPlain);
}

// The text that is compiled: the constants, and the kernel that has them.
std::string program_text(const W4A16Problem& problem, const W4A16Tactic& tactic) {
  return fmt::format(
      R"(#include "kernels/gemm/device/w4a16.cuh"
namespace nibble {{
struct Config {{
  static constexpr W4A16Tactic kTactic = {{
      .family = Family::{}, .rows = {}, .tokens = {}, .stage_chunks = {}, .stages = {},
      .groups = {}, .blocks_per_sm = {}, .cluster = {}, .fragments = {}, .split = {}}};
  static constexpr WeightFormat kFormat = WeightFormat::{};
  static constexpr Element kActivations = {};
  static constexpr Element kOutput = {};
  static constexpr Epilogue kEpilogue = {};
  static constexpr bool kBias = {};
  static constexpr int64_t kN = {};
  static constexpr int64_t kK = {};
  static constexpr int kExperts = {};
}};
}}  // namespace nibble
extern "C" __global__ void __launch_bounds__({}, {})
    w4a16(const __grid_constant__ nibble::W4A16Params params) {{
  nibble::W4A16<nibble::Config>::run(params);
}}
)",
      tactic.family == Family::kWgmma ? "kWgmma" : "kMma", tactic.rows, tactic.tokens,
      tactic.stage_chunks, tactic.stages, tactic.groups, tactic.blocks_per_sm, tactic.cluster,
      tactic.fragments, tactic.split, problem.format == Format::kNvfp4 ? "kNvfp4" : "kMxfp4",
      element_constant(problem.activations), element_constant(problem.output),
      epilogue_constant(problem.mode), problem.bias, problem.n, problem.k, problem.experts,
      tactic.threads(), tactic.blocks_per_sm);
}

Result<> check_shape_of(const W4A16Tactic& tactic) {
  if (tactic.rows < kTileRows || tactic.rows % (kTileRows * std::max(tactic.groups, 1)) != 0 ||
      tactic.groups < 1) {
    return input_error("tactic {}: {} rows are not whole blocks of 64 for each of {} groups",
                       to_string(tactic), tactic.rows, tactic.groups);
  }
  if (tactic.threads() > 1024) {
    return input_error("tactic {}: {} threads; a block has at most 1,024", to_string(tactic),
                       tactic.threads());
  }
  if (tactic.tokens < kSlotGroup || tactic.tokens % kSlotGroup != 0 || tactic.tokens > 256) {
    return input_error("tactic {}: {} tokens; a tile has a multiple of 8 up to 256",
                       to_string(tactic), tactic.tokens);
  }
  if (tactic.stages < 1 || tactic.stage_chunks < 1 || tactic.blocks_per_sm < 1 ||
      tactic.cluster < 1 || tactic.cluster > 8) {
    return input_error("tactic {}: stages, chunks, blocks and clusters (up to 8) are at least 1",
                       to_string(tactic));
  }
  return {};
}

Result<> check_wgmma(const W4A16Tactic& tactic, const BlockLimits& limits) {
  // Widths that kernels/ptx/wgmma.cuh has.
  constexpr std::array<int, 8> kWidths = {8, 16, 24, 32, 48, 64, 96, 128};
  if (limits.major != 9 || limits.minor != 0) {
    return input_error("tactic {}: wgmma is an instruction of sm_90a alone, and this is sm_{}{}",
                       to_string(tactic), limits.major, limits.minor);
  }
  if (std::find(kWidths.begin(), kWidths.end(), tactic.tokens) == kWidths.end()) {
    return input_error(
        "tactic {}: there is no wgmma of {} tokens here; take 8, 16, 24, 32, 48, "
        "64, 96 or 128",
        to_string(tactic), tactic.tokens);
  }
  if (tactic.blocks() / tactic.groups * tactic.stage_chunks % 2 != 0) {
    return input_error(
        "tactic {}: a warpgroup has an odd number of tiles in a stage, and its two "
        "sets of registers take turns",
        to_string(tactic));
  }
  return {};
}

}  // namespace

int W4A16Problem::scale_bytes() const {
  return format == Format::kMxfp4 ? kMxfp4ScaleBytes : kNvfp4ScaleBytes;
}

std::string to_string(const W4A16Problem& problem) {
  return fmt::format("{} x [{}, {}] {} x {} {}{}", problem.experts, problem.n, problem.k,
                     to_string(problem.format), element_name(problem.activations),
                     mode_name(problem.mode), problem.bias ? " with bias" : "");
}

std::string to_string(const W4A16Tactic& tactic) {
  return fmt::format("{} {}x{}x{} {} stages {} groups{}{}{}{}",
                     tactic.family == Family::kWgmma ? "wgmma" : "mma", tactic.rows, tactic.tokens,
                     tactic.stage_chunks * kChunk, tactic.stages, tactic.groups,
                     tactic.blocks_per_sm > 1 ? fmt::format(" {} an SM", tactic.blocks_per_sm) : "",
                     tactic.cluster > 1 ? fmt::format(" cluster {}", tactic.cluster) : "",
                     tactic.family == Family::kWgmma && tactic.fragments != 8
                         ? fmt::format(" {} fragments", tactic.fragments)
                         : "",
                     tactic.split ? " split" : "");
}

Result<> check_problem(const W4A16Problem& problem) {
  if (problem.experts < 1 || problem.experts > kMostW4A16Experts) {
    return input_error("{} experts; a grouped product has 1 to {}", problem.experts,
                       kMostW4A16Experts);
  }
  if (problem.n < 1 || problem.k < 1 || problem.n > kLargestSide || problem.k > kLargestSide) {
    return input_error("a matrix of {} x {}; both sides are from 1 to {}", problem.n, problem.k,
                       kLargestSide);
  }
  if (problem.format != Format::kNvfp4 && problem.format != Format::kMxfp4) {
    return input_error("weights in {}: the W4A16 kernels take nvfp4 and mxfp4",
                       to_string(problem.format));
  }
  if (problem.activations == Element::kFp32) {
    return input_error("fp32 activations: the W4A16 kernels take bf16 and fp16");
  }
  if (gate_up(problem) && problem.n % 2 != 0) {
    return input_error("gate and up have {} rows together, which is odd", problem.n);
  }
  return {};
}

Result<> check_tactic(const W4A16Problem& problem, const W4A16Tactic& tactic,
                      const BlockLimits& limits) {
  NIBBLE_RETURN_IF_ERROR(check_problem(problem));
  NIBBLE_RETURN_IF_ERROR(check_shape_of(tactic));
  if (tactic.family == Family::kWgmma) NIBBLE_RETURN_IF_ERROR(check_wgmma(tactic, limits));
  if (tactic.cluster > 1 && limits.major < 9) {
    return input_error("tactic {}: clusters came with sm_90, and this is sm_{}{}",
                       to_string(tactic), limits.major, limits.minor);
  }
  if (tactic.cluster > 1 && limits.major == 12) {
    return input_error("tactic {}: sm_{}{} has clusters of one block alone", to_string(tactic),
                       limits.major, limits.minor);
  }
  const std::uint32_t bytes =
      shared_plan(tactic, problem.scale_bytes(), static_cast<int>(problem.experts)).bytes;
  return check_shared(to_string(tactic), bytes, tactic.blocks_per_sm, limits);
}

Result<cuda::Cubin> compile_w4a16(const W4A16Problem& problem, const W4A16Tactic& tactic,
                                  const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(check_problem(problem));
  if (tactic.family == Family::kWgmma && arch != "sm_90a" && arch != "compute_90a") {
    return input_error("tactic {}: wgmma is an instruction of sm_90a alone, not of {}",
                       to_string(tactic), arch);
  }
  return cuda::compile({.name = fmt::format("w4a16 {}, {}", to_string(problem), to_string(tactic)),
                        .files = device_sources(),
                        .main = program_text(problem, tactic),
                        .arch = arch});
}

Result<W4A16Kernel> W4A16Kernel::make(const cuda::Device& device, const W4A16Problem& problem,
                                      const W4A16Tactic& tactic, const std::string& arch) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch code, cuda::arch_to_run(device.info(), arch));
  NIBBLE_RETURN_IF_ERROR(check_tactic(problem, tactic, limits_of(device.info(), code)));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_w4a16(problem, tactic, code.name()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel kernel, module.kernel("w4a16"));
  W4A16Kernel made(problem, tactic, std::move(kernel));
  made.shared_bytes_ = static_cast<std::size_t>(shared_for_blocks(
      static_cast<int>(
          shared_plan(tactic, problem.scale_bytes(), static_cast<int>(problem.experts)).bytes),
      tactic.blocks_per_sm, limits_of(device.info())));
  // Code for earlier architectures has no griddepcontrol.wait, also where the GPU would have it.
  made.programmatic_ = code.major >= 9;
  NIBBLE_RETURN_IF_ERROR(check_resident(to_string(tactic), made.kernel_,
                                        {.threads = tactic.threads(),
                                         .shared_bytes = made.shared_bytes_,
                                         .blocks_per_sm = tactic.blocks_per_sm}));
  const int blocks = device.info().sms * tactic.blocks_per_sm;
  made.grid_ = std::max(blocks / tactic.cluster, 1) * tactic.cluster;
  return made;
}

Result<> check_choices(const W4A16Problem& problem, const W4A16Tactic& tactic,
                       std::int64_t choices) {
  const WeightTiles weights = tiles_of(problem);
  return check_steps(to_string(problem),
                     {.tile_tokens = tactic.tokens,
                      .row_tiles = ceil_div(weights.blocks, tactic.blocks() * tactic.cluster),
                      .steps = ceil_div(weights.chunks, tactic.stage_chunks),
                      .experts = problem.experts},
                     choices);
}

std::size_t W4A16Kernel::partial_bytes() const {
  if (!tactic_.split) return 0;
  return static_cast<std::size_t>(grid_) * static_cast<std::size_t>(tactic_.rows) *
         static_cast<std::size_t>(tactic_.tokens) * sizeof(float);
}

Result<> W4A16Kernel::enqueue(cuda::Stream& stream, const W4A16Params& params) const {
  return cuda::launch(kernel_,
                      {.grid = {static_cast<unsigned>(grid_)},
                       .block = {static_cast<unsigned>(tactic_.threads())},
                       .dynamic_shared = shared_bytes_,
                       .programmatic = programmatic_,
                       .cluster = static_cast<unsigned>(tactic_.cluster)},
                      stream, params);
}

}  // namespace nibble
