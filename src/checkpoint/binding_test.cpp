#include "checkpoint/binding.h"

#include <cmath>

#include "checkpoint/expected.h"
#include "checkpoint/test_files.h"
#include "model/config.h"

namespace nibble {
namespace {

const std::string kGate1 = kLayer + "mlp.experts.1.gate_proj";

class BindingTest : public testing::Test {
 protected:
  // The binding refers to the checkpoint: both live as long as the test.
  const Binding& bind(const TinyCheckpoint& tiny) {
    checkpoint_.emplace(open_written(tiny, folder_.path()));
    binding_.emplace(Binding::make(*checkpoint_));
    return *binding_;
  }
  std::string ids(const TinyCheckpoint& tiny) { return fault_ids(bind(tiny).faults()); }

  const TemporaryFolder folder_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Binding> binding_;
};

std::string with_fields(const std::string& config, const std::string& fields) {
  return config.substr(0, config.rfind('}')) + ", " + fields + "}";
}

TEST_F(BindingTest, BothDialectsHaveTheSameMultipliers) {
  for (const bool modelopt : {true, false}) {
    const Binding& binding = bind(tiny(modelopt));
    EXPECT_EQ(fault_ids(binding.faults()), "") << modelopt;
    const BoundMatrix* gate = binding.find(kGate1);
    ASSERT_NE(gate, nullptr);
    // weight_global_scale 2688 is a divisor, weight_scale_2 = 1 / 2688 a multiplier.
    ASSERT_TRUE(gate->factor);
    EXPECT_EQ(*gate->factor, 1.0F / 2688.0F);
    ASSERT_TRUE(gate->input_scale);
    EXPECT_EQ(*gate->input_scale, 0.25F);
    EXPECT_EQ(gate->stored.format, Format::kNvfp4);
    EXPECT_EQ(gate->stored.rows, 16);
    EXPECT_EQ(gate->stored.columns, 32);
    EXPECT_EQ(gate->region, Region::kRoutedExperts);
    EXPECT_EQ(gate->claimed->weights, Format::kNvfp4);
  }
}

TEST_F(BindingTest, ExpertsAreFoundByLayerAndNumber) {
  const Binding& binding = bind(tiny(true));
  const std::optional<ExpertBinding> expert = binding.expert(0, 2);
  ASSERT_TRUE(expert);
  EXPECT_EQ(expert->gate->stored.name, kLayer + "mlp.experts.2.gate_proj");
  EXPECT_EQ(expert->up->stored.name, kLayer + "mlp.experts.2.up_proj");
  EXPECT_EQ(expert->down->stored.name, kLayer + "mlp.experts.2.down_proj");
  EXPECT_FALSE(binding.expert(0, 3));
  EXPECT_FALSE(binding.expert(0, -1));
  EXPECT_FALSE(binding.expert(1, 0));
}

TEST_F(BindingTest, EveryTensorThatTheModelCallsForIsMissedByName) {
  const TinyCheckpoint whole = tiny(true);
  for (const TestTensor& tensor : whole.tensors) {
    if (tensor.name.ends_with("input_scale")) continue;  // has a fault of its own
    TinyCheckpoint without = whole;
    without.remove(tensor.name);
    const Fault* fault = find_fault(bind(without).faults(), "missing-tensor");
    ASSERT_NE(fault, nullptr) << tensor.name;
    EXPECT_EQ(fault->examples, (std::vector<std::string>{tensor.name}));
    EXPECT_EQ(fault_ids(binding_->faults()), "missing-tensor") << tensor.name;
  }
}

TEST_F(BindingTest, MissingCodesAreNamedAsTheirDialectNamesThem) {
  TinyCheckpoint tiny_one = tiny(false);
  tiny_one.remove(kGate1 + ".weight_packed");
  EXPECT_EQ(ids(tiny_one), "missing-tensor");
  EXPECT_EQ(binding_->faults().faults()[0].examples[0], kGate1 + ".weight_packed");
}

TEST_F(BindingTest, AnInputScaleThatSomeLackIsAnErrorAndThatAllLackAWarning) {
  TinyCheckpoint some = tiny(true);
  some.remove(kGate1 + ".input_scale");
  EXPECT_EQ(ids(some), "missing-input-scale");
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kError);
  EXPECT_EQ(binding_->faults().faults()[0].examples[0], kGate1);

