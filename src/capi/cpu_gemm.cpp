// The GEMM of the CPU: weights packed once, then calls on memory of the host.
#include <limits>
#include <memory>
#include <nibble/nibble.h>
#include <numeric>
#include <vector>

#include "capi/arguments.h"
#include "capi/elements.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "capi/moe_weights.h"
#include "kernels/gemm/gemm.h"

struct nibble_cpu_gemm {
  std::shared_ptr<nibble::capi::DeviceState> device;
  nibble::PackedWeights weights;
  std::int32_t out_dtype = NIBBLE_BF16;
};

namespace nibble::capi {
namespace {

constexpr std::int64_t kMostCpuRows = kMostSide;

Result<std::unique_ptr<nibble_cpu_gemm>> pack(const std::shared_ptr<DeviceState>& state,
                                              const nibble_fp4_gemm_desc& desc,
                                              const nibble_cpu_gemm_weights& given) {
  NIBBLE_ASSIGN_OR_RETURN(const Format format, format_of(desc.format));
  NIBBLE_RETURN_IF_ERROR(check_float_dtype("out_dtype", desc.out_dtype));
  NIBBLE_RETURN_IF_ERROR(check_range("experts", desc.experts, 0, kMostExpertsGiven));
  const GivenMatrices matrices{.name = "b",
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
  state->cpu->run(
      [&](ThreadPool& pool) { packed = PackedWeights::pack(host.views(), best_isa(), pool); });
  if (!packed.ok()) return packed.error().within("b");
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

// a in fp32.
Result<std::vector<float>> rows_of(const nibble_cpu_gemm_args& args, const PackedWeights& weights,
                                   std::span<const std::int32_t> offsets) {
  NIBBLE_RETURN_IF_ERROR(check_given(args.a, "a"));
  const std::int64_t columns = weights.columns();
  if (args.a_dtype != NIBBLE_FP4) {
    if (!check_float_dtype("a_dtype", args.a_dtype).ok()) {
      return input_error("a_dtype is {}; give one of nibble_dtype", args.a_dtype);
    }
    return widened(args.a, args.a_dtype, args.rows * columns);
  }
  NIBBLE_RETURN_IF_ERROR(check_given(args.block_scale_a, "block_scale_a"));
  NIBBLE_RETURN_IF_ERROR(check_alignment("sf_offsets", args.sf_offsets, alignof(std::int32_t)));
  const CodedRows coded{.format = weights.format(),
                        .columns = columns,
                        .codes = static_cast<const std::uint8_t*>(args.a),
                        .scales = static_cast<const std::uint8_t*>(args.block_scale_a)};
  std::vector<float> rows(static_cast<std::size_t>(args.rows * columns));
  for (std::size_t expert = 0; expert + 1 < offsets.size(); ++expert) {
    const std::int64_t begin = offsets[expert];
    const std::int64_t scale_begin = args.sf_offsets != nullptr ? args.sf_offsets[expert] : begin;
    if (scale_begin < 0) return input_error("sf_offsets[{}] is {}", expert, scale_begin);
    for (std::int64_t row = begin; row < offsets[expert + 1]; ++row) {
      const auto first = static_cast<std::size_t>(row * columns);
      decode_row(coded, row, scale_begin + row - begin,
                 std::span(rows).subspan(first, static_cast<std::size_t>(columns)));
    }
  }
  return rows;
}

Result<> multiply(const nibble_cpu_gemm& gemm_plan, const nibble_cpu_gemm_args& args) {
  const PackedWeights& weights = gemm_plan.weights;
  NIBBLE_RETURN_IF_ERROR(check_range("rows", args.rows, 0, kMostCpuRows));
  if (args.rows == 0) return {};
  NIBBLE_RETURN_IF_ERROR(check_pointer("out", args.out, bytes_of_dtype(gemm_plan.out_dtype)));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::int32_t> offsets,
                          offsets_of(args, weights.experts()));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> x, rows_of(args, weights, offsets));
  const Format held = args.a_dtype == NIBBLE_BF16 ? Format::kBf16 : Format::kFp32;
  NIBBLE_ASSIGN_OR_RETURN(
      PackedActivations packed,
      PackedActivations::make(args.rows, weights.columns(), held, weights.isa(), weights.format()));
  std::vector<std::int32_t> row_of(static_cast<std::size_t>(args.rows));
  std::iota(row_of.begin(), row_of.end(), 0);
  std::vector<float> output(static_cast<std::size_t>(args.rows * weights.rows()));
  gemm_plan.device->cpu->run([&](ThreadPool& pool) {
    packed.quantize(x, pool);
    gemm({.weights = weights,
          .activations = packed,
          .offsets = offsets,
          .row_of = row_of,
          .output = output},
         pool);
  });
  narrow(output, gemm_plan.out_dtype, args.out);
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
