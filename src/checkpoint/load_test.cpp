#include "checkpoint/load.h"

#include <cmath>

#include "checkpoint/scan.h"
#include "checkpoint/test_files.h"
#include "formats/codec.h"

namespace nibble {
namespace {

// Element by element, as formats/quantized_matrix.h defines it.
double value_at(const QuantizedMatrix& matrix, std::int64_t row, std::int64_t column) {
  const std::int64_t block = matrix.format == Format::kNvfp4 ? 16 : 32;
  const std::uint8_t* codes = matrix.codes.data() + row * (matrix.columns / 2);
  const auto scale_index = row * ((matrix.columns + block - 1) / block) + column / block;
  const std::uint8_t scale = matrix.scales[static_cast<std::size_t>(scale_index)];
  double factor = 1;
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin <= row) factor = static_cast<double>(segment.factor);
  }
  const float widened = block == 16 ? e4m3_to_float(scale) : e8m0_to_float(scale);
  return static_cast<double>(e2m1_to_float(e2m1_at(codes, column))) * static_cast<double>(widened) *
         factor;
}

class LoadTest : public testing::Test {
 protected:
  const Binding& bind(const TinyCheckpoint& tiny) {
    checkpoint_.emplace(open_written(tiny, folder_.path()));
    binding_.emplace(Binding::make(*checkpoint_));
    return *binding_;
  }
  Result<LoadedMatrix> load(const TinyCheckpoint& tiny, const std::string& name) {
    const BoundMatrix* bound = bind(tiny).find(name);
    NIBBLE_CHECK(bound != nullptr);
    return load_matrix(*checkpoint_, *bound);
  }
  const TemporaryFolder folder_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Binding> binding_;
};

TEST_F(LoadTest, BothDialectsLoadToTheSameBits) {
  for (const bool modelopt : {true, false}) {
    const Result<LoadedMatrix> loaded = load(tiny(modelopt), kLayer + "self_attn.o_proj");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const QuantizedMatrix& matrix = loaded->matrix;
    EXPECT_EQ(matrix.format, Format::kNvfp4);
    EXPECT_EQ(matrix.rows, 32);
    EXPECT_EQ(matrix.columns, 32);
    EXPECT_EQ(matrix.segments, (std::vector<MatrixSegment>{{0, 1.0F / 2688.0F}}));
    EXPECT_EQ(matrix.input_scale, 0.25F);
    EXPECT_TRUE(loaded->codes.empty());  // a view
    // Byte 0x21: the low nibble, code 1 = 0.5, is the even column; 0.5 * 448 / 2688 = 1 / 12.
    EXPECT_NEAR(value_at(matrix, 31, 30), 1.0 / 12, 1e-8);
    EXPECT_NEAR(value_at(matrix, 31, 31), 1.0 / 6, 1e-8);
  }
}

TEST_F(LoadTest, GateAndUpStackWithTheirOwnFactors) {
  TinyCheckpoint changed = tiny(true);
  changed.at(kLayer + "mlp.experts.1.up_proj.weight_scale_2").data = little_endian<float>({0.125F});
  changed.at(kLayer + "mlp.experts.1.up_proj.input_scale").data = little_endian<float>({0.5F});
  const Result<LoadedExpert> expert = load_expert(bind(changed), 0, 1);
  ASSERT_TRUE(expert.ok()) << expert.error().message;
  EXPECT_EQ(expert->gate.matrix.segments[0].factor, 1.0F / 2688.0F);
  EXPECT_EQ(expert->up.matrix.segments[0].factor, 0.125F);
  EXPECT_EQ(expert->down.matrix.rows, 32);
  EXPECT_TRUE(expert->gate_bias.empty());
  const Result<LoadedMatrix> both = stack_rows(expert->gate, expert->up);
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->matrix.rows, 32);
  EXPECT_EQ(both->matrix.segments, (std::vector<MatrixSegment>{{0, 1.0F / 2688.0F}, {16, 0.125F}}));
  EXPECT_EQ(both->matrix.input_scale, 0.5F);  // the larger: quantized once for both
  EXPECT_EQ(both->matrix.codes.size(), 32U * 16U);
  EXPECT_NEAR(value_at(both->matrix, 15, 0), 1.0 / 12, 1e-8);
  EXPECT_EQ(value_at(both->matrix, 16, 0), 0.5 * 448 * 0.125);
  EXPECT_FALSE(stack_rows(expert->gate, expert->down).ok());
  EXPECT_FALSE(load_expert(*binding_, 0, 3).ok());
}

