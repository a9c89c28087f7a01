#include "bench/cuda_compile.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "bench/cuda_probes.h"
#include "bench/cuda_w4a16_rig.h"
#include "bench/cuda_w4a4_rig.h"

namespace nibble {
namespace {

class AheadCompiler {
 public:
  AheadCompiler(const CudaBenchRequest& request, std::string arch, cuda::DeviceInfo info)
      : request_(request), arch_(std::move(arch)), info_(std::move(info)) {
    done_.arch = arch_;
  }

  Result<> compile(const BenchShape& shape) {
    if (is_w4a4(shape)) return compile_w4a4_shape(shape);
    if (shape.op == BenchOp::kMoe) return compile_layer(shape);
    if (!is_four_bit(shape.format)) return {};
    if (shape.experts > 1) return compile_layer(layer_of_product(shape));
    for (const std::int64_t tokens : shape.tokens) {
      NIBBLE_RETURN_IF_ERROR(compile_product(dense_problem(shape), tokens));
    }
    return {};
  }

  Result<> add(const Result<cuda::Cubin>& cubin, bool software = false) {
    if (!cubin.ok()) return cubin.error();
    ++done_.programs;
    done_.cached += cubin->cached ? 1 : 0;
    const bool spills = std::any_of(cubin->kernels.begin(), cubin->kernels.end(),
                                    [](const auto& kernel) { return kernel.spills(); });
    std::vector<std::string>& names = software ? done_.software_spilling : done_.spilling;
    // Some numbers of tokens share a program.
    const bool named = std::find(names.begin(), names.end(), cubin->program) != names.end();
    if (spills && !named) names.push_back(cubin->program);
    return {};
  }

  const CompiledAhead& done() const { return done_; }

 private:
  Result<> compile_product(const W4A16Problem& problem, std::int64_t largest,
                           std::int64_t active = 0) {
    return add(compile_w4a16(problem, default_tactic(problem, largest, info_, active), arch_));
  }

  // The same routings as the rig draws, so that their largest experts are the same.
  Result<> compile_layer(const BenchShape& shape) {
    NIBBLE_ASSIGN_OR_RETURN(const CudaMoeProblem problem,
                            cuda_moe_problem(layer_config(shape), shape.format, false, false));
    NIBBLE_RETURN_IF_ERROR(add(compile_moe_kernels(problem.shape, arch_)));
    Random random(request_.seed);
    for (const std::int64_t tokens : shape.tokens) {
      const RouteRequest route{.experts = shape.experts, .top_k = shape.top_k, .tokens = tokens};
      const std::int64_t largest = usual_largest(draw_turns(route, request_.routing, random));
      NIBBLE_RETURN_IF_ERROR(compile_product(problem.gate_up, largest, tokens * shape.top_k));
      NIBBLE_RETURN_IF_ERROR(compile_product(problem.down, largest, tokens * shape.top_k));
      const auto one_launch =
          request_.path == LayerPath::kOneLaunch ? one_launch_for(problem, tokens, info_)
          : request_.path == LayerPath::kChosen  ? default_one_launch(problem, tokens, info_)
                                                 : std::nullopt;
      if (one_launch) NIBBLE_RETURN_IF_ERROR(add(compile_one_launch(problem, *one_launch, arch_)));
    }
    return {};
  }

  Result<> compile_w4a4_shape(const BenchShape& shape) {
    if (shape.op == BenchOp::kMoe) return compile_w4a4_layer(shape);
    if (shape.experts > 1) return compile_w4a4_layer(layer_of_product(shape));
    NIBBLE_RETURN_IF_ERROR(add(compile_quantize(w4a4_dense_tokens(shape), arch_)));
    for (const std::int64_t tokens : shape.tokens) {
      NIBBLE_RETURN_IF_ERROR(compile_w4a4_product(w4a4_dense_problem(shape), tokens));
    }
    return {};
  }

  Result<> compile_w4a4_product(const W4A4Problem& problem, std::int64_t largest) {
    const std::optional<cuda::Arch> arch = cuda::parse_arch(arch_);
    return add(compile_w4a4(problem, default_tactic(problem, largest, limits_of(info_)), arch_),
               !arch || !has_fp4_mma(*arch));
  }

