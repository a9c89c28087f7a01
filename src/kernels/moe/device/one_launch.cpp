#include "kernels/moe/device/one_launch.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/device/device_sources.h"
#include "kernels/gemm/device/product_checks.h"
#include "kernels/moe/device/moe_kernels.h"

namespace nibble {
namespace {

constexpr int kMostSlabs = 4;
constexpr int kMostSlots = 16;

// The text that is compiled: the constants, and the kernel that has them.
std::string one_launch_text(const CudaMoeProblem& problem, const OneLaunchTactic& tactic) {
  const Epilogue epilogue = problem.gate_up.mode == W4A16Mode::kClampedSwiGlu
                                ? Epilogue::kClampedSwiGlu
                                : Epilogue::kSwiGlu;
  const bool nvfp4 = problem.gate_up.format == Format::kNvfp4;
  return fmt::format(
      R"(#include "kernels/moe/device/one_launch.cuh"
namespace nibble {{
struct Config {{
  static constexpr OneLaunchTactic kTactic = {{
      .tokens = {}, .slabs = {}, .down_slabs = {}, .slots = {}, .blocks = {},
      .teams = {}}};
  static constexpr MoeShape kShape = {};
  static constexpr int64_t kIntermediate = {};
  static constexpr WeightFormat kFormat = WeightFormat::{};
  static constexpr Element kActivations = Element({});
  static constexpr Epilogue kEpilogue = Epilogue({});
  static constexpr bool kGateUpBias = {};
  static constexpr bool kDownBias = {};
}};
}}  // namespace nibble
extern "C" __global__ void __launch_bounds__({}, 1)
    moe_one_launch(const __grid_constant__ nibble::OneLaunchParams params) {{
  nibble::OneLaunch<nibble::Config>::run(params);
}}
)",
      tactic.tokens, tactic.slabs, tactic.down_slabs, tactic.slots, tactic.blocks, tactic.teams,
      cpp_text_of(problem.shape), problem.down.k, nvfp4 ? "kNvfp4" : "kMxfp4",
      static_cast<int>(problem.gate_up.activations), static_cast<int>(epilogue),
      problem.gate_up.bias, problem.down.bias, tactic.threads());
}

OneLaunchPlan plan_of(const CudaMoeProblem& problem, const OneLaunchTactic& tactic) {
  return one_launch_plan(
      tactic, problem.gate_up.scale_bytes(),
      {.experts = problem.shape.experts, .choices = tactic.tokens * problem.shape.top_k});
}

}  // namespace

std::string to_string(const OneLaunchTactic& tactic) {
  return fmt::format("one launch {} tokens {}+{} slabs {} slots {} teams", tactic.tokens,
                     tactic.slabs, tactic.down_slabs, tactic.slots, tactic.teams);
}

Result<> check_one_launch(const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                          const BlockLimits& limits) {
  if (tactic.tokens < kSlotGroup || tactic.tokens > kMostOneLaunchTokens ||
      tactic.tokens % kSlotGroup != 0 || tactic.slabs < 1 || tactic.slabs > kMostSlabs ||
      tactic.down_slabs < 1 || tactic.down_slabs > kMostSlabs || tactic.slots < 2 ||
      tactic.slots > kMostSlots) {
    return input_error("tactic {}: tokens are 8 or 16, slabs 1 to {}, slots 2 to {}",
                       to_string(tactic), kMostSlabs, kMostSlots);
  }
  if (tactic.teams != 1 && tactic.teams != 2 && tactic.teams != 4) {
    return input_error("tactic {}: {} warps are 1, 2 or 4 teams", to_string(tactic),
                       kOneLaunchWarps);
  }
  const std::int64_t choices = std::int64_t{tactic.tokens} * problem.shape.top_k;
  if (choices > kMostOneLaunchChoices) {
    return input_error("tactic {}: {} choices of {} experts each; one launch has room for {}",
                       to_string(tactic), choices, problem.shape.top_k, kMostOneLaunchChoices);
  }
  return check_shared(to_string(tactic), plan_of(problem, tactic).bytes, 1, limits);
}