TEST_F(LoadTest, RefusesBlockScalesThatAreNanOrNegative) {
  for (const char bad : {'\x7f', '\xff', '\x80', '\xb8'}) {
    TinyCheckpoint changed = tiny(true);
    changed.at(kLayer + "self_attn.o_proj.weight_scale").data[3] = bad;
    const Result<LoadedMatrix> loaded = load(changed, kLayer + "self_attn.o_proj");
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().kind, ErrorKind::kInput);
    EXPECT_NE(loaded.error().message.find("1 of 64 block scales"), std::string::npos)
        << loaded.error().message;
  }
  TinyCheckpoint zero = tiny(true);  // a block of zeros may have scale 0
  zero.at(kLayer + "self_attn.o_proj.weight_scale").data[3] = '\0';
  EXPECT_TRUE(load(zero, kLayer + "self_attn.o_proj").ok());
}

TEST_F(LoadTest, RefusesFactorsThatAreNoPositiveNumbers) {
  for (const float bad : {NAN, INFINITY, 0.0F, -1.0F}) {
    TinyCheckpoint changed = tiny(false);
    changed.at(kLayer + "self_attn.o_proj.weight_global_scale").data = little_endian<float>({bad});
    EXPECT_FALSE(load(changed, kLayer + "self_attn.o_proj").ok()) << bad;
    changed = tiny(true);
    changed.at(kLayer + "self_attn.o_proj.input_scale").data = little_endian<float>({bad});
    EXPECT_FALSE(load(changed, kLayer + "self_attn.o_proj").ok()) << bad;
  }
}

TEST_F(LoadTest, RefusesWhatLacksAPart) {
  TinyCheckpoint changed = tiny(true);
  changed.remove(kLayer + "self_attn.o_proj.weight_scale_2");
  EXPECT_FALSE(load(changed, kLayer + "self_attn.o_proj").ok());
}

TEST_F(LoadTest, BfloatIsAViewAndElementsWiden) {
  const Result<LoadedMatrix> loaded = load(tiny(true), "lm_head");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->matrix.format, Format::kBf16);
  EXPECT_EQ(loaded->matrix.codes.size(), 8U * 32U * 2U);
  EXPECT_TRUE(loaded->matrix.scales.empty());
  EXPECT_TRUE(loaded->matrix.segments.empty());
  const Result<std::vector<float>> values = load_elements(*checkpoint_, *binding_->find("lm_head"));
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(*values, std::vector<float>(256, 1.0F));
  const Result<std::vector<float>> norm = load_vector(*checkpoint_, "model.norm.weight");
  ASSERT_TRUE(norm.ok());
  EXPECT_EQ(*norm, std::vector<float>(32, 1.0F));
  EXPECT_FALSE(load_vector(*checkpoint_, "absent").ok());
  EXPECT_FALSE(load_elements(*checkpoint_, *binding_->find(kLayer + "self_attn.o_proj")).ok());
}

TEST_F(LoadTest, Fp8IsWidenedWithTheScaleOfItsBlock) {
  // 130 x 130 of e4m3 1.0 (0x38): blocks of 128 in both directions, scales 1 2 / 3 4.
  TinyCheckpoint odd = tiny(true);
  odd.config.clear();
  odd.add("m.weight", "F8_E4M3", {130, 130}, std::string(130 * 130, '\x38'));
  odd.add("m.weight_scale_inv", "F32", {2, 2}, little_endian<float>({1, 2, 3, 4}));
  odd.add("rows.weight", "F8_E4M3", {2, 2}, std::string(4, '\x40'));  // 2
  odd.add("rows.weight_scale", "F32", {2, 1}, little_endian<float>({1, 10}));
  bind(odd);
  const Result<std::vector<float>> blocks = load_elements(*checkpoint_, *binding_->find("m"));
  ASSERT_TRUE(blocks.ok()) << blocks.error().message;
  EXPECT_EQ((*blocks)[0], 1);
  EXPECT_EQ((*blocks)[127 * 130 + 128], 2);
  EXPECT_EQ((*blocks)[128 * 130 + 127], 3);
  EXPECT_EQ((*blocks)[129 * 130 + 129], 4);
  const Result<std::vector<float>> rows = load_elements(*checkpoint_, *binding_->find("rows"));
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(*rows, (std::vector<float>{2, 2, 20, 20}));
}

