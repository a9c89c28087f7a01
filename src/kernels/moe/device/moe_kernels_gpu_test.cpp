// Routing, gather and combine on a GPU.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <vector>

#include "formats/codec.h"
#include "kernels/device/test_gpu.h"
#include "kernels/moe/device/moe_kernels.h"
#include "kernels/moe/device/test_routing.h"

namespace nibble {
namespace {

// What routing writes, in memory of the GPU; poisoned.
struct GpuTables {
  GpuArray<int> counts;
  GpuArray<int> offsets;
  GpuArray<int> tiles_a;
  GpuArray<int> tiles_b;
  GpuArray<int> slot_token;
  GpuArray<float> slot_weight;
  GpuArray<int> choice_slot;
  GpuArray<int> dropped;
  GpuArray<std::uint32_t> flags;

  explicit GpuTables(const MoeShape& shape, int tokens)
      : counts(GpuArray<int>::poisoned(index(shape.experts))),
        offsets(GpuArray<int>::poisoned(index(shape.experts + 1))),
        tiles_a(GpuArray<int>::poisoned(index(shape.experts + 1))),
        tiles_b(GpuArray<int>::poisoned(index(shape.experts + 1))),
        slot_token(GpuArray<int>::poisoned(slots(shape, tokens))),
        slot_weight(GpuArray<float>::poisoned(slots(shape, tokens))),
        choice_slot(GpuArray<int>::poisoned(index(std::int64_t{tokens} * shape.top_k))),
        dropped(std::vector<int>(1, 0)),
        flags(std::vector<std::uint32_t>(401, 7)) {}

  static std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }
  static std::size_t slots(const MoeShape& shape, int tokens) {
    return index(most_slots(tokens, shape.top_k, shape.experts));
  }

  RouteTables params(const int* ids, const float* weights, int tokens) const {
    return {.ids = ids,
            .weights = weights,
            .tokens = tokens,
            .tile_a = 8,
            .tile_b = 16,
            .counts = counts.data(),
            .offsets = offsets.data(),
            .tiles_a = tiles_a.data(),
            .tiles_b = tiles_b.data(),
            .slot_token = slot_token.data(),
            .slot_weight = slot_weight.data(),
            .choice_slot = choice_slot.data(),
            .dropped = dropped.data(),
            .flags_a = flags.data(),
            .flags_b = flags.data() + 300,
            .flags_a_count = 300,
            .flags_b_count = 100};
  }
  ExpectedTables read() const {
    return {.counts = counts.read(),
            .offsets = offsets.read(),
            .tiles_a = tiles_a.read(),
            .tiles_b = tiles_b.read(),
            .slot_token = slot_token.read(),
            .slot_weight = slot_weight.read(),
            .choice_slot = choice_slot.read(),
            .dropped = dropped.read().front()};
  }
};

class CudaMoeKernels : public GpuTest {
 protected:
  explicit CudaMoeKernels(std::string arch = "") : arch_(std::move(arch)) {}
  MoeKernels kernels(const MoeShape& shape) {
    return value_of(MoeKernels::make(gpu(), shape, arch_));
  }

  void check_tables(const MoeKernels& made, TestPattern pattern, int tokens) {
    const MoeShape& shape = made.shape();
    SCOPED_TRACE(fmt::format("{} tokens, top-{} of {}", tokens, shape.top_k, shape.experts));
    const TestChoices choices = test_choices(pattern, tokens, shape.top_k, shape.experts);
    const GpuArray<int> ids(choices.ids);
    const GpuArray<float> weights(choices.weights);
    const GpuTables tables(shape, tokens);
    check_ok(made.tables(stream(), tables.params(ids.data(), weights.data(), tokens)));
    check_ok(stream().synchronize());
    expect_tables(tables.read(), expected_tables(choices));
    const std::vector<std::uint32_t> flags = tables.flags.read();
    EXPECT_EQ(std::count(flags.begin(), flags.end(), 0U), 400);
    EXPECT_EQ(flags.back(), 7U);
  }

