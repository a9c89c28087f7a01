#include "kernels/gemm/device/w4a4.h"

#include <fmt/format.h>
#include <string_view>

#include "kernels/device/device_sources.h"
#include "kernels/gemm/device/product_checks.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostW4A4Experts = 4096;
constexpr std::int64_t kLargestW4A4Side = std::int64_t{1} << 24;

bool is_gated(const W4A4Problem& problem) {
  return problem.epilogue != Epilogue::kPlain;
}

// As the device code names an output's elements, and as texts name the output.
struct OutputNames {
  std::string_view constant;
  std::string_view text;
};
OutputNames names_of(W4A4Output output) {
  switch (output) {
    case W4A4Output::kBf16:
      return {"kBf16", "bf16"};
    case W4A4Output::kFp16:
      return {"kFp16", "fp16"};
    case W4A4Output::kFp32:
      return {"kFp32", "fp32"};
    case W4A4Output::kNvfp4:  // by kFp4Output; elements are not used then
      return {"kFp32", "nvfp4"};
  }
  return {"?", "?"};
}

std::string_view constant_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kPlain:
      return "kPlain";
    case Epilogue::kSwiGlu:
      return "kSwiGlu";
    case Epilogue::kClampedSwiGlu:
      return "kClampedSwiGlu";
  }
  return "?";
}

// The text that is compiled: the constants, and the kernel that has them.
std::string w4a4_program(const W4A4Problem& problem, const W4A4Tactic& tactic) {
  return fmt::format(
      R"(#include "kernels/gemm/device/w4a4.cuh"
namespace nibble {{
struct Config {{
  static constexpr W4A4Tactic kTactic = {{
      .way = Way::{}, .m = {}, .n = {}, .k = {}, .stages = {}, .warps_m = {}, .warps_n = {},
      .blocks_per_sm = {}, .split = {}}};
  static constexpr WeightFormat kFormat = WeightFormat::{};
  static constexpr Element kOutput = Element::{};
  static constexpr bool kFp4Output = {};
  static constexpr Epilogue kEpilogue = Epilogue::{};
  static constexpr bool kBias = {};
  static constexpr bool kUpFirst = {};
  static constexpr int64_t kN = {};
  static constexpr int64_t kK = {};
  static constexpr int kExperts = {};
}};
}}  // namespace nibble
extern "C" __global__ void __launch_bounds__({}, {})
    w4a4(const __grid_constant__ nibble::W4A4Params params) {{
  nibble::W4A4<nibble::Config>::run(params);
}}
)",
      tactic.way == Way::kTokensOnM ? "kTokensOnM" : "kWeightsOnM", tactic.m, tactic.n, tactic.k,
      tactic.stages, tactic.warps_m, tactic.warps_n, tactic.blocks_per_sm, tactic.split,
      problem.format == Format::kNvfp4 ? "kNvfp4" : "kMxfp4", names_of(problem.output).constant,
      problem.output == W4A4Output::kNvfp4, constant_of(problem.epilogue), problem.bias,
      problem.up_first, problem.n, problem.k, problem.experts, tactic.threads(),
      tactic.blocks_per_sm);
}

Result<> check_tile(const W4A4Tactic& tactic) {
  if (tactic.warps_m < 1 || tactic.warps_n < 1 || tactic.m < 16 || tactic.n < 8 ||
      tactic.m % (16 * tactic.warps_m) != 0 || tactic.n % (8 * tactic.warps_n) != 0) {
    return input_error("tactic {}: {} x {} are not whole products of 16 x 8 for {} x {} warps",
                       to_string(tactic), tactic.m, tactic.n, tactic.warps_m, tactic.warps_n);
  }
  const int columns = tactic.n / tactic.warps_n;
  if (columns != 8 && columns % 16 != 0) {
    return input_error("tactic {}: {} columns a warp; a warp has 8 or a multiple of 16",
                       to_string(tactic), columns);
  }
  if (tactic.threads() > 1024) {
    return input_error("tactic {}: {} threads; a block has at most 1,024", to_string(tactic),
                       tactic.threads());
  }
  if (tactic.m > 512 || tactic.n > 512) {
    return input_error("tactic {}: a side of a tile is at most 512", to_string(tactic));
  }
  if (tactic.k != 128 && tactic.k != 256 && tactic.k != 512 && tactic.k != 1024) {
    return input_error("tactic {}: {} values a stage; a stage has 128, 256, 512 or 1,024",
                       to_string(tactic), tactic.k);
  }
  if (tactic.stages < 1 || tactic.stages > 64 || tactic.blocks_per_sm < 1 ||
      tactic.blocks_per_sm > 32) {
    return input_error("tactic {}: stages are from 1 to 64 and blocks an SM from 1 to 32",
                       to_string(tactic));
  }
  return {};
}