// gpt-oss: hidden 32, intermediate 32, 2 experts; rows of gate and up in turn.
TinyCheckpoint gpt_oss() {
  TinyCheckpoint out;
  out.config =
      R"({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 32,
      "num_hidden_layers": 1, "vocab_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
      "head_dim": 16, "intermediate_size": 32, "num_local_experts": 2, "num_experts_per_tok": 1,
      "sliding_window": 128, "layer_types": ["full_attention"], "attention_bias": true,
      "quantization_config": {"quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}})";
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"model.embed_tokens.weight", {8, 32}},
           {"model.norm.weight", {32}},
           {"lm_head.weight", {8, 32}},
           {kLayer + "input_layernorm.weight", {32}},
           {kLayer + "post_attention_layernorm.weight", {32}},
           {kLayer + "self_attn.q_proj.weight", {32, 32}},
           {kLayer + "self_attn.q_proj.bias", {32}},
           {kLayer + "self_attn.k_proj.weight", {16, 32}},
           {kLayer + "self_attn.k_proj.bias", {16}},
           {kLayer + "self_attn.v_proj.weight", {16, 32}},
           {kLayer + "self_attn.v_proj.bias", {16}},
           {kLayer + "self_attn.o_proj.weight", {32, 32}},
           {kLayer + "self_attn.o_proj.bias", {32}},
           {kLayer + "self_attn.sinks", {2}},
           {kLayer + "mlp.router.weight", {2, 32}},
           {kLayer + "mlp.router.bias", {2}},
           {kLayer + "mlp.experts.down_proj_bias", {2, 32}}}) {
    out.bf16(name, shape);
  }
  // Each row's bytes are its number (of both experts, 0 .. 127); its scale 127 + (row % 2).
  std::string blocks;
  std::string scales;
  std::vector<std::uint16_t> bias;
  for (int row = 0; row < 128; ++row) {
    blocks += std::string(16, static_cast<char>(row));
    scales += static_cast<char>(127 + row % 2);
    bias.push_back(static_cast<std::uint16_t>(row % 2 == 0 ? 0x3f80 : 0x4000));  // 1, 2
  }
  out.add(kLayer + "mlp.experts.gate_up_proj_blocks", "U8", {2, 64, 1, 16}, blocks);
  out.add(kLayer + "mlp.experts.gate_up_proj_scales", "U8", {2, 64, 1}, scales);
  out.add(kLayer + "mlp.experts.gate_up_proj_bias", "BF16", {2, 64}, little_endian(bias));
  out.add(kLayer + "mlp.experts.down_proj_blocks", "U8", {2, 32, 1, 16}, blocks.substr(0, 64 * 16));
  out.add(kLayer + "mlp.experts.down_proj_scales", "U8", {2, 32, 1}, scales.substr(0, 64));
  return out;
}

TEST_F(LoadTest, GptOssRowsAreTakenApart) {
  const Result<LoadedExpert> expert = load_expert(bind(gpt_oss()), 0, 1);
  EXPECT_EQ(fault_ids(binding_->faults()), "");
  ASSERT_TRUE(expert.ok()) << expert.error().message;
  EXPECT_EQ(expert->gate.matrix.format, Format::kMxfp4);
  EXPECT_EQ(expert->gate.matrix.rows, 32);
  EXPECT_EQ(expert->gate.matrix.columns, 32);
  EXPECT_TRUE(expert->gate.matrix.segments.empty());
  for (std::size_t row = 0; row < 32; ++row) {
    EXPECT_EQ(expert->gate.matrix.codes[row * 16], 64 + 2 * row);
    EXPECT_EQ(expert->up.matrix.codes[row * 16 + 15], 64 + 2 * row + 1);
    EXPECT_EQ(expert->gate.matrix.scales[row], 127);
    EXPECT_EQ(expert->up.matrix.scales[row], 128);
    EXPECT_EQ(expert->down.matrix.codes[row * 16], 32 + row);
  }
  EXPECT_EQ(expert->gate_bias, std::vector<float>(32, 1.0F));
  EXPECT_EQ(expert->up_bias, std::vector<float>(32, 2.0F));
  EXPECT_EQ(expert->down_bias, std::vector<float>(32, 1.0F));
  // Row 64 + 3 = 67 = 0x43, scale 2: code 3 = 1.5 in the even column, code 4 = 2 in the odd.
  EXPECT_EQ(value_at(expert->up.matrix, 1, 0), 3);
  EXPECT_EQ(value_at(expert->up.matrix, 1, 1), 4);
  const BoundMatrix* stack = binding_->find(kLayer + "mlp.experts.gate_up_proj");
  EXPECT_FALSE(load_matrix(*checkpoint_, *stack).ok());
}

