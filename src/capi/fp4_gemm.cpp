// The FP4 GEMM of a GPU: a plan, its workspace, a call.
#include <limits>
#include <memory>
#include <nibble/nibble.h>

#include "capi/alpha_pairs.h"
#include "capi/arguments.h"
#include "capi/elements.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "kernels/device/block_limits.h"
#include "kernels/gemm/device/w4a4.h"

namespace nibble::capi {
namespace {

constexpr std::int64_t kUsualRows = 16;
// Of every vector that the kernels read or write at once.
constexpr std::size_t kWide = 16;
constexpr std::size_t kBetweenArrays = 256;

// Bytes from the beginning of the workspace. The flags come first: clearing them, even where a
// tactic has none, is what keeps the product behind all that was enqueued before it. It may begin
// before the kernel before it has ended (W4A4Kernel::enqueue), and what an engine enqueues may
// write what the product reads before it waits.
struct WorkspacePlan {
  std::size_t flag_bytes = 0;
  std::size_t pairs = 0;
  std::size_t partials = 0;
  std::size_t bytes = 0;
};

std::size_t padded_array(std::size_t bytes) {
  return (bytes + kBetweenArrays - 1) / kBetweenArrays * kBetweenArrays;
}

WorkspacePlan workspace_plan(const W4A4Kernel& kernel) {
  WorkspacePlan plan;
  plan.flag_bytes = static_cast<std::size_t>(kernel.grid()) * sizeof(std::uint32_t);
  plan.pairs = padded_array(plan.flag_bytes);
  const auto experts = static_cast<std::size_t>(kernel.problem().experts);
  plan.partials = plan.pairs + padded_array(experts * 2 * sizeof(float));
  plan.bytes = plan.partials + padded_array(kernel.partial_bytes());
  return plan;
}

Result<W4A4Output> output_of(std::int32_t dtype) {
  NIBBLE_RETURN_IF_ERROR(check_float_dtype("out_dtype", dtype));
  if (dtype == NIBBLE_FP32) return W4A4Output::kFp32;
  return dtype == NIBBLE_FP16 ? W4A4Output::kFp16 : W4A4Output::kBf16;
}

Result<W4A4Problem> problem_of(const nibble_fp4_gemm_desc& desc) {
  NIBBLE_ASSIGN_OR_RETURN(const Format format, format_of(desc.format));
  NIBBLE_ASSIGN_OR_RETURN(const W4A4Output output, output_of(desc.out_dtype));
  NIBBLE_RETURN_IF_ERROR(check_range("experts", desc.experts, 0, kMostExpertsGiven));
  NIBBLE_RETURN_IF_ERROR(check_range("expected_rows", desc.expected_rows, 0,
                                     std::numeric_limits<std::int32_t>::max()));
  const W4A4Problem problem{.experts = desc.experts > 0 ? desc.experts : 1,
                            .n = desc.n,
                            .k = desc.k,
                            .format = format,
                            .output = output};
  NIBBLE_RETURN_IF_ERROR(check_problem(problem));
  return problem;
}

template <class T>
const T* device_at(const void* address) {
  return static_cast<const T*>(address);
}

}  // namespace
}  // namespace nibble::capi

struct nibble_fp4_gemm {
  std::shared_ptr<nibble::capi::DeviceState> device;
  nibble::W4A4Kernel kernel;
  std::shared_ptr<const nibble::cuda::Kernel> alpha_pairs;
  nibble::capi::WorkspacePlan workspace;
};