// Gate and up rows stand in turn in eights, and 16 columns of an NVFP4 output are one warp's.
Result<> check_gated_tile(const W4A4Problem& problem, const W4A4Tactic& tactic) {
  if (!is_gated(problem)) return {};
  const int weights =
      tactic.way == Way::kWeightsOnM ? tactic.m / tactic.warps_m : tactic.n / tactic.warps_n;
  const int unit = problem.output == W4A4Output::kNvfp4 ? 32 : 16;
  if (weights % unit == 0) return {};
  return input_error(
      "tactic {}: {} weight rows a warp; gate and up rows that become {} need a multiple of {}",
      to_string(tactic), weights, names_of(problem.output).text, unit);
}

}  // namespace

WeightFormat W4A4Problem::weight_format() const {
  return format == Format::kMxfp4 ? WeightFormat::kMxfp4 : WeightFormat::kNvfp4;
}

std::int64_t W4A4Problem::columns() const {
  return is_gated(*this) ? n / 2 : n;
}

std::string to_string(const W4A4Problem& problem) {
  std::string_view epilogue;
  if (problem.epilogue == Epilogue::kSwiGlu) epilogue = " swiglu";
  if (problem.epilogue == Epilogue::kClampedSwiGlu) epilogue = " clamped-swiglu";
  return fmt::format("{} x [{}, {}] {} x {}{}{}{} -> {}", problem.experts, problem.n, problem.k,
                     to_string(problem.format), to_string(problem.format), epilogue,
                     problem.bias ? " with bias" : "", problem.up_first ? " up first" : "",
                     names_of(problem.output).text);
}

std::string to_string(const W4A4Tactic& tactic) {
  return fmt::format("w4a4 {} {}x{}x{} {} stages {}x{} warps{}{}",
                     tactic.way == Way::kTokensOnM ? "tokens" : "weights", tactic.m, tactic.n,
                     tactic.k, tactic.stages, tactic.warps_m, tactic.warps_n,
                     tactic.blocks_per_sm > 1 ? fmt::format(" {} an SM", tactic.blocks_per_sm) : "",
                     tactic.split ? " split" : "");
}

Result<> check_problem(const W4A4Problem& problem) {
  if (problem.experts < 1 || problem.experts > kMostW4A4Experts) {
    return input_error("{} experts; a grouped product has 1 to {}", problem.experts,
                       kMostW4A4Experts);
  }
  if (problem.format != Format::kNvfp4 && problem.format != Format::kMxfp4) {
    return input_error("weights in {}: the W4A4 kernels take nvfp4 and mxfp4",
                       to_string(problem.format));
  }
  if (problem.n < 1 || problem.k < 1 || problem.n > kLargestW4A4Side ||
      problem.k > kLargestW4A4Side) {
    return input_error("a matrix of {} x {}; both sides are from 1 to {}", problem.n, problem.k,
                       kLargestW4A4Side);
  }
  const int block = block_of(problem.weight_format());
  if (problem.k % block != 0) {
    return input_error(
        "a matrix of {} x {} in {}: its {} columns are not whole blocks of {}, and a block's "
        "scale cannot be shared between ranks; take a tensor-parallel size that divides them, or "
        "W4A16",
        problem.n, problem.k, to_string(problem.format), problem.k, block);
  }
  if (is_gated(problem) && problem.n % 2 != 0) {
    return input_error("gate and up have {} rows together, which is odd", problem.n);
  }
  if (problem.output == W4A4Output::kNvfp4) {
    if (!is_gated(problem)) return input_error("only gated products have an nvfp4 output");
    if (problem.n % 32 != 0) {
      return input_error(
          "gate and up of {} rows give {} columns, which are not whole nvfp4 blocks of 16; take "
          "another output",
          problem.n, problem.n / 2);
    }
  }
  return {};
}

