// Layers of the C API that take a tuning file's choices.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/testing.h"
#include "capi/test_moe.h"
#include "tactics/tune/cpu_layer.h"
#include "tactics/tune/cpu_site.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::capi {
namespace {

constexpr MoeInputShape kTuned{
    .tokens = 5, .experts = 6, .top_k = 2, .hidden = 96, .intermediate = 48};

// Portable code on one thread, for both products at 1 to 5 tokens.
tune::TuningFile portable_file() {
  const tune::CpuLayer layer{.experts = kTuned.experts,
                             .top_k = kTuned.top_k,
                             .hidden = kTuned.hidden,
                             .intermediate = kTuned.intermediate};
  const tune::CpuTactic portable{.isa = Isa::kPortable, .threads = 1};
  tune::TuningFile file{.site = tune::cpu_tuning_site(),
                        .compiler = "none",
                        .version = "0",
                        .command = "nibble tune"};
  for (const tune::TuningShape& shape : {gate_up_shape(layer), down_shape(layer)}) {
    tune::TuningEntry entry{.key = {shape, 5, 1},
                            .checked_tokens = {1, 5},
                            .choice = portable,
                            .fallback = portable,
                            .rounds = 7};
    entry.times = {
        {portable,
         {.median_us = 80, .rounds = 7, .ratio = 1, .standing = tune::Standing::kChosen}}};
    file.put(std::move(entry));
  }
  return file;
}

class CapiTuning : public testing::Test {
 protected:
  void SetUp() override { ASSERT_CALL_OK(nibble_cpu_open(2, &device_)); }
  void TearDown() override { nibble_device_close(device_); }

  std::string write(const std::string& name, const tune::TuningFile& file) {
    const std::filesystem::path path = folder_.path() / name;
    EXPECT_TRUE(write_file(path, to_json(file).dump()).ok());
    return path.string();
  }

  struct Ran {
    std::string layer;
    std::string tuning;
    std::vector<float> out;
  };
  Ran run(const MoeInputShape& shape) {
    const MoeInput input(shape);
    const auto desc = input.desc(NIBBLE_FP32);
    const auto tensors = input.tensors();
    nibble_moe* moe = nullptr;
    nibble_moe_workspace* workspace = nullptr;
    EXPECT_CALL_OK(nibble_moe_create(device_, &desc, &tensors, &moe));
    EXPECT_CALL_OK(nibble_moe_workspace_create(moe, shape.tokens, &workspace));
    Ran ran;
    ran.out.assign(input.x.size(), NAN);
    auto args = sized<nibble_moe_args>();
    args.tokens = shape.tokens;
    args.hidden_states = input.x.data();
    args.topk_ids = input.ids.data();
    args.topk_weights = input.weights.data();
    args.shared = input.shared.data();
    args.out = ran.out.data();
    EXPECT_CALL_OK(nibble_moe_run(moe, workspace, &args, nullptr));
    auto info = sized<nibble_moe_info>();
    EXPECT_CALL_OK(nibble_moe_describe(moe, &info));
    ran.layer = info.layer;
    ran.tuning = info.tuning;
    nibble_moe_workspace_destroy(workspace);
    nibble_moe_destroy(moe);
    return ran;
  }
  bool is_portable(const Ran& ran) { return ran.layer.find(" portable ") != std::string::npos; }

  TemporaryFolder folder_;
  nibble_device* device_ = nullptr;
};

TEST_F(CapiTuning, ALayerTakesItsChoicesAndSaysWhichKeysHit) {
  const Ran untuned = run(kTuned);
  EXPECT_EQ(untuned.tuning, "");
  EXPECT_EQ(is_portable(untuned), best_isa() == Isa::kPortable) << untuned.layer;
  const std::string path = write("cpu.json", portable_file());
  ASSERT_CALL_OK(nibble_device_use_tuning(device_, path.c_str()));
  const Ran tuned = run(kTuned);
  EXPECT_TRUE(is_portable(tuned)) << tuned.layer;
  EXPECT_EQ(tuned.tuning,
            "tuning file " + path +
                ": 2 of 2 keys hit; moe.gate_up 6 x [96, 96] top 2 nvfp4 x bf16, 5 tokens: cpu "
                "portable 1 thread; moe.down 6 x [96, 48] top 2 nvfp4 x bf16, 5 tokens: cpu "
                "portable 1 thread");
  EXPECT_EQ(tuned.out, untuned.out);  // the same bits with all tactics
  ASSERT_CALL_OK(nibble_device_use_tuning(device_, nullptr));
  EXPECT_EQ(run(kTuned).tuning, "");
}

TEST_F(CapiTuning, AnotherRanksShapeTakesTheDefaultAndSaysSo) {
  const std::string path = write("cpu.json", portable_file());
  ASSERT_CALL_OK(nibble_device_use_tuning(device_, path.c_str()));
  MoeInputShape other = kTuned;
  other.intermediate = 96;
  const Ran ran = run(other);
  EXPECT_EQ(is_portable(ran), best_isa() == Isa::kPortable) << ran.layer;
  EXPECT_NE(
      ran.tuning.find("0 of 2 keys hit; moe.gate_up 6 x [192, 96] top 2 nvfp4 x bf16, 1 "
                      "token: the file is for another rank's shape, moe.gate_up 6 x [96, 96]"),
      std::string::npos)
      << ran.tuning;
}

TEST_F(CapiTuning, ABadFileHasItsCodeAndSentenceAndChangesNothing) {
  const std::string path = write("cpu.json", portable_file());
  ASSERT_CALL_OK(nibble_device_use_tuning(device_, path.c_str()));
  tune::TuningFile stale = portable_file();
  stale.site.kernel_version = "nibble 0.0.0 avx2";
  tune::TuningFile elsewhere = portable_file();
  elsewhere.site.units += 1;
  const std::filesystem::path damaged = folder_.path() / "damaged.json";
  ASSERT_TRUE(write_file(damaged, "{\"schema\": ").ok());
  const std::pair<std::string, const char*> bad[] = {
      {"/nonexistent/t.json", "there is no tuning file /nonexistent/t.json"},
      {damaged.string(), "damaged.json"},
      {write("stale.json", stale), "it was made with kernels nibble 0.0.0 avx2, and these are "},
      {write("elsewhere.json", elsewhere), "it was made on "}};
  for (const auto& [name, words] : bad) {
    EXPECT_EQ(nibble_device_use_tuning(device_, name.c_str()), NIBBLE_BAD_TUNING) << name;
    EXPECT_NE(std::string(nibble_last_error()).find(words), std::string::npos)
        << nibble_last_error();
    EXPECT_TRUE(is_portable(run(kTuned))) << name;
  }
  EXPECT_EQ(nibble_device_use_tuning(nullptr, path.c_str()), NIBBLE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace nibble::capi
