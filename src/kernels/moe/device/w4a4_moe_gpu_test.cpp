// A whole W4A4 layer on a GPU against Blackwell's arithmetic in double precision, and stage by
// stage. Where the GPU has no FP4 instruction, its software body multiplies.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <vector>

#include "kernels/device/test_gpu.h"
#include "kernels/moe/device/test_gpu_call.h"
#include "kernels/moe/device/test_w4a4_layer.h"
#include "kernels/moe/device/w4a4_moe.h"

namespace nibble {
namespace {

// The memory of sm_120, whatever the chip that is here has.
CudaW4A4MoeTactics tactics_of(const CudaW4A4MoeProblem& problem, std::int64_t tokens) {
  const std::int64_t rows =
      std::min(tokens, ceil_div(3 * tokens * problem.shape.top_k, 2 * problem.shape.experts));
  return {.gate_up = default_tactic(problem.gate_up, rows, kSm120Limits),
          .down = default_tactic(problem.down, rows, kSm120Limits)};
}

CudaW4A4MoeProblem layer_problem(const W4A4Layer& layer) {
  const MoeWeights& weights = layer.test.weights;
  return value_of(cuda_w4a4_moe_problem(layer.config(), layer.test.shape.format,
                                        !weights.gate_up_bias.empty(), !weights.down_bias.empty()));
}

// Layers of other weights: as a case, but of plain SwiGLU and without biases.
constexpr const char* kRandomLayers[] = {"one token", "one token, static", "gpt-oss"};
CudaMoeConfig config_of_random(const W4A4Layer& like) {
  CudaMoeConfig config = like.config();
  config.activation = {};
  return config;
}

constexpr const char* kLayersOfCompute80[] = {"few", "few, static"};

void compile_layer(const CudaW4A4MoeProblem& problem, std::int64_t tokens,
                   const std::string& arch) {
  const CudaW4A4MoeTactics tactics = tactics_of(problem, tokens);
  const auto expect_compiled = [](const auto& cubin) {
    EXPECT_TRUE(cubin.ok()) << cubin.error().message;
  };
  expect_compiled(compile_w4a4(problem.gate_up, tactics.gate_up, arch));
  expect_compiled(compile_w4a4(problem.down, tactics.down, arch));
  expect_compiled(compile_moe_kernels(problem.shape, arch));
  expect_compiled(compile_quantize(problem.tokens, arch));
  expect_compiled(compile_quantize(problem.slots.value_or(problem.tokens), arch));
}

// Without a GPU, before a run on one: what the tests need is then compiled and kept.
TEST(CudaW4A4MoePrograms, DISABLED_CompileForAnH200) {
  for (const W4A4LayerCase& what : w4a4_layer_cases()) {
    SCOPED_TRACE(what.shape.name);
    compile_layer(layer_problem(W4A4Layer(what)), what.shape.tokens, "sm_90a");
  }
  for (const char* const name : kRandomLayers) {
    SCOPED_TRACE(std::string("random, as ") + name);
    const W4A4Layer like(w4a4_layer_case(name));
    const CudaMoeConfig config = config_of_random(like);
    compile_layer(value_of(cuda_w4a4_moe_problem(config, like.test.shape.format, false, false)),
                  like.test.shape.tokens, "sm_90a");
  }
  for (const char* const name : kLayersOfCompute80) {
    SCOPED_TRACE(std::string("compute_80, ") + name);
    const W4A4Layer layer(w4a4_layer_case(name));
    compile_layer(layer_problem(layer), layer.test.shape.tokens, "compute_80");
  }
  EXPECT_TRUE(compile_prepack("sm_90a").ok());
}

class CudaW4A4Moe : public GpuTest {
 protected:
  struct Call : GpuCall {
    CudaW4A4MoeLayer layer;
    CudaW4A4MoePrograms programs;
    CudaW4A4MoeWorkspace workspace;

    CudaW4A4MoeParams params() {
      return {.layer = layer, .programs = programs, .workspace = workspace, .call = addresses()};
    }
    Result<> enqueue(cuda::Stream& some) { return cuda_w4a4_moe(params(), some); }
  };

