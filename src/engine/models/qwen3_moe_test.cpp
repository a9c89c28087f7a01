#include "engine/models/qwen3_moe.h"

#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/testing.h"
#include "checkpoint/test_files.h"
#include "engine/models/test_runner.h"
#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/moe/test_inputs.h"

namespace nibble::engine {
namespace {

const std::vector<std::string> kModels = {"untied", "tied", "shared"};

// The largest |row - expected| / |expected| of all rows, as vectors.
double worst_row(std::span<const float> rows, std::span<const float> expected,
                 std::int64_t vocabulary) {
  NIBBLE_CHECK(rows.size() == expected.size());
  double worst = 0;
  const auto width = static_cast<std::size_t>(vocabulary);
  for (std::size_t begin = 0; begin < rows.size(); begin += width) {
    double error = 0;
    double size = 0;
    for (std::size_t at = begin; at < begin + width; ++at) {
      const double difference = static_cast<double>(rows[at]) - static_cast<double>(expected[at]);
      error += difference * difference;
      size += static_cast<double>(expected[at]) * static_cast<double>(expected[at]);
    }
    const double relative = std::sqrt(error / size);
    worst = relative <= worst ? worst : relative;  // NaN stays
  }
  return worst;
}

text::TokenId largest(std::span<const float> logits) {
  return static_cast<text::TokenId>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

// Greedy tokens and the logits after each of them, from the last logits of the prompt on.
struct Decoded {
  std::vector<text::TokenId> tokens;
  std::vector<float> logits;
};
Decoded decode(Runner& runner, std::span<const float> prompt_logits, std::size_t steps) {
  const auto width = static_cast<std::size_t>(runner.model().info().vocabulary);
  Decoded out;
  std::vector<float> last(prompt_logits.end() - static_cast<std::ptrdiff_t>(width),
                          prompt_logits.end());
  for (std::size_t step = 0; step < steps; ++step) {
    out.tokens.push_back(largest(last));
    last = runner.run(std::span(out.tokens).last(1), 1);
    out.logits.insert(out.logits.end(), last.begin(), last.end());
  }
  return out;
}

// ---- against transformers -----------------------------------------------------------------------

TEST(Qwen3Moe, EqualsTransformersOnPromptsAndWhenDecoding) {
  for (const std::string& name : kModels) {
    const Golden golden = read_golden(name);
    for (const Isa isa : usable_isas()) {
      Runner runner(golden_folder(name), {.isa = isa}, 1);
      const std::int64_t vocabulary = runner.model().info().vocabulary;
      const std::vector<float> prompt = runner.run(golden.prompt, 64);
      // Both in fp32; the bound that users are promised is 1e-3.
      EXPECT_LE(worst_row(prompt, golden.prompt_logits, vocabulary), 1e-4) << name;
      const Decoded decoded = decode(runner, prompt, golden.greedy.size());
      EXPECT_EQ(decoded.tokens, golden.greedy) << name;
      EXPECT_LE(worst_row(decoded.logits, golden.greedy_logits, vocabulary), 1e-4) << name;
    }
  }
}

// Rounding keys and values to bf16 moves each by 2^-9 of itself at most.
TEST(Qwen3Moe, WithKeysAndValuesInBf16IsNearTransformers) {
  const Golden golden = read_golden("untied");
  Runner runner(golden_folder("untied"), {.kv_format = Format::kBf16}, 1);
  const std::vector<float> prompt = runner.run(golden.prompt, 64);
  const double error = worst_row(prompt, golden.prompt_logits, runner.model().info().vocabulary);
  EXPECT_LE(error, 3e-2);
  EXPECT_GT(error, 1e-5);  // it was rounded
}

// ---- the same bits ------------------------------------------------------------------------------

TEST(Qwen3Moe, HasTheSameBitsHoweverThePromptIsCutAndOnAnyThreads) {
  for (const std::string& name : kModels) {
    const Golden golden = read_golden(name);
    for (const Format kv : {Format::kFp32, Format::kBf16}) {
      if (kv == Format::kBf16 && name != "untied") continue;
      const std::vector<float> whole =
          Runner(golden_folder(name), {.kv_format = kv}, 1).run(golden.prompt, 64);
      for (const std::int64_t step : {1, 7, 40}) {
        // More threads than processors are slow: they take part in two steps alone.
        const int threads = step == 40 ? 3 : 1;
        Runner runner(golden_folder(name), {.kv_format = kv}, threads);
        EXPECT_TRUE(same_bits(runner.run(golden.prompt, step), whole)) << name << ", " << step;
      }
    }
  }
}

TEST(Qwen3Moe, HasTheSameBitsAloneAndAmong31Others) {
  for (const std::string& name : kModels) {
    const Golden golden = read_golden(name);
    Runner alone(golden_folder(name), {}, 1);
    const std::vector<float> expected = alone.run(std::span(golden.prompt).first(3), 1);
    const std::int64_t vocabulary = alone.model().info().vocabulary;
    // Sequence s has a block of its own. Number 17 is ours, the others have other tokens; step by
    // step, 32 rows at a time.
    Runner together(golden_folder(name), {}, 1, 4);
    std::vector<std::int32_t> blocks(32);
    for (std::size_t s = 0; s < 32; ++s) blocks[s] = static_cast<std::int32_t>(31 - s);
    std::vector<float> logits(static_cast<std::size_t>(32 * vocabulary));
    for (std::int64_t step = 0; step < 3; ++step) {
      std::vector<SequenceRows> sequences;
      std::vector<text::TokenId> tokens;
      for (std::size_t s = 0; s < 32; ++s) {
        sequences.push_back({.first_row = static_cast<std::int64_t>(s),
                             .rows = 1,
                             .context = step,
                             .blocks = std::span(blocks).subspan(s, 1),
                             .logit_rows = 1});
        const auto other = static_cast<text::TokenId>((7 * s + 13) % 90);
        tokens.push_back(s == 17 ? golden.prompt[static_cast<std::size_t>(step)] : other);
      }
      together.model().forward({.tokens = tokens, .sequences = sequences}, logits, together.pool());
      const auto row = [&](const std::vector<float>& all, std::int64_t number) {
        return std::span(all).subspan(static_cast<std::size_t>(number * vocabulary),
                                      static_cast<std::size_t>(vocabulary));
      };
      EXPECT_TRUE(same_bits(row(logits, 17), row(expected, step))) << name << ", step " << step;
    }
  }
}

// Prompt chunk and single tokens in one batch; logits for some rows only.
TEST(Qwen3Moe, GivesLogitsOfTheRowsThatWantThem) {
  const Golden golden = read_golden("untied");
  Runner runner(golden_folder("untied"), {}, 1);
  const auto vocabulary = static_cast<std::size_t>(runner.model().info().vocabulary);
  const std::vector<float> whole = runner.run(std::span(golden.prompt).first(20), 20);
  Runner mixed(golden_folder("untied"), {}, 2);
  const auto half = mixed.blocks().size() / 2;
  const std::vector<SequenceRows> sequences = {
      {.first_row = 0, .rows = 20, .blocks = mixed.blocks().first(half), .logit_rows = 0},
      {.first_row = 20, .rows = 20, .blocks = mixed.blocks().subspan(half), .logit_rows = 1}};
  std::vector<text::TokenId> tokens(golden.prompt.begin() + 20, golden.prompt.begin() + 40);
  tokens.insert(tokens.end(), golden.prompt.begin(), golden.prompt.begin() + 20);
  std::vector<float> logits(vocabulary);
  mixed.model().forward({.tokens = tokens, .sequences = sequences}, logits, mixed.pool());
  EXPECT_TRUE(same_bits(logits, std::span(whole).last(vocabulary)));
  // None at all, and then one row after what that step has cached.
  mixed.model().forward(
      {.tokens = std::span(tokens).last(20).first(19),
       .sequences = std::vector<SequenceRows>{{.rows = 19, .blocks = mixed.blocks()}}},
      {}, mixed.pool());
  mixed.model().forward(
      {.tokens = std::span(tokens).last(1),
       .sequences =
           std::vector<SequenceRows>{
               {.rows = 1, .context = 19, .blocks = mixed.blocks(), .logit_rows = 1}}},
      logits, mixed.pool());
  EXPECT_TRUE(same_bits(logits, std::span(whole).last(vocabulary)));
}

// ---- quantized experts --------------------------------------------------------------------------

bool is_expert(std::string_view name) {
  return name.find(".mlp.experts.") != std::string_view::npos;
}

TestTensor tensor_of(const Checkpoint& checkpoint, const StoredTensor& stored) {
  const std::span<const std::byte> data = checkpoint.data(stored);
  return {std::string(stored.name()), std::string(to_string(stored.info->dtype)),
          stored.info->shape, std::string(reinterpret_cast<const char*>(data.data()), data.size())};
}

std::vector<float> widened(const TestTensor& tensor) {
  std::vector<float> values(tensor.data.size() / 2);
  for (std::size_t at = 0; at < values.size(); ++at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + 2 * at, 2);
    values[at] = bf16_to_float(bits);
  }
  return values;
}

std::string bytes_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// A folder with the golden checkpoint's experts in a 4-bit format, and one with the same values in
// bf16, which holds them exactly: a code has 2 significant bits, a scale 4, and the factor is a
// power of two.
struct Pair {
  TinyCheckpoint quantized, widened;
};

void add_quantized(const TestTensor& tensor, Format format, Pair& out) {
  const std::vector<float> values = widened(tensor);
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t columns = tensor.shape[1];
  const QuantizedBytes bytes = format == Format::kMxfp4
                                   ? quantize_mxfp4(values, rows, columns)
                                   : quantize_nvfp4(values, rows, columns, 0x1p-11F);
  const QuantizedBytes exact = quantize_bf16(dequantize(bytes.view()), rows, columns);
  out.widened.add(tensor.name, "BF16", tensor.shape, bytes_of(exact.codes));
  const std::string module = tensor.name.substr(0, tensor.name.size() - std::strlen(".weight"));
  const std::int64_t blocks = static_cast<std::int64_t>(bytes.scales.size()) / rows;
  const bool mxfp4 = format == Format::kMxfp4;
  out.quantized.add(module + (mxfp4 ? ".weight_packed" : ".weight"), "U8", {rows, columns / 2},
                    bytes_of(bytes.codes));
  out.quantized.add(module + ".weight_scale", mxfp4 ? "U8" : "F8_E4M3", {rows, blocks},
                    bytes_of(bytes.scales));
  if (mxfp4) return;
  out.quantized.add(module + ".weight_scale_2", "F32", {}, little_endian<float>({bytes.factor}));
}

Pair quantized_pair(const std::string& name, Format format) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(golden_folder(name));
  NIBBLE_CHECK(checkpoint.ok());
  Pair out;
  for (const StoredTensor& stored : checkpoint->tensors()) {
    const TestTensor tensor = tensor_of(*checkpoint, stored);
    if (is_expert(tensor.name)) {
      add_quantized(tensor, format, out);
    } else {
      out.quantized.tensors.push_back(tensor);
      out.widened.tensors.push_back(tensor);
    }
  }
  const Result<std::string> config = read_file(golden_folder(name) / "config.json", 1 << 20);
  NIBBLE_CHECK(config.ok());
  out.quantized.config = out.widened.config = *config;
  return out;
}

TEST(Qwen3Moe, WithQuantizedExpertsEqualsTheModelWithDequantizedOnes) {
  for (const std::string& name : {std::string("untied"), std::string("tied")}) {
    const Golden golden = read_golden(name);
    for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
      const Pair pair = quantized_pair(name, format);
      const TemporaryFolder quantized;
      const TemporaryFolder widened;
      pair.quantized.write(quantized.path());
      pair.widened.write(widened.path());
      const std::vector<float> expected = Runner(widened.path(), {}, 1).run(golden.prompt, 64);
      Runner runner(quantized.path(), {}, 1);
      const std::int64_t vocabulary = runner.model().info().vocabulary;
      // The promise is 2e-3; activations are rounded to 2^-15 of the largest of 64.
      EXPECT_LE(worst_row(runner.run(golden.prompt, 64), expected, vocabulary), 1e-3)
          << name << ", " << to_string(format);
      // bf16 moves each by 2^-9, and a token whose experts are as good as each other may meet
      // another one: a bound over all rows together.
      Runner coarse(quantized.path(), {.activations = Format::kBf16}, 1);
      EXPECT_LE(worst_row(coarse.run(golden.prompt, 64), expected, 64 * vocabulary), 1e-1)
          << name << ", " << to_string(format);
    }
  }
}

