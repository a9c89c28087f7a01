// A whole layer on a GPU against the reference in double precision.
#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/test_compile.h"
#include "kernels/device/test_gpu.h"
#include "kernels/moe/device/moe_cuda.h"
#include "kernels/moe/device/test_gpu_call.h"

namespace nibble {
namespace {

// As if tokens were spread evenly, with half again as many on the largest expert.
CudaMoeTactics test_tactics(const CudaMoeProblem& problem, std::int64_t tokens,
                            const cuda::DeviceInfo& info) {
  const std::int64_t rows =
      std::min(tokens, ceil_div(3 * tokens * problem.shape.top_k, 2 * problem.shape.experts));
  return {.gate_up = default_tactic(problem.gate_up, rows, info),
          .down = default_tactic(problem.down, rows, info)};
}

// Without a GPU, before a run on one: what EveryShapeInBf16 needs is then compiled and kept.
TEST(CudaMoePrograms, DISABLED_CompileForAnH200) {
  for (const TestShape& shape : layer_shapes()) {
    const GpuLayer layer(shape, Element::kBf16, Element::kBf16);
    const CudaMoeProblem problem = value_of(
        cuda_moe_problem(layer.config(), shape.format, !layer.test.weights.gate_up_bias.empty(),
                         !layer.test.weights.down_bias.empty()));
    const CudaMoeTactics tactics = test_tactics(problem, shape.tokens, kTestH200);
    const auto gate_up = compile_w4a16(problem.gate_up, tactics.gate_up, kTestH200.arch());
    EXPECT_TRUE(gate_up.ok()) << shape.name << ": " << gate_up.error().message;
    const auto down = compile_w4a16(problem.down, tactics.down, kTestH200.arch());
    EXPECT_TRUE(down.ok()) << shape.name << ": " << down.error().message;
    const auto around = compile_moe_kernels(problem.shape, kTestH200.arch());
    EXPECT_TRUE(around.ok()) << shape.name << ": " << around.error().message;
    const auto one_launch = one_launch_for(problem, shape.tokens, kTestH200);
    if (!one_launch) continue;
    const auto whole = compile_one_launch(problem, *one_launch, kTestH200.arch());
    EXPECT_TRUE(whole.ok()) << shape.name << ": " << whole.error().message;
  }
}

class CudaMoe : public GpuTest {
 protected:
  // What a call of a layer needs on the GPU.
  struct Call : GpuCall {
    CudaMoeLayer layer;
    CudaMoePrograms programs;
    CudaMoeWorkspace workspace;

    CudaMoeParams params() {
      const CudaMoeCall call = addresses();
      return {.layer = layer,
              .programs = programs,
              .workspace = workspace,
              .x = call.x,
              .logits = call.logits,
              .expert_ids = call.expert_ids,
              .expert_weights = call.expert_weights,
              .y = call.y,
              .tokens = call.tokens};
    }
    Result<> enqueue(cuda::Stream& some) { return cuda_moe(params(), some); }
  };

  Call call_of(const GpuLayer& layer, std::int64_t most_tokens = 0, bool one_launch = false) {
    const MoeWeights& weights = layer.test.weights;
    const std::int64_t tokens = layer.test.shape.tokens;
    CudaMoeLayer made = value_of(CudaMoeLayer::make(gpu(), layer.config(), weights));
    CudaMoeTactics tactics = test_tactics(made.problem(), tokens, gpu().info());
    if (one_launch) tactics.one_launch = one_launch_for(made.problem(), tokens, gpu().info());
    CudaMoePrograms programs = value_of(CudaMoePrograms::make(gpu(), made.problem(), tactics));
    CudaMoeWorkspace workspace =
        value_of(CudaMoeWorkspace::make(programs, std::max(tokens, most_tokens)));
    check_ok(workspace.poison());
    return {GpuCall(layer), std::move(made), std::move(programs), std::move(workspace)};
  }

  std::vector<float> run(Call& call) { return run_call(call, stream()); }