  TinyCheckpoint none = tiny(true);
  std::erase_if(none.tensors, [](const TestTensor& t) { return t.name.ends_with("input_scale"); });
  EXPECT_EQ(ids(none), "no-input-scales");
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kWarning);
  EXPECT_EQ(binding_->faults().faults()[0].count, 13U);

  // Weights alone in NVFP4: nothing is missing.
  none.config = std::string(kTinyConfig) + R"(, "quantization_config": {"quant_method": "modelopt",
      "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head"]}})";
  EXPECT_EQ(ids(none), "");
}

TEST_F(BindingTest, TensorsBeyondTheModelAreExtraOrIgnored) {
  TinyCheckpoint more = tiny(true);
  more.bf16(kLayer + "mlp.mystery.weight", {4});
  more.bf16("visual.blocks.0.attn.qkv.weight", {4, 4});
  more.bf16("model.layers.1.eh_proj.weight", {32, 64});  // numbered beyond the stack: MTP
  more.bf16(kLayer + "self_attn.rotary_emb.inv_freq", {8});
  EXPECT_EQ(find_fault(bind(more).faults(), "extra-tensor")->examples,
            (std::vector<std::string>{kLayer + "mlp.mystery.weight"}));
  EXPECT_EQ(fault_ids(binding_->faults()),
            "extra-tensor layer-not-configured config-contradicts-header");
  ASSERT_EQ(binding_->ignored().size(), 3U);
  std::uint64_t tensors = 0;
  for (const IgnoredTensors& ignored : binding_->ignored()) tensors += ignored.tensors;
  EXPECT_EQ(tensors, 3U);
}

TEST_F(BindingTest, KvScalesAreReadAndCheckedForTheirValues) {
  TinyCheckpoint with_scales = tiny(true);
  with_scales.add(kLayer + "self_attn.k_proj.k_scale", "F32", {}, little_endian<float>({0.5F}));
  with_scales.add(kLayer + "self_attn.v_proj.v_scale", "BF16", {1},
                  little_endian<std::uint16_t>({0x4000}));  // 2
  EXPECT_EQ(ids(with_scales), "");
  ASSERT_EQ(binding_->kv_scales().size(), 2U);
  EXPECT_EQ(binding_->kv_scales()[0].value, 0.5F);
  EXPECT_EQ(binding_->kv_scales()[1].value, 2.0F);
  with_scales.at(kLayer + "self_attn.k_proj.k_scale").data = little_endian<float>({0.0F});
  EXPECT_EQ(ids(with_scales), "kv-scale-out-of-range");
  with_scales.at(kLayer + "self_attn.k_proj.k_scale").dtype = "I32";
  EXPECT_EQ(ids(with_scales), "wrong-dtype");
}

TEST_F(BindingTest, FactorsThatNobodyCanMultiplyByAreErrors) {
  const auto with_factor = [](float factor) {
    TinyCheckpoint changed = tiny(true);
    changed.at(kLayer + "self_attn.o_proj.weight_scale_2").data = little_endian<float>({factor});
    return changed;
  };
  EXPECT_EQ(ids(with_factor(NAN)), "factor-not-finite");
  EXPECT_EQ(ids(with_factor(INFINITY)), "factor-not-finite");
  EXPECT_EQ(ids(with_factor(0.0F)), "zero-factor");
  EXPECT_EQ(ids(with_factor(-0.001F)), "negative-factor");
  EXPECT_EQ(ids(with_factor(101.0F)), "factor-out-of-range");
  EXPECT_EQ(ids(with_factor(100.0F)), "");
  EXPECT_EQ(ids(with_factor(0.5e-9F)), "factor-tiny");
  EXPECT_EQ(binding_->faults().errors(), 0U);
}

TEST_F(BindingTest, AllFactorsUpsideDownAreSaidToBe) {
  for (const bool modelopt : {true, false}) {
    TinyCheckpoint changed = tiny(modelopt);
    const float upside_down = modelopt ? 2688.0F : 1.0F / 2688;
    for (TestTensor& tensor : changed.tensors) {
      if (tensor.name.ends_with(".weight_scale_2") ||
          tensor.name.ends_with("weight_global_scale")) {
        tensor.data = little_endian<float>({upside_down});
      }
    }
    EXPECT_EQ(ids(changed), "reciprocal-factor") << modelopt;
    EXPECT_EQ(binding_->faults().faults()[0].count, 13U);
  }
}

