#include "serve/model_folder.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/testing.h"
#include "serve/test_model.h"

namespace nibble::serve {
namespace {

class ModelFolder : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) const {
    ASSERT_TRUE(write_file(folder_.path() / name, text).ok());
  }
  Result<ServedModel> load(const std::string& generation_config,
                           GenerationConfig wanted = GenerationConfig::kAuto) const {
    write("tokenizer.json", test_tokenizer_json());
    write("generation_config.json", generation_config);
    return load_served_model(folder_.path(), wanted);
  }

  const TemporaryFolder folder_;
};

TEST_F(ModelFolder, WithoutATokenizerItSaysWhatIsMissing) {
  const Result<ServedModel> none = load_served_model(folder_.path());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("a server needs the checkpoint's tokenizer.json beside the "
                                      "weights"),
            std::string::npos)
      << none.error().message;
}

TEST_F(ModelFolder, GenerationConfigGivesTheDefaults) {
  const char* config = R"({"eos_token_id": [257], "do_sample": true, "temperature": 0.6,
                           "top_p": 0.95, "top_k": 20, "min_p": 0.01, "repetition_penalty": 1.05,
                           "transformers_version": "4.51.0"})";
  const ServedModel model = must(load(config));
  EXPECT_EQ(model.generation_config, "auto");
  EXPECT_EQ(model.defaults.temperature, 0.6);
  EXPECT_EQ(model.defaults.top_p, 0.95);
  EXPECT_EQ(model.defaults.top_k, 20);
  EXPECT_EQ(model.defaults.min_p, 0.01);
  EXPECT_EQ(model.defaults.repetition_penalty, 1.05);
  EXPECT_EQ(model.end_ids, std::vector<engine::TokenId>{kEnd});
  const ServedModel plain = must(load(config, GenerationConfig::kNone));
  EXPECT_EQ(plain.generation_config, "none");
  EXPECT_EQ(plain.defaults.temperature, 1);
  EXPECT_EQ(plain.defaults.top_k, 0);
  EXPECT_EQ(plain.end_ids, std::vector<engine::TokenId>{kEnd});
}

TEST_F(ModelFolder, DefaultsThatAreNotGivenAreOpenAis) {
  const ServedModel model = must(load(R"({"top_k": -1, "temperature": null})"));
  EXPECT_EQ(model.defaults.temperature, 1);
  EXPECT_EQ(model.defaults.top_p, 1);
  EXPECT_EQ(model.defaults.top_k, 0);
  EXPECT_EQ(model.defaults.repetition_penalty, 1);
}

TEST_F(ModelFolder, BadDefaultsAreRefusedByName) {
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"temperature", "-0.1"}, {"temperature", "\"hot\""},
      {"top_p", "0"},          {"top_p", "1.5"},
      {"top_k", "2.5"},        {"top_k", "-2"},
      {"min_p", "2"},          {"repetition_penalty", "0"},
      {"eos_token_id", "-1"}};
  for (const auto& [name, value] : bad) {
    const Result<ServedModel> model = load(fmt::format(R"({{"{}": {}}})", name, value));
    ASSERT_FALSE(model.ok()) << name << " " << value;
    const std::string& message = model.error().message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("generation_config.json"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace nibble::serve