TEST_F(LoadTest, GptOssBiasesAreCalledFor) {
  TinyCheckpoint without = gpt_oss();
  without.remove(kLayer + "mlp.experts.down_proj_bias");
  bind(without);
  ASSERT_NE(find_fault(binding_->faults(), "missing-tensor"), nullptr);
  EXPECT_EQ(find_fault(binding_->faults(), "missing-tensor")->examples[0],
            kLayer + "mlp.experts.down_proj_bias");
}

// ---- values -------------------------------------------------------------------------------------

const ValueStats& stats_of(const Binding& binding, const std::vector<ValueStats>& values,
                           const std::string& name) {
  return values[static_cast<std::size_t>(binding.find(name) - binding.matrices().data())];
}

TEST_F(LoadTest, StatisticsOfPackedValues) {
  TinyCheckpoint changed = tiny(true);
  // One block of o_proj: 8 bytes 0x70 (zero, and 6), scale 224 (0x76); one block of scale 0.
  TestTensor& codes = changed.at(kLayer + "self_attn.o_proj.weight");
  codes.data.replace(0, 8, std::string(8, '\x70'));
  changed.at(kLayer + "self_attn.o_proj.weight_scale").data[0] = '\x76';
  changed.at(kLayer + "self_attn.o_proj.weight_scale").data[1] = '\0';
  FaultLog log;
  const std::vector<ValueStats> values = scan_values(bind(changed), nullptr, log);
  const ValueStats& o_proj = stats_of(*binding_, values, kLayer + "self_attn.o_proj");
  EXPECT_EQ(o_proj.values, 1024);
  EXPECT_EQ(o_proj.zeros, 8 + 16);
  EXPECT_EQ(o_proj.scales, 64);
  EXPECT_EQ(o_proj.zero_scales, 1);
  EXPECT_EQ(o_proj.min_scale, 224);
  EXPECT_EQ(o_proj.max_scale, 448);
  EXPECT_NEAR(o_proj.max_abs, 6.0 * 224 / 2688, 1e-7);  // 0.5, above 1 * 448 / 2688
  // 62 blocks of 8 x (1/12)^2 + 8 x (1/6)^2, and 8 x 0.5^2.
  EXPECT_NEAR(o_proj.sum_squares, 62 * 8 * (1.0 / 144 + 1.0 / 36) + 8 * 0.25, 1e-6);
  const ValueStats& k_proj = stats_of(*binding_, values, kLayer + "self_attn.k_proj");
  EXPECT_NEAR(k_proj.rms(), std::sqrt((1.0 / 144 + 1.0 / 36) / 2), 1e-7);
  const ValueStats& lm_head = stats_of(*binding_, values, "lm_head");
  EXPECT_EQ(lm_head.values, 256);
  EXPECT_EQ(lm_head.rms(), 1);
  EXPECT_EQ(lm_head.scales, 0);
  check_scanned(*binding_, values, log);
  EXPECT_EQ(fault_ids(log), "");
}