TEST_F(BindingTest, GateAndUpMayDifferButNotInOneExpertAlone) {
  const auto with_up = [](std::vector<int> experts, float factor) {
    TinyCheckpoint changed = tiny(true);
    for (const int expert : experts) {
      changed.at(fmt::format("{}mlp.experts.{}.up_proj.weight_scale_2", kLayer, expert)).data =
          little_endian<float>({factor});
    }
    return changed;
  };
  EXPECT_EQ(ids(with_up({0, 1, 2}, 2.0F / 2688)), "gate-up-factors-differ");
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kInfo);
  EXPECT_EQ(binding_->faults().faults()[0].count, 3U);
  EXPECT_EQ(ids(with_up({0, 1, 2}, 16.0F / 2688)), "gate-up-factors-differ");  // all alike
  EXPECT_EQ(ids(with_up({1}, 8.0F / 2688)), "gate-up-factors-differ");
  EXPECT_EQ(ids(with_up({1}, 16.0F / 2688)), "gate-up-factors-differ gate-up-inconsistent");
  EXPECT_EQ(find_fault(binding_->faults(), "gate-up-inconsistent")->examples[0], kGate1);
}

TEST_F(BindingTest, TheHeaderIsFollowedAndTheClaimCompared) {
  TinyCheckpoint odd = tiny(true);
  odd.config = std::string(kTinyConfig) + R"(, "quantization_config": {"quant_method": "modelopt",
      "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.self_attn*"]}})";
  EXPECT_EQ(ids(odd), "config-contradicts-header");
  EXPECT_EQ(binding_->faults().faults()[0].count, 4U);
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kWarning);
  EXPECT_EQ(binding_->find(kLayer + "self_attn.o_proj")->stored.format, Format::kNvfp4);
}

TEST_F(BindingTest, ShapesAreHeldAgainstTheConfiguration) {
  TinyCheckpoint odd = tiny(true);
  odd.at(kLayer + "mlp.gate.weight").shape = {32, 3};
  EXPECT_EQ(ids(odd), "wrong-shape");
  odd = tiny(true);
  odd.at(kGate1 + ".weight_scale").shape = {32, 1};
  EXPECT_EQ(ids(odd), "wrong-shape");
  odd.at(kGate1 + ".weight_scale").dtype = "I8";
  EXPECT_EQ(ids(odd), "wrong-dtype");
}

TEST_F(BindingTest, Fp8IsRecognisedByItsScale) {
  const std::string o_proj = kLayer + "self_attn.o_proj";
  const auto with_scale = [&](const std::string& suffix, std::vector<std::int64_t> shape) {
    TinyCheckpoint changed = tiny(true);
    for (const char* part : {".weight", ".weight_scale", ".weight_scale_2", ".input_scale"}) {
      changed.remove(o_proj + part);
    }
    changed.add(o_proj + ".weight", "F8_E4M3", {32, 32}, std::string(1024, '\x38'));
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    changed.add(o_proj + suffix, "F32", std::move(shape),
                little_endian(std::vector<float>(count, 0.5F)));
    return changed;
  };
  EXPECT_EQ(ids(with_scale(".weight_scale", {})), "config-contradicts-header");
  EXPECT_EQ(binding_->find(o_proj)->stored.fp8_scale, Fp8Scale::kTensor);
  EXPECT_EQ(binding_->find(o_proj)->stored.format, Format::kFp8);
  EXPECT_EQ(ids(with_scale(".weight_scale", {32, 1})), "config-contradicts-header");
  EXPECT_EQ(binding_->find(o_proj)->stored.fp8_scale, Fp8Scale::kRow);
  EXPECT_EQ(ids(with_scale(".weight_scale_inv", {1, 1})), "config-contradicts-header");
  EXPECT_EQ(binding_->find(o_proj)->stored.format, Format::kFp8Block128);
  EXPECT_EQ(ids(with_scale(".weight_scale_inv", {2, 1})), "wrong-shape");
  TinyCheckpoint odd = with_scale(".weight_scale", {});
  odd.at(o_proj + ".weight_scale").dtype = "I32";
  EXPECT_EQ(ids(odd), "wrong-dtype");
}