  Result<> compile_w4a4_layer(const BenchShape& shape) {
    NIBBLE_ASSIGN_OR_RETURN(const CudaW4A4MoeProblem problem, w4a4_layer_problem(shape));
    NIBBLE_RETURN_IF_ERROR(add(compile_moe_kernels(problem.shape, arch_)));
    NIBBLE_RETURN_IF_ERROR(add(compile_quantize(problem.tokens, arch_)));
    if (problem.slots) NIBBLE_RETURN_IF_ERROR(add(compile_quantize(*problem.slots, arch_)));
    Random random(request_.seed);
    for (const std::int64_t tokens : shape.tokens) {
      const RouteRequest route{.experts = shape.experts, .top_k = shape.top_k, .tokens = tokens};
      const std::int64_t largest = usual_largest(draw_turns(route, request_.routing, random));
      NIBBLE_RETURN_IF_ERROR(compile_w4a4_product(problem.gate_up, largest));
      NIBBLE_RETURN_IF_ERROR(compile_w4a4_product(problem.down, largest));
    }
    return {};
  }

  const CudaBenchRequest& request_;
  std::string arch_;
  cuda::DeviceInfo info_;
  CompiledAhead done_;
};

}  // namespace

Result<cuda::DeviceInfo> device_for(const std::string& arch) {
  constexpr int kSharedReserved = 1024;
  constexpr std::pair<int, int> kSharedOfSm[] = {// capability x 10 and KB (CUDA guide, table 30)
                                                 {80, 164},  {86, 100},  {87, 164},  {89, 100},
                                                 {90, 228},  {100, 228}, {103, 228}, {110, 228},
                                                 {120, 100}, {121, 100}};
  std::string_view digits = arch;
  const bool named = digits.starts_with("sm_");
  if (named) digits.remove_prefix(3);
  if (digits.ends_with('a')) digits.remove_suffix(1);
  int capability = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  const bool whole = named && error == std::errc() && end == digits.data() + digits.size();
  for (const auto& [known, kilobytes] : kSharedOfSm) {
    if (!whole || known != capability) continue;
    const int shared = kilobytes * 1024;
    return cuda::DeviceInfo{.name = arch,
                            .major = known / 10,
                            .minor = known % 10,
                            .sms = 132,
                            .memory_bytes = 141e9,
                            .l2_bytes = 60e6,
                            .shared_per_block_optin = shared - kSharedReserved,
                            .shared_per_sm = shared,
                            .registers_per_sm = 65536};
  }
  return usage_error("--compile-for is \"{}\"; give an architecture, as sm_80, sm_90a or sm_100a",
                     printable(arch));
}

namespace {

// What is compiled for sm_120 itself would have no FP4 instruction.
Result<> check_suffix(const CudaBenchRequest& request, const std::string& arch,
                      const cuda::DeviceInfo& info) {
  const bool named_whole = arch == info.arch() || info.major != 12;
  if (named_whole || std::none_of(request.shapes.begin(), request.shapes.end(), is_w4a4)) return {};
  return usage_error(
      "--compile-for is \"{}\"; {} without a suffix has no block-scaled FP4 mma: compile for {}",
      arch, arch, info.arch());
}

}  // namespace

Result<CompiledAhead> compile_ahead(const CudaBenchRequest& request, const std::string& arch,
                                    const BenchProgress& progress) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::DeviceInfo info, device_for(arch));
  NIBBLE_RETURN_IF_ERROR(check_suffix(request, arch, info));
  AheadCompiler compiler(request, info.arch(), info);
  NIBBLE_RETURN_IF_ERROR(compiler.add(compile_probes(info.arch())));
  NIBBLE_RETURN_IF_ERROR(compiler.add(compile_prepack(info.arch())));
  double done = 0;
  for (const BenchShape& shape : request.shapes) {
    NIBBLE_RETURN_IF_ERROR(check_cuda_shape(shape));
    progress(fmt::format("compiling {}", shape.name), done);
    NIBBLE_RETURN_IF_ERROR(compiler.compile(shape));
    done += static_cast<double>(shape.tokens.size());
  }
  return compiler.done();
}

}  // namespace nibble