  struct RouteOnGpu {
    Routed routed;
    ExpectedTables tables;
  };
  // `separately`: by two launches even where one would do.
  RouteOnGpu route(const MoeKernels& made, const RoutingInput& input, bool separately = false) {
    const std::size_t choices =
        static_cast<std::size_t>(input.tokens) * static_cast<std::size_t>(made.shape().top_k);
    const GpuArray<float> logits(input.logits);
    const GpuArray<float> linear_bias(input.linear_bias);
    const GpuArray<float> correction_bias(input.config.correction_bias);
    const auto ids = GpuArray<int>::poisoned(choices);
    const auto weights = GpuArray<float>::poisoned(choices);
    const GpuTables tables(made.shape(), input.tokens);
    const RouteTopK top_k{.logits = logits.data(),
                          .linear_bias = input.linear_bias.empty() ? nullptr : linear_bias.data(),
                          .correction_bias = correction_bias.data(),
                          .ids = ids.data(),
                          .weights = weights.data(),
                          .scaling_factor = input.config.scaling_factor,
                          .tokens = input.tokens};
    const RouteTables params = tables.params(ids.data(), weights.data(), input.tokens);
    if (separately) {
      check_ok(made.top_k(stream(), top_k));
      check_ok(made.tables(stream(), params));
    } else {
      check_ok(made.route(stream(), top_k, params));
    }
    check_ok(stream().synchronize());
    return {{ids.read(), weights.read()}, tables.read()};
  }

  void every_pattern();
  void every_router();
  void gather();
  void combine();