  Call call_of(const W4A4Layer& layer, std::int64_t most_tokens = 0, const std::string& arch = "") {
    const std::int64_t tokens = layer.test.shape.tokens;
    CudaW4A4MoeLayer made =
        value_of(CudaW4A4MoeLayer::make(gpu(), layer.config(), layer.test.weights));
    CudaW4A4MoePrograms programs = value_of(
        CudaW4A4MoePrograms::make(gpu(), made.problem(), tactics_of(made.problem(), tokens), arch));
    CudaW4A4MoeWorkspace workspace =
        value_of(CudaW4A4MoeWorkspace::make(programs, std::max(tokens, most_tokens)));
    check_ok(workspace.memory().poison());
    return {GpuCall(layer), std::move(made), std::move(programs), std::move(workspace)};
  }

  std::vector<float> run(Call& call) { return run_call(call, stream()); }

  void expect_tokens(const Call& call, const W4A4Layer& layer);
  std::vector<float> expect_between(const Call& call, const W4A4Layer& layer);
  std::vector<float> expect_slots(const Call& call, const W4A4Layer& layer,
                                  const std::vector<float>& between);
  void check(const W4A4LayerCase& what);
};

// Every token's codes, scales and factor have the bits of formats/quantize.h.
void CudaW4A4Moe::expect_tokens(const Call& call, const W4A4Layer& layer) {
  const QuantizeShape& shape = call.programs.problem().tokens;
  const CudaW4A4MoeWorkspace::Rows rows = value_of(call.workspace.read_tokens());
  const auto hidden = static_cast<std::size_t>(shape.columns);
  for (std::int64_t token = 0; token < layer.test.shape.tokens; ++token) {
    const auto at = static_cast<std::size_t>(token);
    const QuantizedBytes expected =
        quantized_row(std::span(layer.test.x).subspan(at * hidden, hidden), shape,
                      call.layer.gate_up_input_scale());
    const QuantizedBytes got = row_of_codes(rows.codes, rows.scales, shape, token);
    ASSERT_EQ(got.codes, expected.codes) << token;
    ASSERT_EQ(got.scales, expected.scales) << token;
    ASSERT_EQ(rows.factors.empty() ? expected.factor : rows.factors[at], expected.factor) << token;
  }
}

// What the first product and its activation gave, [tokens, top_k, intermediate], where it has 16
// bits: within their rounding and the order of additions.
std::vector<float> CudaW4A4Moe::expect_between(const Call& call, const W4A4Layer& layer) {
  const std::vector<double> exact = layer.activated();
  if (layer.fixed) return layer.between(exact);
  const ExpectedTables tables = layer.tables();
  const auto columns = static_cast<std::size_t>(layer.test.shape.intermediate);
  const std::vector<float> rows =
      widened(value_of(call.workspace.read_activated()), layer.activations);
  std::vector<float> between(exact.size());
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < exact.size(); ++at) {
    const auto slot = static_cast<std::size_t>(tables.choice_slot[at / columns]);
    between[at] = rows[slot * columns + at % columns];
    // Half a unit of 8 bits at most; sums of size 1 to 10 of some thousand terms move by 1e-5.
    const double limit = std::abs(exact[at]) * 0x1p-8 + 2e-4;
    if (std::abs(static_cast<double>(between[at]) - exact[at]) <= limit) continue;
    if (++wrong > 1) continue;
    ADD_FAILURE() << "choice " << at / columns << ", column " << at % columns << ": " << between[at]
                  << ", not " << exact[at];
  }
  EXPECT_EQ(wrong, 0U);
  return between;
}

// The second product's input: where a kernel of its own made it, the bits of formats/quantize.h;
// otherwise these but for sums at the edge of a step. Returns what the codes stand for.
std::vector<float> CudaW4A4Moe::expect_slots(const Call& call, const W4A4Layer& layer,
                                             const std::vector<float>& between) {
  QuantizeShape shape = call.programs.problem().tokens;
  shape.columns = static_cast<int>(layer.test.shape.intermediate);
  const ExpectedTables tables = layer.tables();
  const CudaW4A4MoeWorkspace::Rows rows = value_of(call.workspace.read_slots());
  const auto columns = static_cast<std::size_t>(shape.columns);
  std::vector<float> rounded;
  std::size_t different = 0;
  for (std::size_t choice = 0; choice < tables.choice_slot.size(); ++choice) {
    const int slot = tables.choice_slot[choice];
    const QuantizedBytes expected =
        quantized_row(std::span(between).subspan(choice * columns, columns), shape,
                      call.layer.down_input_scale());
    QuantizedBytes got = row_of_codes(rows.codes, rows.scales, shape, slot);
    got.factor = expected.factor;
    if (!rows.factors.empty()) {
      got.factor = rows.factors[static_cast<std::size_t>(slot)];
      different += got.factor != expected.factor ? 1 : 0;
    }
    for (std::size_t at = 0; at < got.codes.size(); ++at) {
      different += got.codes[at] != expected.codes[at] ? 1 : 0;
    }
    for (std::size_t at = 0; at < got.scales.size(); ++at) {
      different += got.scales[at] != expected.scales[at] ? 1 : 0;
    }
    for (const double value : dequantized(got.view())) {
      rounded.push_back(static_cast<float>(value));
    }
  }
  // One value of 1e5 lies so near to the edge; a scale that moves takes its 16 codes with it.
  EXPECT_LE(different, layer.fixed ? 20 + rounded.size() / 1000 : 0);
  return rounded;
}

void CudaW4A4Moe::check(const W4A4LayerCase& what) {
  SCOPED_TRACE(what.shape.name);
  const W4A4Layer layer(what);
  Call call = call_of(layer);
  const std::vector<float> y = run(call);
  EXPECT_LE(moe_error(y, layer.reference()), moe_error_limit(Format::kNvfp4));
  expect_tokens(call, layer);
  const std::vector<float> between = expect_between(call, layer);
  const std::vector<float> rounded = expect_slots(call, layer, between);
  // From the GPU's own codes only the order of additions is left, and the output's rounding: twice
  // 2^-9 / sqrt(3) where it has 16 bits.
  const double limit = layer.output == Element::kFp32 ? 0x1p-14 : 4e-3;
  EXPECT_LE(moe_error(y, layer.output_of_rounded(rounded)), limit);
  // And the same bits again, whatever the first call left behind or was there before it.
  EXPECT_TRUE(same_bits(run(call), y));
  check_ok(call.workspace.memory().poison());
  EXPECT_TRUE(same_bits(run(call), y));
}

TEST_F(CudaW4A4Moe, EveryCaseStageByStage) {
  for (const W4A4LayerCase& what : w4a4_layer_cases()) check(what);
}

TEST_F(CudaW4A4Moe, NoTokensLeaveEverythingAlone) {
  const W4A4Layer layer(w4a4_layer_case("few"));
  Call call = call_of(layer);
  call.tokens = 0;
  check_ok(cuda_w4a4_moe(call.params(), stream()));
  check_ok(stream().synchronize());
  for (const std::uint32_t word : call.y.read()) EXPECT_EQ(word, 0xffffffffU);
}

TEST_F(CudaW4A4Moe, AllGroupsEmpty) {
  for (const char* const name : {"groups", "groups, static"}) {
    const W4A4Layer layer(w4a4_layer_case(name));
    Call call = call_of(layer);
    const std::vector<float> before = run(call);
    call.ids.write(std::vector<int>(layer.ids.size(), -1));
    for (const float value : run(call)) ASSERT_EQ(value, 0.0F);
    EXPECT_EQ(value_of(call.workspace.memory().dropped_choices()),
              static_cast<std::int64_t>(layer.ids.size()));
    const std::vector<float> shared(before.size(), 3);
    const GpuArray<float> shared_of_gpu(shared);
    CudaW4A4MoeParams params = call.params();
    params.call.shared = shared_of_gpu.address();
    for (int again = 0; again < 5; ++again) check_ok(cuda_w4a4_moe(params, stream()));
    check_ok(stream().synchronize());
    EXPECT_EQ(call.result(), shared);
    call.ids.write(layer.ids);
    EXPECT_TRUE(same_bits(run(call), before));
  }
}

TEST_F(CudaW4A4Moe, AWorkspaceServesFewerTokens) {
  for (const char* const name : {"few", "few, static"}) {
    const W4A4Layer layer(w4a4_layer_case(name));
    Call small = call_of(layer);
    Call large = call_of(layer, 1000);
    EXPECT_TRUE(same_bits(run(small), run(large)));
  }
}

// Code for earlier GPUs, whose kernels begin one after the other.
TEST_F(CudaW4A4Moe, OfCompute80) {
  for (const char* const name : kLayersOfCompute80) {
    const W4A4Layer layer(w4a4_layer_case(name));
    Call call = call_of(layer, 0, "compute_80");
    EXPECT_LE(moe_error(run(call), layer.reference()), moe_error_limit(Format::kNvfp4)) << name;
  }
}

// A token that is no number has no numbers as its output, and no other token has.
TEST_F(CudaW4A4Moe, ATokenThatIsNoNumberStaysAlone) {
  for (const char* const name : {"ragged", "ragged, static"}) {
    SCOPED_TRACE(name);
    const W4A4Layer layer(w4a4_layer_case(name));
    Call call = call_of(layer);
    const std::vector<float> before = run(call);
    const auto hidden = static_cast<std::size_t>(layer.test.shape.hidden);
    std::vector<float> x = layer.test.x;
    x[7 * hidden + 20] = std::nanf("");
    call.x.write(narrowed(x, layer.activations));
    const std::vector<float> after = run(call);
    for (std::size_t at = 0; at < after.size(); ++at) {
      if (at / hidden == 7) {
        ASSERT_TRUE(std::isnan(after[at])) << at;
      } else {
        ASSERT_EQ(after[at], before[at]) << at;
      }
    }
  }
}

TEST_F(CudaW4A4Moe, AGraphFollowsTheRoutingOfEveryReplay) {
  for (const char* const name : {"graph", "graph, static", "large graph", "large graph, static"}) {
    SCOPED_TRACE(name);
    W4A4Layer layer(w4a4_layer_case(name));
    Call call = call_of(layer);
    Call eager = call_of(layer);
    expect_graph_follows_routing(layer, call, eager, moe_error_limit(Format::kNvfp4), stream());
  }
}

// Kernels that begin while the one before them ends, call after call, as one that waits each time.
TEST_F(CudaW4A4Moe, CallsInARowAndOnTwoStreams) {
  for (const char* const name : {"large graph", "large graph, static"}) {
    const W4A4Layer layer(w4a4_layer_case(name));
    Call first = call_of(layer);
    Call second = call_of(layer);
    SCOPED_TRACE(name);
    expect_calls_in_a_row(first, second, stream());
  }
}

TEST_F(CudaW4A4Moe, RandomLayersKeepTheSizeOfActivations) {
  for (const char* const name : kRandomLayers) {
    SCOPED_TRACE(name);
    const W4A4Layer like(w4a4_layer_case(name));
    const CudaW4A4MoeLayer layer = value_of(
        CudaW4A4MoeLayer::random(gpu(), config_of_random(like), like.test.shape.format, 7));
    const CudaW4A4MoePrograms programs = value_of(CudaW4A4MoePrograms::make(
        gpu(), layer.problem(), tactics_of(layer.problem(), like.test.shape.tokens)));
    CudaW4A4MoeWorkspace workspace =
        value_of(CudaW4A4MoeWorkspace::make(programs, like.test.shape.tokens));
    const GpuCall call(like);
    check_ok(cuda_w4a4_moe(
        {.layer = layer, .programs = programs, .workspace = workspace, .call = call.addresses()},
        stream()));
    check_ok(stream().synchronize());
    // Gate and up have size 1, their SwiGLU about 0.6, two weights that add up to 1 at least 0.4.
    const double size = size_of_values(call.result());
    EXPECT_GT(size, 0.03);
    EXPECT_LT(size, 3);
  }
}

TEST_F(CudaW4A4Moe, RefusesWhatDoesNotFitTogether) {
  const W4A4Layer layer(w4a4_layer_case("few"));
  Call call = call_of(layer);
  const W4A4Layer other(w4a4_layer_case("few, static"));
  Call another = call_of(other);
  const auto refusal = [&](const CudaW4A4MoeParams& params) {
    const Result<> result = cuda_w4a4_moe(params, stream());
    return result.ok() ? "" : result.error().message;
  };
  const auto refusal_with = [&](const auto& change) {
    CudaW4A4MoeParams params = call.params();
    change(params.call);
    return refusal(params);
  };
  EXPECT_EQ(refusal_with([](CudaMoeCall& some) { some.tokens = 8; }),
            "8 tokens; the workspace holds 0 to 7");
  EXPECT_EQ(refusal_with([](CudaMoeCall& some) { some.x += 8; }),
            "an address of the layer is not aligned; x, y and shared want 16 bytes, the others 4");
  EXPECT_EQ(refusal_with([](CudaMoeCall& some) { some.logits = 0; }),
            "give the layer either logits or expert ids with their weights");
  EXPECT_EQ(refusal({.layer = another.layer,
                     .programs = call.programs,
                     .workspace = call.workspace,
                     .call = call.addresses()}),
            "the kernels were made for another layer's shape");
  EXPECT_EQ(refusal({.layer = call.layer,
                     .programs = call.programs,
                     .workspace = another.workspace,
                     .call = call.addresses()}),
            "the workspace was made for other kernels");
}

}  // namespace
}  // namespace nibble