  // In a launch a step and, with few tokens, in one launch.
  void check(const TestShape& shape, Element activations, Element output) {
    const GpuLayer layer(shape, activations, output);
    const std::vector<double> reference = layer.reference();
    for (const bool one_launch : {false, true}) {
      if (one_launch && !fits_one_launch(shape)) continue;
      SCOPED_TRACE(fmt::format("{}, elements {} and {}, one launch {}", shape.name,
                               static_cast<int>(activations), static_cast<int>(output),
                               one_launch));
      Call call = call_of(layer, 0, one_launch);
      ASSERT_EQ(call.programs.one_launch().has_value(), one_launch);
      const std::vector<float> y = run(call);
      // bf16 rounds the activated values, the rows and y by 2^-9 / sqrt(3) each: 2e-3 together.
      EXPECT_LE(moe_error(y, reference), 4e-3);
      // And the same bits again, whatever the first call left behind.
      EXPECT_TRUE(same_bits(run(call), y));
    }
  }

  static bool fits_one_launch(const TestShape& shape) {
    return shape.tokens <= kMostOneLaunchTokens &&
           ceil_div(shape.tokens, 8) * 8 * shape.top_k <= kMostOneLaunchChoices;
  }
};

TEST_F(CudaMoe, EveryShapeInBf16) {
  for (const TestShape& shape : layer_shapes()) check(shape, Element::kBf16, Element::kBf16);
}

// Programs take seconds to compile, and the elements do not care for the shape: some of them.
TEST_F(CudaMoe, Fp16) {
  for (const TestShape& shape : layer_shapes()) {
    if (shape.routing == TestRouting::kAfterTopK) check(shape, Element::kFp16, Element::kFp16);
  }
}

TEST_F(CudaMoe, Fp32Output) {
  for (const TestShape& shape : layer_shapes()) {
    if (shape.routing != TestRouting::kSoftmax) check(shape, Element::kBf16, Element::kFp32);
  }
}

TEST_F(CudaMoe, NoTokensLeaveEverythingAlone) {
  const GpuLayer layer({.name = "few", .tokens = 3}, Element::kBf16, Element::kBf16);
  Call call = call_of(layer);
  call.tokens = 0;
  check_ok(cuda_moe(call.params(), stream()));
  check_ok(stream().synchronize());
  for (const std::uint32_t word : call.y.read()) EXPECT_EQ(word, 0xffffffffU);
}

TEST_F(CudaMoe, AWorkspaceServesFewerTokens) {
  const GpuLayer layer({.tokens = 5, .experts = 8}, Element::kBf16, Element::kBf16);
  for (const bool one_launch : {false, true}) {
    Call small = call_of(layer, 0, one_launch);
    Call large = call_of(layer, 1000, one_launch);
    EXPECT_TRUE(same_bits(run(small), run(large)));
  }
}

TEST_F(CudaMoe, SharedExpertsAreAddedLast) {
  const GpuLayer layer({.tokens = 9, .experts = 8, .hidden = 96}, Element::kBf16, Element::kFp32);
  for (const bool one_launch : {false, true}) {
    Call call = call_of(layer, 0, one_launch);
    const std::vector<float> without = run(call);
    const std::vector<float> shared(without.size(), 3);
    const GpuArray<float> shared_of_gpu(shared);
    CudaMoeParams params = call.params();
    params.shared = shared_of_gpu.address();
    check_ok(cuda_moe(params, stream()));
    check_ok(stream().synchronize());
    const std::vector<float> with = call.result();
    for (std::size_t at = 0; at < with.size(); ++at) ASSERT_EQ(with[at], without[at] + 3) << at;
  }
}

TEST_F(CudaMoe, ChoicesOfNoExpertAreLeftOutAndCounted) {
  TestShape shape{.tokens = 12, .experts = 6, .top_k = 3, .routing = TestRouting::kGiven};
  GpuLayer layer(shape, Element::kBf16, Element::kBf16);
  std::vector<std::int32_t> faulty = layer.ids;
  for (const std::size_t at : {0U, 4U, 5U, 35U}) {
    faulty[at] = at == 4 ? -1 : 6 + static_cast<std::int32_t>(at) * 100'000'000 / 40;
    layer.weights[at] = 0;  // for the reference
  }
  for (const bool one_launch : {false, true}) {
    Call call = call_of(layer, 0, one_launch);
    call.ids.write(faulty);
    EXPECT_EQ(value_of(call.workspace.dropped_choices()), 0);
    EXPECT_LE(moe_error(run(call), layer.reference()), 4e-3);
    EXPECT_EQ(value_of(call.workspace.dropped_choices()), 4);
  }
}

TEST_F(CudaMoe, AGraphFollowsTheRoutingOfEveryReplay) {
  for (const std::int64_t tokens : {4, 15, 300}) {
    for (const bool one_launch : {false, true}) {
      const TestShape shape{
          .tokens = tokens, .experts = 16, .top_k = 4, .hidden = 256, .intermediate = 128};
      if (one_launch && !fits_one_launch(shape)) continue;
      GpuLayer layer(shape, Element::kBf16, Element::kBf16);
      Call call = call_of(layer, 0, one_launch);
      Call eager = call_of(layer, 0, one_launch);
      expect_graph_follows_routing(layer, call, eager, 4e-3, stream());
    }
  }
}

TEST_F(CudaMoe, TwoStreamsAtOnce) {
  for (const bool one_launch : {false, true}) {
    const TestShape shape{.tokens = one_launch ? 12 : 200,
                          .experts = 16,
                          .top_k = 4,
                          .hidden = 512,
                          .intermediate = 256};
    const GpuLayer layer(shape, Element::kBf16, Element::kBf16);
    Call first = call_of(layer, 0, one_launch);
    Call second = call_of(layer, 0, one_launch);
    expect_calls_in_a_row(first, second, stream());
  }
}

TEST_F(CudaMoe, RandomLayersKeepTheSizeOfActivations) {
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    const CudaMoeConfig config{.hidden = 1024,
                               .intermediate = 512,
                               .router = {.experts = 8, .top_k = 2},
                               .output = Element::kFp32};
    const CudaMoeLayer layer = value_of(CudaMoeLayer::random(gpu(), config, format, 7));
    const CudaMoePrograms programs = value_of(CudaMoePrograms::make(
        gpu(), layer.problem(), test_tactics(layer.problem(), 16, gpu().info())));
    CudaMoeWorkspace workspace = value_of(CudaMoeWorkspace::make(programs, 16));
    check_ok(workspace.poison());
    Random random(3);
    const GpuArray<std::uint16_t> x(narrowed(gaussian(random, 16 * 1024), Element::kBf16));
    const GpuArray<float> logits(gaussian(random, 16 * 8));
    const auto y = GpuArray<float>::poisoned(16 * 1024);
    check_ok(cuda_moe({.layer = layer,
                       .programs = programs,
                       .workspace = workspace,
                       .x = x.address(),
                       .logits = logits.address(),
                       .y = y.address(),
                       .tokens = 16},
                      stream()));
    check_ok(stream().synchronize());
    // Gate and up have size 1, their SwiGLU about 0.6, two softmax weights of 8 each 0.3.
    const double size = size_of_values(y.read());
    EXPECT_GT(size, 0.03);
    EXPECT_LT(size, 3);
  }
}

TEST_F(CudaMoe, RefusesWhatDoesNotFitTogether) {
  const GpuLayer layer({.tokens = 5, .experts = 8}, Element::kBf16, Element::kBf16);
  Call call = call_of(layer);
  const auto refusal = [&](CudaMoeParams params) {
    const Result<> result = cuda_moe(params, stream());
    return result.ok() ? "" : result.error().message;
  };
  const auto refusal_with = [&](const auto& change) {
    CudaMoeParams params = call.params();
    change(params);
    return refusal(params);
  };
  EXPECT_EQ(refusal_with([](CudaMoeParams& params) { params.tokens = 6; }),
            "6 tokens; the workspace holds 0 to 5");
  EXPECT_NE(refusal_with([](CudaMoeParams& params) { params.tokens = -1; }), "");
  EXPECT_EQ(refusal_with([](CudaMoeParams& params) { params.logits = 0; }),
            "give the layer either logits or expert ids with their weights");
  EXPECT_NE(refusal_with([](CudaMoeParams& params) { params.y += 2; }).find("not aligned"),
            std::string::npos);
  EXPECT_EQ(refusal_with([](CudaMoeParams& params) { params.x = 0; }),
            "the layer has no address of x");
  const GpuLayer other({.tokens = 5, .experts = 9}, Element::kBf16, Element::kBf16);
  Call another = call_of(other);
  EXPECT_EQ(refusal({.layer = another.layer,
                     .programs = call.programs,
                     .workspace = call.workspace,
                     .x = call.x.address(),
                     .logits = call.logits.address(),
                     .y = call.y.address(),
                     .tokens = 5}),
            "the kernels were made for another layer's shape");
  EXPECT_EQ(refusal({.layer = call.layer,
                     .programs = call.programs,
                     .workspace = another.workspace,
                     .x = call.x.address(),
                     .logits = call.logits.address(),
                     .y = call.y.address(),
                     .tokens = 5}),
            "the workspace was made for other kernels");
}

}  // namespace
}  // namespace nibble