TEST_F(LoadTest, BadValuesAreFoundByScanning) {
  const auto found = [this](const TinyCheckpoint& tiny) {
    FaultLog log;
    bind(tiny);
    check_scanned(*binding_, scan_values(*binding_, nullptr, log), log);
    return fault_ids(log);
  };
  const std::string scales = kLayer + "self_attn.o_proj.weight_scale";
  TinyCheckpoint changed = tiny(true);
  changed.at(scales).data[5] = '\x7f';
  EXPECT_EQ(found(changed), "nan-scale");
  changed.at(scales).data[5] = '\xb8';
  EXPECT_EQ(found(changed), "negative-scale");
  changed = tiny(true);
  changed.at(scales).data.assign(64, '\x30');  // 0.5
  EXPECT_EQ(found(changed), "block-scales-small");
  changed = tiny(true);
  changed.at(kLayer + "self_attn.o_proj.weight").data.assign(512, '\0');
  EXPECT_EQ(found(changed), "all-zero");
  changed = tiny(true);
  changed.at("lm_head.weight").data[1] = '\x7f';  // 0x7f80: infinity
  changed.at("lm_head.weight").data[0] = '\x80';
  EXPECT_EQ(found(changed), "value-not-finite");
  // The factors agree and the block scales do not: as after tying factors that were apart.
  changed = tiny(true);
  changed.at(kLayer + "mlp.experts.1.up_proj.weight_scale").data.assign(32, '\x56');  // 14 = 448/32
  EXPECT_EQ(found(changed), "gate-up-values-inconsistent");
  changed = gpt_oss();
  changed.at(kLayer + "mlp.experts.down_proj_scales").data[7] = '\xff';
  EXPECT_EQ(found(changed), "nan-scale");
}

TEST_F(LoadTest, RowsLongerThanWhatIsReadAtOnceAreReadWhole) {
  TinyCheckpoint with_long = tiny(true);
  constexpr std::int64_t kColumns = (std::int64_t{1} << 20) + 3;  // 2 MiB of bf16, and 6 bytes
  with_long.bf16("long.weight", {2, kColumns});
  constexpr std::int64_t kPacked = (std::int64_t{1} << 21) + 32;  // 1 MiB of codes, and 16 bytes
  with_long.nvfp4("packed", 2, kPacked, true, 1.0F / 2688, 0.25F);
  FaultLog log;
  const std::vector<ValueStats> values = scan_values(bind(with_long), nullptr, log);
  const ValueStats& ones = stats_of(*binding_, values, "long");
  EXPECT_EQ(ones.values, 2 * kColumns);
  EXPECT_EQ(ones.sum_squares, 2 * kColumns);
  const ValueStats& packed = stats_of(*binding_, values, "packed");
  EXPECT_EQ(packed.values, 2 * kPacked);
  EXPECT_EQ(packed.scales, 2 * kPacked / 16);
  EXPECT_NEAR(packed.rms(), std::sqrt((1.0 / 144 + 1.0 / 36) / 2), 1e-7);
}

// Everything that reads after the checkpoint was opened: a file of headers alone is left.
TEST_F(LoadTest, AFileThatBecomesShorterIsAnErrorOfAllThatReadIt) {
  const TinyCheckpoint whole = tiny(true);
  const auto cut = [this] {
    const std::filesystem::path path = folder_.path() / "model.safetensors";
    std::filesystem::resize_file(path, checkpoint_->shards()[0].file->header_bytes());
  };
  bind(whole);
  cut();
  FaultLog log;
  const std::vector<ValueStats> values = scan_values(*binding_, nullptr, log);
  EXPECT_EQ(fault_ids(log), "truncated");
  EXPECT_EQ(log.faults()[0].count, 1U);
  for (const ValueStats& of_matrix : values) EXPECT_EQ(of_matrix.values, 0);
  const auto truncated = [](const auto& result) {
    return !result.ok() && says_truncated(result.error());
  };
  const BoundMatrix& o_proj = *binding_->find(kLayer + "self_attn.o_proj");
  EXPECT_TRUE(truncated(load_matrix(*checkpoint_, o_proj)));
  EXPECT_TRUE(truncated(load_expert(*binding_, 0, 1)));
  EXPECT_TRUE(truncated(load_elements(*checkpoint_, *binding_->find("lm_head"))));
  EXPECT_TRUE(truncated(load_vector(*checkpoint_, "model.norm.weight")));
  // Factors, input scales and KV scales are read by the binding: cut before it.
  const Binding late = Binding::make(*checkpoint_);
  EXPECT_EQ(fault_ids(late.faults()), "truncated");
  EXPECT_EQ(late.faults().faults()[0].count, 1U);
  EXPECT_FALSE(load_matrix(*checkpoint_, *late.find(o_proj.stored.name)).ok());
}

}  // namespace
}  // namespace nibble
