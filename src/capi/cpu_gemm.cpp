// The GEMM of the CPU: weights packed once, then calls on memory of the host.
#include <limits>
#include <memory>
#include <nibble/nibble.h>
#include <numeric>
#include <vector>

#include "capi/arguments.h"
#include "capi/cpu_range.h"
#include "capi/cpu_rows.h"
#include "capi/elements.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "capi/moe_weights.h"
#include "formats/quantize.h"
#include "kernels/gemm/gemm.h"

struct nibble_cpu_gemm {
  std::shared_ptr<nibble::capi::DeviceState> device;
  nibble::PackedWeights weights;
  std::int32_t out_dtype = NIBBLE_BF16;
};

namespace nibble::capi {
namespace {

// Of codes a row may become four (cpu_rows.h).
constexpr std::int64_t kMostCpuRows = kMostSide;

Result<> check_desc(const nibble_fp4_gemm_desc& desc, Format format) {
  NIBBLE_RETURN_IF_ERROR(check_float_dtype("out_dtype", desc.out_dtype));
  NIBBLE_RETURN_IF_ERROR(check_range("experts", desc.experts, 0, kMostExpertsGiven));
  NIBBLE_RETURN_IF_ERROR(check_range("expected_rows", desc.expected_rows, 0,
                                     std::numeric_limits<std::int32_t>::max()));
  NIBBLE_RETURN_IF_ERROR(check_range("n", desc.n, 1, kMostSide));
  const std::int64_t block = format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block;
  if (desc.k >= 1 && desc.k <= kMostSide && desc.k % block == 0) return {};
  return input_error("k is {}; give a multiple of {} ({}) to {}", desc.k, block, to_string(format),
                     kMostSide);
}

Result<std::unique_ptr<nibble_cpu_gemm>> pack(const std::shared_ptr<DeviceState>& state,
                                              const nibble_fp4_gemm_desc& desc,
                                              const nibble_cpu_gemm_weights& given) {
  NIBBLE_ASSIGN_OR_RETURN(const Format format, format_of(desc.format));
  NIBBLE_RETURN_IF_ERROR(check_desc(desc, format));
  const GivenMatrices matrices{
      .names = {.codes = "b", .scales = "block_scale_b", .factors = "alpha"},
      .format = format,
      .experts = desc.experts > 0 ? desc.experts : 1,
      .rows = desc.n,
      .columns = desc.k,
      .scale_layout = given.scale_layout,
      .codes = given.b,
      .scales = given.block_scale_b,
      .factors = given.alpha};
  NIBBLE_ASSIGN_OR_RETURN(const HostMatrices host, HostMatrices::read(matrices, nullptr));
  Result<PackedWeights> packed = input_error("not packed");
  NIBBLE_RETURN_IF_ERROR(state->cpu->run(
      [&](ThreadPool& pool) { packed = PackedWeights::pack(host.views(), best_isa(), pool); }));
  if (!packed.ok()) return packed.error().within("b");
  NIBBLE_RETURN_IF_ERROR(check_weights_held("b", host.views()));
  return std::make_unique<nibble_cpu_gemm>(
      nibble_cpu_gemm{state, std::move(*packed), desc.out_dtype});
}

// [experts + 1], checked; of one expert without offsets {0, rows}.
Result<std::vector<std::int32_t>> offsets_of(const nibble_cpu_gemm_args& args,
                                             std::int64_t experts) {
  if (args.expert_offsets == nullptr) {
    if (experts > 1) {
      return input_error("expert_offsets is null, and the weights have {} experts", experts);
    }
    return std::vector<std::int32_t>{0, static_cast<std::int32_t>(args.rows)};
  }
  NIBBLE_RETURN_IF_ERROR(
      check_alignment("expert_offsets", args.expert_offsets, alignof(std::int32_t)));
  std::vector<std::int32_t> offsets(args.expert_offsets, args.expert_offsets + experts + 1);
  NIBBLE_RETURN_IF_ERROR(check_offsets(offsets, args.rows));
  return offsets;
}

// a as fp32 rows, checked.
Result<CpuRows> rows_of(const nibble_cpu_gemm_args& args, const PackedWeights& weights,
                        std::span<const std::int32_t> offsets) {
  NIBBLE_RETURN_IF_ERROR(check_given(args.a, "a"));
  GivenRows given{.dtype = args.a_dtype,
                  .a = args.a,
                  .columns = weights.columns(),
                  .offsets = offsets,
                  .sf_offsets = args.sf_offsets};
  if (args.a_dtype == NIBBLE_FP4) {
    NIBBLE_RETURN_IF_ERROR(check_given(args.block_scale_a, "block_scale_a"));
    NIBBLE_RETURN_IF_ERROR(check_alignment("sf_offsets", args.sf_offsets, alignof(std::int32_t)));
    given.coded = {.format = weights.format(),
                   .columns = weights.columns(),
                   .codes = static_cast<const std::uint8_t*>(args.a),
                   .scales = static_cast<const std::uint8_t*>(args.block_scale_a)};
  } else {
    if (!check_float_dtype("a_dtype", args.a_dtype).ok()) {
      return input_error("a_dtype is {}; give one of nibble_dtype", args.a_dtype);
    }
    NIBBLE_RETURN_IF_ERROR(check_alignment("a", args.a, bytes_of_dtype(args.a_dtype)));
  }
  return CpuRows::read(given);
}

Result<> multiply(const nibble_cpu_gemm& gemm_plan, const nibble_cpu_gemm_args& args) {
  const PackedWeights& weights = gemm_plan.weights;
  NIBBLE_RETURN_IF_ERROR(check_range("rows", args.rows, 0, kMostCpuRows));
  if (args.rows == 0) return {};
  NIBBLE_RETURN_IF_ERROR(check_pointer("out", args.out, bytes_of_dtype(gemm_plan.out_dtype)));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::int32_t> offsets,
                          offsets_of(args, weights.experts()));
  NIBBLE_RETURN_IF_ERROR(gemm_plan.device->cpu->check_process());
  NIBBLE_ASSIGN_OR_RETURN(const CpuRows rows, rows_of(args, weights, offsets));
  const Format held = args.a_dtype == NIBBLE_BF16 ? Format::kBf16 : Format::kFp32;
  NIBBLE_ASSIGN_OR_RETURN(PackedActivations packed,
                          PackedActivations::make(rows.parts(), weights.columns(), held,
                                                  weights.isa(), weights.format()));
  std::vector<std::int32_t> row_of(static_cast<std::size_t>(rows.parts()));
  std::iota(row_of.begin(), row_of.end(), 0);
  std::vector<float> output(static_cast<std::size_t>(rows.parts() * weights.rows()));
  NIBBLE_RETURN_IF_ERROR(gemm_plan.device->cpu->run([&](ThreadPool& pool) {
    packed.quantize(rows.x(), pool);
    gemm({.weights = weights,
          .activations = packed,
          .offsets = rows.offsets(),
          .row_of = row_of,
          .output = output},
         pool);
  }));
  NIBBLE_RETURN_IF_ERROR(rows.add_parts(output, weights.rows()));
  const auto values = static_cast<std::size_t>(args.rows * weights.rows());
  narrow(std::span(output).first(values), gemm_plan.out_dtype, args.out);
  return {};
}

}  // namespace

extern "C" {

nibble_status nibble_cpu_gemm_create(nibble_device* device, const nibble_fp4_gemm_desc* desc,
                                     const nibble_cpu_gemm_weights* weights,
                                     nibble_cpu_gemm** gemm) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(gemm, "gemm"));
    *gemm = nullptr;
    NIBBLE_ASSIGN_OR_RETURN(const auto state, cpu_of(device, "nibble_cpu_gemm_create"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_fp4_gemm_desc read, read_struct(desc, "desc"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_cpu_gemm_weights given, read_struct(weights, "weights"));
    NIBBLE_ASSIGN_OR_RETURN(auto made, pack(state, read, given));
    *gemm = made.release();
    return {};
  });
}

void nibble_cpu_gemm_destroy(nibble_cpu_gemm* gemm) {
  const std::unique_ptr<nibble_cpu_gemm> owned(gemm);
}

nibble_status nibble_cpu_gemm_run(const nibble_cpu_gemm* gemm, const nibble_cpu_gemm_args* args) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(gemm, "gemm"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_cpu_gemm_args read, read_struct(args, "args"));
    return multiply(*gemm, read);
  });
}

}  // extern "C"

}  // namespace nibble::capi