TEST_F(BindingTest, WhatLoadingWouldRefuseIsAnError) {
  TinyCheckpoint stacked = tiny(true);
  std::erase_if(stacked.tensors,
                [](const TestTensor& t) { return t.name.find(".experts.") != std::string::npos; });
  stacked.bf16(kLayer + "mlp.experts.gate_up_proj", {3, 32, 32});
  stacked.bf16(kLayer + "mlp.experts.down_proj", {3, 32, 16});
  stacked.config =
      std::string(kTinyConfig) + R"(, "quantization_config": {"quant_method": "modelopt",
      "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.mlp.experts*"]}})";
  EXPECT_EQ(ids(stacked), "form-not-loaded");
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kError);
  EXPECT_EQ(binding_->faults().faults()[0].count, 2U);
  stacked.at(kLayer + "mlp.experts.down_proj").shape = {3, 16, 32};  // lying
  EXPECT_EQ(ids(stacked), "form-not-loaded");
  stacked.at(kLayer + "mlp.experts.down_proj").shape = {3, 8, 64};
  EXPECT_EQ(ids(stacked), "form-not-loaded wrong-shape");
}

TEST_F(BindingTest, WhatALostFileHeldIsNotMissedOneByOne) {
  const TinyCheckpoint whole = tiny(false);
  for (const TestTensor& lost : whole.tensors) {
    TinyCheckpoint left = whole;
    left.remove(lost.name);
    std::string map;
    for (const TestTensor& tensor : whole.tensors) {
      map += fmt::format("{}\"{}\":\"{}\"", map.empty() ? "" : ",", tensor.name,
                         tensor.name == lost.name ? "lost.safetensors" : "model.safetensors");
    }
    write(folder_.path() / "model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
    EXPECT_EQ(ids(left), "shard-missing") << lost.name;
  }
}

TEST_F(BindingTest, MatricesWithoutElementsAreFaults) {
  TinyCheckpoint empty = tiny(true);
  empty.at("lm_head.weight") = {"lm_head.weight", "BF16", {0, 32}, ""};
  EXPECT_EQ(ids(empty), "wrong-shape");
  EXPECT_FALSE(binding_->find("lm_head")->stored.sound);
  empty = tiny(true);
  empty.add("visual.experts.gate_up_proj", "BF16", {0, 32, 32}, "");  // a stack of none
  EXPECT_EQ(ids(empty), "wrong-shape");
  EXPECT_FALSE(binding_->find("visual.experts.gate_up_proj")->stored.sound);
}

TEST_F(BindingTest, TiedEmbeddingsNeedNoLmHead) {
  TinyCheckpoint tied = tiny(true);
  tied.config.replace(tied.config.find("\"tie_word_embeddings\": false"),
                      std::string_view("\"tie_word_embeddings\": false").size(),
                      "\"tie_word_embeddings\": true");
  EXPECT_EQ(ids(tied), "");
  ASSERT_EQ(binding_->ignored().size(), 1U);  // lm_head, of which the table is a copy
  tied.remove("lm_head.weight");
  EXPECT_EQ(ids(tied), "");
  EXPECT_TRUE(binding_->ignored().empty());
}

TEST_F(BindingTest, AConfigurationWithMtpAndACheckpointWithout) {
  TinyCheckpoint spoken = tiny(true);
  spoken.config = with_fields(spoken.config, "\"num_nextn_predict_layers\": 1");
  EXPECT_EQ(ids(spoken), "mtp-absent");
  EXPECT_EQ(binding_->faults().faults()[0].severity, Severity::kInfo);
  spoken.bf16("model.layers.1.eh_proj.weight", {32, 64});
  spoken.bf16("model.layers.1.embed_tokens.weight", {8, 32});
  bind(spoken);
  const Fault* fault = find_fault(binding_->faults(), "missing-mtp-tensor");
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->severity, Severity::kWarning);
  EXPECT_EQ(binding_->faults().errors(), 0U);
  ASSERT_EQ(binding_->ignored().size(), 1U);
  EXPECT_EQ(binding_->ignored()[0].examples[0], "model.layers.1.embed_tokens.weight");
}

TEST_F(BindingTest, WithoutAConfigurationMatricesAreStillFound) {
  TinyCheckpoint bare = tiny(true);
  bare.config.clear();
  EXPECT_EQ(ids(bare), "config-missing");
  ASSERT_NE(binding_->find(kGate1), nullptr);
  EXPECT_FALSE(binding_->find(kGate1)->claimed);
  EXPECT_FALSE(binding_->expert(0, 1));
}