 private:
  const std::string arch_;  // that is compiled for, or the GPU's own
};

// By PTX for compute_80, on whatever GPU is here.
class CudaMoeKernelsCompute80 : public CudaMoeKernels {
 protected:
  CudaMoeKernelsCompute80() : CudaMoeKernels("compute_80") {}
};

TEST_F(CudaMoeKernels, TablesOfEveryPattern) {
  every_pattern();
}
TEST_F(CudaMoeKernelsCompute80, TablesOfEveryPattern) {
  every_pattern();
}

void CudaMoeKernels::every_pattern() {
  for (const MoeShape& shape :
       {MoeShape{.experts = 1, .top_k = 1}, MoeShape{.experts = 20, .top_k = 4},
        MoeShape{.experts = 256, .top_k = 8}, MoeShape{.experts = 512, .top_k = 10},
        MoeShape{.experts = 1025, .top_k = 2}, MoeShape{.experts = 7, .top_k = 7}}) {
    const MoeKernels made = kernels(shape);
    for (const TestPattern pattern : {TestPattern::kRandom, TestPattern::kOneExpert,
                                      TestPattern::kFirstAndLast, TestPattern::kWithFaults}) {
      for (const int tokens : {0, 1, 2, 33, 700, 4096}) check_tables(made, pattern, tokens);
    }
  }
}

TEST_F(CudaMoeKernels, TablesWhenEveryTokenMeetsEveryExpert) {
  check_tables(kernels({.experts = 1025, .top_k = 1025}), TestPattern::kRandom, 65);
  check_tables(kernels({.experts = kMostDeviceExperts, .top_k = 3}), TestPattern::kRandom, 999);
}

TEST_F(CudaMoeKernels, TablesOfHundredThousandTokens) {
  const MoeKernels made = kernels({.experts = 256, .top_k = 8});
  check_tables(made, TestPattern::kWithFaults, 100'000);
  check_tables(made, TestPattern::kOneExpert, 100'000);
}

TEST_F(CudaMoeKernels, EveryRouterHasTheBitsOfTheCpu) {
  every_router();
}
TEST_F(CudaMoeKernelsCompute80, EveryRouterHasTheBitsOfTheCpu) {
  every_router();
}

void CudaMoeKernels::every_router() {
  for (std::size_t at = 0; at < kTestRouters.size(); ++at) {
    SCOPED_TRACE(fmt::format("router {}", at));
    const MoeKernels made = kernels(kTestRouters[at].shape);
    for (const int tokens : {1, 9, 32, 33, 300}) {
      const RoutingInput input = routing_input(kTestRouters[at], tokens);
      const Routed expected = route_on_cpu(input);
      const RouteOnGpu got = route(made, input);
      expect_same(got.routed, expected);
      const TestChoices choices{.tokens = tokens,
                                .top_k = made.shape().top_k,
                                .experts = made.shape().experts,
                                .ids = expected.ids,
                                .weights = expected.weights};
      expect_tables(got.tables, expected_tables(choices));
    }
  }
}

TEST_F(CudaMoeKernels, OneLaunchGivesWhatTwoGive) {
  const MoeKernels made = kernels(kTestRouters[10].shape);
  for (const int tokens : {1, 2, 17, 32}) {
    ASSERT_TRUE(is_fused_route(made.shape().experts, made.shape().top_k, tokens));
    const RoutingInput input = routing_input(kTestRouters[10], tokens);
    const RouteOnGpu one = route(made, input);
    const RouteOnGpu two = route(made, input, true);
    expect_same(one.routed, two.routed);
    expect_tables(one.tables, two.tables);
  }
}

TEST_F(CudaMoeKernels, MoreExpertsThanTheCpuTakes) {
  constexpr MoeShape kShape{.experts = 1025, .top_k = 1025, .renormalise = true};
  RoutingInput input{.config = router_config(kShape), .tokens = 40};
  for (int at = 0; at < 40 * 1025; ++at) {
    // Token t's best expert is t.
    const int distance = (at % 1025 - at / 1025 + 1025) % 1025;
    input.logits.push_back(-0.01F * static_cast<float>(distance));
  }
  const Routed routed = route(kernels(kShape), input).routed;
  for (int token = 0; token < 40; ++token) {
    for (int rank = 0; rank < 1025; ++rank) {
      const auto at = static_cast<std::size_t>(token * 1025 + rank);
      ASSERT_EQ(routed.ids[at], (token + rank) % 1025) << token;
      const auto first = static_cast<std::size_t>(token * 1025);
      const double ratio = static_cast<double>(routed.weights[at] / routed.weights[first]);
      ASSERT_NEAR(ratio, std::exp(-0.01 * rank), 1e-5) << token;
    }
  }
}

// ---- rows ---------------------------------------------------------------------------------------

TEST_F(CudaMoeKernels, GatherPutsEveryElementWhereTheLayoutSays) {
  gather();
}
TEST_F(CudaMoeKernelsCompute80, GatherPutsEveryElementWhereTheLayoutSays) {
  gather();
}

void CudaMoeKernels::gather() {
  for (const int hidden : {2, 90, 192, 2880}) {
    const MoeShape shape{.experts = 9, .top_k = 3, .hidden = hidden};
    const int tokens = 33;
    const std::int64_t chunks = (hidden + 63) / 64;
    const ExpectedTables tables =
        expected_tables(test_choices(TestPattern::kWithFaults, tokens, 3, 9));
    std::vector<std::uint16_t> x(static_cast<std::size_t>(tokens * hidden));
    for (std::size_t at = 0; at < x.size(); ++at) x[at] = static_cast<std::uint16_t>(at * 7 + 1);
    const GpuArray<std::uint16_t> x_of_gpu(x);
    const GpuArray<int> choice_slot(tables.choice_slot);
    const std::size_t slots = tables.slot_token.size();
    const auto tiles =
        GpuArray<std::uint16_t>::poisoned(slots / 8 * static_cast<std::size_t>(chunks) * 512);
    check_ok(kernels(shape).gather(stream(), {.x = x_of_gpu.data(),
                                              .choice_slot = choice_slot.data(),
                                              .slots = tiles.data(),
                                              .tokens = tokens}));
    check_ok(stream().synchronize());
    const std::vector<std::uint16_t> got = tiles.read();
    for (std::size_t slot = 0; slot < slots; ++slot) {
      for (std::int64_t k = 0; k < 64 * chunks; ++k) {
        const std::size_t at = place_in_slots(static_cast<std::int64_t>(slot), k, chunks) / 2;
        const int token = tables.slot_token[slot];
        std::uint16_t expected = 0;
        if (k < hidden) expected = x[static_cast<std::size_t>(std::max(token, 0) * hidden + k)];
        if (token < 0) expected = 0xffff;  // padding is left alone
        ASSERT_EQ(got[at], expected) << hidden << ": " << slot << " " << k;
      }
    }
  }
}

template <class Bits, class Widen>
std::vector<float> combined(const std::vector<Bits>& rows, const std::vector<Bits>& shared,
                            const ExpectedTables& tables, std::size_t top_k, std::size_t hidden,
                            Widen widen) {
  std::vector<float> y(shared.size());
  for (std::size_t at = 0; at < y.size(); ++at) {
    for (std::size_t choice = 0; choice < top_k; ++choice) {
      const int slot = tables.choice_slot[at / hidden * top_k + choice];
      if (slot >= 0) y[at] += widen(rows[static_cast<std::size_t>(slot) * hidden + at % hidden]);
    }
    y[at] += widen(shared[at]);
  }
  return y;
}

TEST_F(CudaMoeKernels, CombineAddsTheChoicesInTheirOrder) {
  combine();
}
TEST_F(CudaMoeKernelsCompute80, CombineAddsTheChoicesInTheirOrder) {
  combine();
}

void CudaMoeKernels::combine() {
  for (const int hidden : {2, 90, 6144}) {
    for (const Element output : {Element::kBf16, Element::kFp16}) {
      const MoeShape shape{.experts = 16, .top_k = 11, .hidden = hidden, .output = output};
      const int tokens = 21;
      const ExpectedTables tables =
          expected_tables(test_choices(TestPattern::kWithFaults, tokens, 11, 16));
      Random random(8);
      const auto narrow = output == Element::kBf16 ? float_to_bf16 : float_to_fp16;
      const auto widen = output == Element::kBf16 ? bf16_to_float : fp16_to_float;
      std::vector<std::uint16_t> rows(tables.slot_token.size() * static_cast<std::size_t>(hidden));
      for (std::size_t at = 0; at < rows.size(); ++at) {
        const bool padding = tables.slot_token[at / static_cast<std::size_t>(hidden)] < 0;
        rows[at] = padding ? std::uint16_t{0xffff} : narrow(static_cast<float>(random.uniform()));
      }
      std::vector<std::uint16_t> shared(static_cast<std::size_t>(tokens * hidden));
      for (std::uint16_t& bits : shared) bits = narrow(static_cast<float>(-random.uniform()));
      const GpuArray<std::uint16_t> rows_of_gpu(rows);
      const GpuArray<std::uint16_t> y(shared);  // in place
      const GpuArray<int> choice_slot(tables.choice_slot);
      check_ok(kernels(shape).combine(stream(), {.rows = rows_of_gpu.data(),
                                                 .choice_slot = choice_slot.data(),
                                                 .shared = y.data(),
                                                 .y = y.data(),
                                                 .tokens = tokens}));
      check_ok(stream().synchronize());
      const std::vector<std::uint16_t> got = y.read();
      const std::vector<float> expected =
          combined(rows, shared, tables, 11, static_cast<std::size_t>(hidden), widen);
      for (std::size_t at = 0; at < got.size(); ++at) {
        ASSERT_EQ(got[at], narrow(expected[at])) << hidden << ": " << at;
      }
    }
  }
}

TEST_F(CudaMoeKernels, CombineOfFp32) {
  const MoeShape shape{.experts = 16, .top_k = 2, .hidden = 34, .output = Element::kFp32};
  const ExpectedTables tables = expected_tables(test_choices(TestPattern::kRandom, 50, 2, 16));
  Random random(8);
  const std::vector<float> rows =
      gaussian(random, static_cast<std::int64_t>(tables.slot_token.size()) * 34);
  const std::vector<float> shared = gaussian(random, 50 * 34);
  const GpuArray<float> rows_of_gpu(rows);
  const GpuArray<float> shared_of_gpu(shared);
  const GpuArray<int> choice_slot(tables.choice_slot);
  const auto y = GpuArray<float>::poisoned(shared.size());
  check_ok(kernels(shape).combine(stream(), {.rows = rows_of_gpu.data(),
                                             .choice_slot = choice_slot.data(),
                                             .shared = shared_of_gpu.data(),
                                             .y = y.data(),
                                             .tokens = 50}));
  check_ok(stream().synchronize());
  EXPECT_EQ(y.read(), combined(rows, shared, tables, 2, 34, [](float value) { return value; }));
}

// ---- graphs -------------------------------------------------------------------------------------

TEST_F(CudaMoeKernels, AGraphFollowsTheRoutingOfEveryReplay) {
  const TestRouter& router = kTestRouters[10];
  const MoeKernels made = kernels(router.shape);
  const int tokens = 200;
  RoutingInput input = routing_input(router, tokens);
  GpuArray<float> logits(input.logits);
  const GpuArray<float> bias(input.config.correction_bias);
  const auto ids = GpuArray<int>::poisoned(1600);
  const auto weights = GpuArray<float>::poisoned(1600);
  const GpuTables tables(router.shape, tokens);
  const RouteTopK top_k{.logits = logits.data(),
                        .correction_bias = bias.data(),
                        .ids = ids.data(),
                        .weights = weights.data(),
                        .scaling_factor = input.config.scaling_factor,
                        .tokens = tokens};
  cuda::Graph graph = value_of(stream().capture([&]() -> Result<> {
    return made.route(stream(), top_k, tables.params(ids.data(), weights.data(), tokens));
  }));
  Random random(77);
  for (int replay = 0; replay < 5; ++replay) {
    input.logits = gaussian(random, std::int64_t{tokens} * router.shape.experts);
    logits.write(input.logits);
    check_ok(graph.launch(stream()));
    check_ok(stream().synchronize());
    const RouteOnGpu eager = route(made, input);
    expect_same({ids.read(), weights.read()}, eager.routed);
    expect_same(eager.routed, route_on_cpu(input));
    // Beyond the last slot stands what was there before.
    ExpectedTables expected = eager.tables;
    expected.slot_token.resize(static_cast<std::size_t>(expected.offsets.back()));
    expected.slot_weight.resize(static_cast<std::size_t>(expected.offsets.back()));
    expect_tables(tables.read(), expected);
  }
}

}  // namespace
}  // namespace nibble