namespace nibble::capi {
namespace {

Result<std::unique_ptr<nibble_fp4_gemm>> make_plan(std::shared_ptr<DeviceState> state,
                                                   const nibble_fp4_gemm_desc& desc) {
  NIBBLE_ASSIGN_OR_RETURN(const W4A4Problem problem, problem_of(desc));
  Gpu& gpu = *state->gpu;
  const std::int64_t rows = desc.expected_rows > 0 ? desc.expected_rows : kUsualRows;
  const W4A4Tactic tactic = default_tactic(problem, rows, limits_of(gpu.device.info()));
  NIBBLE_ASSIGN_OR_RETURN(W4A4Kernel kernel, W4A4Kernel::make(gpu.device, problem, tactic));
  NIBBLE_ASSIGN_OR_RETURN(auto pairs, alpha_pairs_kernel(gpu));
  const WorkspacePlan workspace = workspace_plan(kernel);
  return std::make_unique<nibble_fp4_gemm>(
      nibble_fp4_gemm{std::move(state), std::move(kernel), std::move(pairs), workspace});
}

Result<> check_call(const nibble_fp4_gemm& plan, const nibble_fp4_gemm_args& args) {
  NIBBLE_RETURN_IF_ERROR(check_reserved("args", args.reserved));
  NIBBLE_RETURN_IF_ERROR(
      check_range("rows", args.rows, 0, std::numeric_limits<std::int32_t>::max()));
  const W4A4Problem& problem = plan.kernel.problem();
  NIBBLE_RETURN_IF_ERROR(check_choices(problem, plan.kernel.tactic(), args.rows));
  if (args.rows == 0) return {};
  NIBBLE_RETURN_IF_ERROR(check_pointer("a", args.a, kWide));
  NIBBLE_RETURN_IF_ERROR(check_pointer("b", args.b, kWide));
  NIBBLE_RETURN_IF_ERROR(check_pointer("block_scale_a", args.block_scale_a, kWide));
  NIBBLE_RETURN_IF_ERROR(check_pointer("block_scale_b", args.block_scale_b, kWide));
  NIBBLE_RETURN_IF_ERROR(check_pointer("out", args.out, kWide));
  NIBBLE_RETURN_IF_ERROR(check_alignment("alpha", args.alpha, alignof(float)));
  NIBBLE_RETURN_IF_ERROR(
      check_alignment("expert_offsets", args.expert_offsets, alignof(std::int32_t)));
  NIBBLE_RETURN_IF_ERROR(check_alignment("sf_offsets", args.sf_offsets, alignof(std::int32_t)));
  if (problem.experts > 1 && args.expert_offsets == nullptr) {
    return input_error("expert_offsets is null, and the plan has {} experts", problem.experts);
  }
  NIBBLE_RETURN_IF_ERROR(check_pointer("workspace", args.workspace, kWide));
  if (args.workspace_bytes < plan.workspace.bytes) {
    return input_error("the workspace has {} bytes; this plan needs {}", args.workspace_bytes,
                       plan.workspace.bytes);
  }
  return {};
}

// The arguments mean what they mean in vLLM (csrc/quantization/fp4/nvfp4_blockwise_moe_kernel.cu,
// __get_group_gemm_starts): offsets count rows, of a and of its scales, and an expert's scales
// begin at a multiple of 128 rows; b and its scales have an expert's matrix after the other.
Result<> enqueue_product(const nibble_fp4_gemm& plan, const nibble_fp4_gemm_args& args,
                         cuda::Stream& stream) {
  auto* const workspace = static_cast<std::uint8_t*>(args.workspace);
  auto* const pairs = reinterpret_cast<float*>(workspace + plan.workspace.pairs);
  const bool split = plan.kernel.tactic().split;
  NIBBLE_RETURN_IF_ERROR(enqueue_alpha_pairs(*plan.alpha_pairs, stream, args.alpha, pairs,
                                             static_cast<int>(plan.kernel.problem().experts)));
  NIBBLE_RETURN_IF_ERROR(
      cuda::check(stream.driver().MemsetD8Async(reinterpret_cast<cuda::DevicePointer>(workspace), 0,
                                                plan.workspace.flag_bytes, stream.handle()),
                  "cuMemsetD8Async"));
  return plan.kernel.enqueue(
      stream,
      {.weights = device_at<std::uint8_t>(args.b),
       .weight_scales = device_at<std::uint8_t>(args.block_scale_b),
       .alpha = pairs,
       .tokens = device_at<std::uint8_t>(args.a),
       .token_scales = device_at<std::uint8_t>(args.block_scale_a),
       .offsets = args.expert_offsets,
       .scale_rows = args.sf_offsets,
       .output = args.out,
       .rows = static_cast<std::int32_t>(args.rows),
       .partials = split ? reinterpret_cast<float*>(workspace + plan.workspace.partials) : nullptr,
       .flags = split ? reinterpret_cast<std::uint32_t*>(workspace) : nullptr});
}

}  // namespace

extern "C" {

nibble_status nibble_fp4_gemm_create(nibble_device* device, const nibble_fp4_gemm_desc* desc,
                                     nibble_fp4_gemm** plan) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(plan, "plan"));
    *plan = nullptr;
    NIBBLE_ASSIGN_OR_RETURN(auto state, gpu_of(device, "nibble_fp4_gemm_create"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_fp4_gemm_desc read, read_struct(desc, "desc"));
    const Gpu& gpu = *state->gpu;
    NIBBLE_ASSIGN_OR_RETURN(auto made, on_gpu(gpu, [&] { return make_plan(state, read); }));
    *plan = made.release();
    return {};
  });
}

void nibble_fp4_gemm_destroy(nibble_fp4_gemm* plan) {
  const std::unique_ptr<nibble_fp4_gemm> owned(plan);
}

nibble_status nibble_fp4_gemm_workspace_bytes(const nibble_fp4_gemm* plan, size_t* bytes) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(plan, "plan"));
    NIBBLE_RETURN_IF_ERROR(check_given(bytes, "bytes"));
    *bytes = plan->workspace.bytes;
    return {};
  });
}

nibble_status nibble_fp4_gemm_run(const nibble_fp4_gemm* plan, const nibble_fp4_gemm_args* args,
                                  void* stream) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(plan, "plan"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_fp4_gemm_args read, read_struct(args, "args"));
    NIBBLE_RETURN_IF_ERROR(check_call(*plan, read));
    if (read.rows == 0) return {};
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
    const cuda::Device& device = plan->device->gpu->device;
    const cuda::CurrentContext current(*driver, device.context());
    NIBBLE_RETURN_IF_ERROR(current.result());
    cuda::BorrowedStream borrowed(*driver, device.context(),
                                  static_cast<cuda::abi::Stream>(stream));
    return enqueue_product(*plan, read, borrowed.stream());
  });
}

nibble_status nibble_fp4_gemm_describe(const nibble_fp4_gemm* plan, nibble_fp4_gemm_info* info) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(plan, "plan"));
    const W4A4Kernel& kernel = plan->kernel;
    nibble_fp4_gemm_info filled = {};
    filled.software_mma = kernel.software_mma() ? 1 : 0;
    filled.grid = kernel.grid();
    filled.shared_bytes = static_cast<std::int64_t>(kernel.shared_bytes());
    write_text(filled.problem, to_string(kernel.problem()));
    write_text(filled.tactic, to_string(kernel.tactic()));
    return write_struct(info, filled, "info");
  });
}

}  // extern "C"

}  // namespace nibble::capi