// nvidia/Qwen3-8B-NVFP4 (revision ccd10a89) has 1,227 tensors: each of the 36 layers has 7 NVFP4
// matrices of 4 tensors, 4 norms and 2 KV scales; and there are the table, a norm and lm_head.
TEST(ExpectedTensors, AgreeWithThePublishedCountOfQwen3_8B) {
  const Result<Json> config = Json::parse(R"({"model_type": "qwen3", "hidden_size": 4096,
      "num_hidden_layers": 36, "vocab_size": 151936, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
      "tie_word_embeddings": false})",
                                          "config.json");
  ASSERT_TRUE(config.ok());
  const Result<ModelSpec> model = parse_model(*config, nullptr, "qwen3-8b");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ExpectedTensors expected = expect_tensors(*model, [](const std::string&) { return false; });
  const auto quantized =
      std::count_if(expected.matrices.begin(), expected.matrices.end(),
                    [](const ExpectedMatrix& matrix) { return matrix.name.ends_with("_proj"); });
  const auto others = static_cast<std::ptrdiff_t>(expected.matrices.size()) - quantized;
  EXPECT_EQ(4 * quantized + others + static_cast<std::ptrdiff_t>(expected.vectors.size()) + 2 * 36,
            1227);
}

// nvidia/GLM-5.2-NVFP4 lists 232,385 tensors in its index: NVFP4 matrices are four, others one.
TEST(ExpectedTensors, AgreeWithThePublishedCountOfGlm5_2) {
  const Result<ModelSpec> model = load_model("glm-5.2-nvfp4");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ExpectedTensors expected = expect_tensors(*model, [](const std::string&) { return false; });
  std::size_t count = expected.vectors.size();
  for (const ExpectedMatrix& matrix : expected.matrices) {
    count += model->quantization.format_of(matrix.name).weights == Format::kNvfp4 ? 4 : 1;
  }
  EXPECT_EQ(count, 232385U);
}

TEST(Region, IsReadFromTheName) {
  const auto region = [](std::string_view name) { return region_of(name, 78); };
  EXPECT_EQ(region("model.layers.3.mlp.experts.7.gate_proj.weight"), Region::kRoutedExperts);
  EXPECT_EQ(region("model.layers.3.mlp.experts.gate_up_proj_blocks"), Region::kRoutedExperts);
  EXPECT_EQ(region("model.layers.3.mlp.shared_experts.up_proj.weight_scale"),
            Region::kSharedExperts);
  EXPECT_EQ(region("model.layers.3.mlp.shared_expert_gate.weight"), Region::kSharedExperts);
  EXPECT_EQ(region("model.layers.3.mlp.gate.weight"), Region::kRouter);
  EXPECT_EQ(region("model.layers.3.mlp.gate.e_score_correction_bias"), Region::kRouter);
  EXPECT_EQ(region("model.layers.3.mlp.router.bias"), Region::kRouter);
  EXPECT_EQ(region("model.layers.0.mlp.gate_proj.weight"), Region::kDenseMlp);
  EXPECT_EQ(region("model.layers.3.self_attn.indexer.wq_b.weight"), Region::kIndexer);
  EXPECT_EQ(region("model.layers.3.self_attn.kv_b_proj.weight"), Region::kAttention);
  EXPECT_EQ(region("model.layers.3.self_attn.k_proj.k_scale"), Region::kAttention);
  EXPECT_EQ(region("model.layers.3.linear_attn.in_proj_qkvz.weight"), Region::kAttention);
  EXPECT_EQ(region("model.layers.3.self_attn.q_a_layernorm.weight"), Region::kNorms);
  EXPECT_EQ(region("model.layers.3.self_attn.indexer.k_norm.bias"), Region::kNorms);
  EXPECT_EQ(region("model.norm.weight"), Region::kNorms);
  EXPECT_EQ(region("model.embed_tokens.weight"), Region::kEmbedding);
  EXPECT_EQ(region("lm_head.weight"), Region::kLmHead);
  EXPECT_EQ(region("model.layers.78.mlp.experts.0.gate_proj.weight"), Region::kMtp);
  EXPECT_EQ(region("mtp.layers.0.mlp.experts.gate_up_proj"), Region::kMtp);
  EXPECT_EQ(region("model.visual.blocks.0.mlp.linear_fc1.weight"), Region::kVision);
  EXPECT_EQ(region_of("model.layers.78.mlp.gate.weight", std::nullopt), Region::kRouter);
  EXPECT_EQ(region("model.something"), Region::kOther);
}

}  // namespace
}  // namespace nibble