// Scales of keys and values belong to a cache in fp8: here nothing is scaled, so that they change
// nothing, neither once nor twice.
TEST(Qwen3Moe, ScalesOfAnFp8CacheChangeNothing) {
  const Golden golden = read_golden("tied");
  Pair pair = quantized_pair("tied", Format::kNvfp4);
  for (const std::string_view name : {"k_proj.k_scale", "v_proj.v_scale"}) {
    pair.widened.add("model.layers.0.self_attn." + std::string(name), "F32", {},
                     little_endian<float>({0.5F}));
  }
  const TemporaryFolder plain;
  const TemporaryFolder scaled;
  quantized_pair("tied", Format::kNvfp4).widened.write(plain.path());
  pair.widened.write(scaled.path());
  EXPECT_TRUE(same_bits(Runner(scaled.path(), {}, 1).run(golden.prompt, 64),
                        Runner(plain.path(), {}, 1).run(golden.prompt, 64)));
}

// ---- what else the engine asks ------------------------------------------------------------------

TEST(Qwen3Moe, TellsItsOperationsByTheLedgersNames) {
  struct OpNames : StepProbe {
    std::vector<std::string> names;
    void op(std::string_view name) override { names.emplace_back(name); }
  } listener;
  Runner runner(golden_folder("shared"), {}, 1);
  const std::vector<text::TokenId> tokens = {5};
  std::vector<float> logits(static_cast<std::size_t>(runner.model().info().vocabulary));
  const SequenceRows sequence{.rows = 1, .blocks = runner.blocks(), .logit_rows = 1};
  runner.model().forward({.tokens = tokens, .sequences = {&sequence, 1}}, logits, runner.pool(),
                         &listener);
  const std::vector<std::string> layer = {
      "attn.norm",   "attn.qkv",   "attn.core",   "attn.out", "ffn.norm",   "shared.gate_up",
      "shared.down", "moe.router", "moe.gate_up", "moe.down", "moe.combine"};
  std::vector<std::string> expected = {"embed"};
  for (int number = 0; number < 2; ++number) {
    expected.insert(expected.end(), layer.begin(), layer.end());
  }
  expected.emplace_back("lm_head");
  EXPECT_EQ(listener.names, expected);
}