std::optional<OneLaunchTactic> one_launch_for(const CudaMoeProblem& problem, std::int64_t tokens,
                                              const cuda::DeviceInfo& info) {
  if (tokens < 1 || tokens > kMostOneLaunchTokens) return std::nullopt;
  OneLaunchTactic tactic{.tokens = static_cast<int>(ceil_div(tokens, kSlotGroup) * kSlotGroup)};
  // As many slabs as a block has of down; the sums of more fill the registers.
  const std::int64_t slabs = ceil_div(ceil_div(problem.shape.hidden, kSlabRows), info.sms);
  tactic.down_slabs = static_cast<int>(std::clamp<std::int64_t>(slabs, 1, 3));
  tactic.slots = kMostSlots;
  tactic.blocks = info.sms;
  // Two teams where each has several pieces: one works while the other's sums meet.
  const std::int64_t experts =
      std::min<std::int64_t>(problem.shape.experts, tokens * problem.shape.top_k);
  const std::int64_t up_slabs = experts * ceil_div(problem.gate_up.n, kSlabRows);
  tactic.teams = up_slabs >= std::int64_t{6} * info.sms ? 2 : 1;
  const BlockLimits limits = limits_of(info);
  while (tactic.slots > 2 && !check_one_launch(problem, tactic, limits).ok()) --tactic.slots;
  if (!check_one_launch(problem, tactic, limits).ok()) return std::nullopt;
  return tactic;
}

std::optional<OneLaunchTactic> default_one_launch(const CudaMoeProblem& problem,
                                                  std::int64_t tokens,
                                                  const cuda::DeviceInfo& info) {
  // What one launch saves is some 15 us, and it streams at 60 to 75 % of the rate of the kernels of
  // several: on an H200 they are even where the experts that are met have about so many bytes.
  constexpr double kMostBytes = 192e6;
  const std::int64_t experts =
      std::min<std::int64_t>(problem.shape.experts, tokens * problem.shape.top_k);
  const double tile_bytes = kCodeBytes + problem.gate_up.scale_bytes();
  const double bytes =
      static_cast<double>(problem.gate_up.n * problem.gate_up.k + problem.down.n * problem.down.k) *
      tile_bytes / (kTileRows * kChunk);
  if (info.major < 9 || static_cast<double>(experts) * bytes > kMostBytes) return std::nullopt;
  return one_launch_for(problem, tokens, info);
}

Result<cuda::Cubin> compile_one_launch(const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                                       const std::string& arch) {
  return cuda::compile({.name = fmt::format("moe {}, {}, {}", to_string(problem.gate_up),
                                            to_string(problem.down), to_string(tactic)),
                        .files = device_sources(),
                        .main = one_launch_text(problem, tactic),
                        .arch = arch});
}

Result<OneLaunchKernel> OneLaunchKernel::make(const cuda::Device& device,
                                              const CudaMoeProblem& problem,
                                              const OneLaunchTactic& tactic,
                                              const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch code, cuda::arch_to_run(device.info(), arch));
  NIBBLE_RETURN_IF_ERROR(check_one_launch(problem, tactic, limits_of(device.info(), code)));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin,
                          compile_one_launch(problem, tactic, code.name()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel kernel, module.kernel("moe_one_launch"));
  OneLaunchKernel made(tactic, std::move(kernel));
  made.shared_bytes_ = static_cast<std::size_t>(shared_for_blocks(
      static_cast<int>(plan_of(problem, tactic).bytes), 1, limits_of(device.info())));
  made.x_alignment_ = problem.shape.hidden % 16 == 0 ? 16 : 4;
  // Code for earlier architectures has no griddepcontrol.wait, also where the GPU would have it.
  made.programmatic_ = code.major >= 9;
  NIBBLE_RETURN_IF_ERROR(
      check_resident(to_string(tactic), made.kernel_,
                     {.threads = tactic.threads(), .shared_bytes = made.shared_bytes_}));
  if (tactic.blocks != device.info().sms) {
    return input_error("tactic {}: {} blocks wait for each other, and this GPU has {} SMs",
                       to_string(tactic), tactic.blocks, device.info().sms);
  }
  return made;
}

bool OneLaunchKernel::takes(std::int64_t tokens, std::uint64_t x) const {
  return tokens <= tactic_.tokens && x % x_alignment_ == 0;
}

Result<> OneLaunchKernel::enqueue(cuda::Stream& stream, const OneLaunchParams& params) const {
  return cuda::launch(kernel_,
                      {.grid = {static_cast<unsigned>(tactic_.blocks)},
                       .block = {static_cast<unsigned>(tactic_.threads())},
                       .dynamic_shared = shared_bytes_,
                       .programmatic = programmatic_},
                      stream, params);
}

}  // namespace nibble