Result<> check_tactic(const W4A4Problem& problem, const W4A4Tactic& tactic,
                      const BlockLimits& limits) {
  NIBBLE_RETURN_IF_ERROR(check_problem(problem));
  NIBBLE_RETURN_IF_ERROR(check_tile(tactic));
  NIBBLE_RETURN_IF_ERROR(check_gated_tile(problem, tactic));
  if (limits.major < 8) {
    return input_error("tactic {}: asynchronous copies came with sm_80, and this is sm_{}{}",
                       to_string(tactic), limits.major, limits.minor);
  }
  return check_shared(
      to_string(tactic),
      w4a4_shared(tactic, problem.weight_format(), static_cast<int>(problem.experts)).bytes,
      tactic.blocks_per_sm, limits);
}

bool has_fp4_mma(const cuda::Arch& arch) {
  return arch.major == 12 && arch.suffix != '\0';
}

Result<cuda::Cubin> compile_w4a4(const W4A4Problem& problem, const W4A4Tactic& tactic,
                                 const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(check_problem(problem));
  NIBBLE_RETURN_IF_ERROR(check_tile(tactic));
  NIBBLE_RETURN_IF_ERROR(check_gated_tile(problem, tactic));
  return cuda::compile({.name = fmt::format("{}, {}", to_string(problem), to_string(tactic)),
                        .files = device_sources(),
                        .main = w4a4_program(problem, tactic),
                        .arch = arch});
}

Result<W4A4Kernel> W4A4Kernel::make(const cuda::Device& device, const W4A4Problem& problem,
                                    const W4A4Tactic& tactic, const std::string& arch) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch code, cuda::arch_to_run(device.info(), arch));
  NIBBLE_RETURN_IF_ERROR(check_tactic(problem, tactic, limits_of(device.info(), code)));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_w4a4(problem, tactic, code.name()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel kernel, module.kernel("w4a4"));
  W4A4Kernel made(problem, tactic, std::move(kernel));
  made.shared_bytes_ = static_cast<std::size_t>(shared_for_blocks(
      static_cast<int>(
          w4a4_shared(tactic, problem.weight_format(), static_cast<int>(problem.experts)).bytes),
      tactic.blocks_per_sm, limits_of(device.info())));
  made.programmatic_ = code.major >= 9;
  made.software_mma_ = !has_fp4_mma(code);
  NIBBLE_RETURN_IF_ERROR(check_resident(to_string(tactic), made.kernel_,
                                        {.threads = tactic.threads(),
                                         .shared_bytes = made.shared_bytes_,
                                         .blocks_per_sm = tactic.blocks_per_sm}));
  made.grid_ = device.info().sms * tactic.blocks_per_sm;
  return made;
}

std::size_t W4A4Kernel::partial_bytes() const {
  if (!tactic_.split) return 0;
  return static_cast<std::size_t>(grid_) * static_cast<std::size_t>(tactic_.m) *
         static_cast<std::size_t>(tactic_.n) * sizeof(float);
}

Result<> W4A4Kernel::enqueue(cuda::Stream& stream, const W4A4Params& params) const {
  return cuda::launch(kernel_,
                      {.grid = {static_cast<unsigned>(grid_)},
                       .block = {static_cast<unsigned>(tactic_.threads())},
                       .dynamic_shared = shared_bytes_,
                       .programmatic = programmatic_},
                      stream, params);
}

Result<> check_choices(const W4A4Problem& problem, const W4A4Tactic& tactic, std::int64_t choices) {
  return check_steps(to_string(problem),
                     {.tile_tokens = tactic.tokens(),
                      .row_tiles = ceil_div(problem.n, tactic.weights()),
                      .steps = ceil_div(problem.k, tactic.k),
                      .experts = problem.experts},
                     choices);
}

}  // namespace nibble