TEST(Qwen3Moe, SaysWhatItIs) {
  Runner runner(golden_folder("untied"), {.kv_format = Format::kBf16}, 1);
  const ModelInfo& info = runner.model().info();
  EXPECT_EQ(info.architecture, "Qwen3MoeForCausalLM");
  EXPECT_EQ(info.vocabulary, 320);
  EXPECT_EQ(info.max_context, 512);
  EXPECT_EQ(info.kv_bytes_per_token, 3 * 2 * 2 * 32 * 2);  // layers, heads, k and v, values, bytes
}

// Every token meets top_k experts of each MoE layer; of three layers the second one is dense.
TEST(Qwen3Moe, CountsTheTokensOfEveryExpert) {
  Runner runner(golden_folder("untied"), {}, 2);
  const std::vector<text::TokenId> prompt = read_golden("untied").prompt;
  runner.run(prompt, 7);
  const ExpertTokens tokens = runner.model().expert_tokens();
  ASSERT_EQ(tokens.experts, 8);
  ASSERT_EQ(tokens.counts.size(), 3U * 8);
  const auto sum = [&](std::size_t layer) {
    const auto counts = tokens.counts.subspan(layer * 8, 8);
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  EXPECT_EQ(sum(0), 2 * std::ssize(prompt));
  EXPECT_EQ(sum(1), 0);
  EXPECT_EQ(sum(2), 2 * std::ssize(prompt));
}

// The larger the bias, the more tokens go to expert 0, in the end all of them.
TEST(Qwen3Moe, ABiasOfTheRouterMakesOneExpertHot) {
  const std::vector<text::TokenId> prompt = read_golden("untied").prompt;
  std::vector<std::int64_t> hot;
  for (const float bias : {0.0F, 1.0F, 100.0F}) {
    Runner runner(golden_folder("untied"), {.router_bias = bias}, 1);
    runner.run(prompt, 64);
    const ExpertTokens tokens = runner.model().expert_tokens();
    hot.push_back(tokens.counts[0] + tokens.counts[16]);
  }
  EXPECT_LT(hot[0], hot[1]);
  EXPECT_LE(hot[1], hot[2]);
  EXPECT_LT(hot[0], hot[2]);
  EXPECT_EQ(hot[2], 2 * std::ssize(prompt));
}

TEST(Qwen3Moe, RefusesReservationsOutOfRange) {
  Runner runner(golden_folder("tied"), {}, 1);
  const Reservation right{.blocks = 4, .block_tokens = 16, .most_rows = 8, .most_logits = 8};
  EXPECT_TRUE(runner.model().reserve(right).ok());
  const auto refuses = [&](auto change) {
    Reservation reservation = right;
    change(reservation);
    return !runner.model().reserve(reservation).ok();
  };
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_TRUE(refuses([bad](Reservation& r) { r.blocks = bad; }));
    EXPECT_TRUE(refuses([bad](Reservation& r) { r.block_tokens = bad; }));
    EXPECT_TRUE(refuses([bad](Reservation& r) { r.most_rows = bad; }));
    EXPECT_TRUE(refuses([bad](Reservation& r) { r.most_logits = bad; }));
  }
}

}  // namespace
}  // namespace nibble::engine
