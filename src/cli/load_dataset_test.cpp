#include "cli/load_dataset.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "cli/load_flags.h"
#include "cli/load_flags_fixture.h"

namespace nibble::cli {
namespace {

struct Read {
  Arguments arguments;
  DatasetFlags flags;
  std::vector<std::string> notes;
};

Result<Read> read(const Words& words, std::string_view backend = "vllm") {
  const CommandDef command{.name = "load", .options = load_command_options()};
  Read read;
  NIBBLE_ASSIGN_OR_RETURN(read.arguments, parse_arguments(command, words));
  NIBBLE_ASSIGN_OR_RETURN(const api::Backend found, api::find_backend(backend));
  NIBBLE_ASSIGN_OR_RETURN(read.flags, dataset_flags_from(read.arguments, found, read.notes));
  return read;
}

std::string dataset_fault(const Words& words, std::string_view backend = "vllm") {
  const auto result = read(words, backend);
  return result.ok() ? "" : result.error().message;
}

drive::Target target_of(std::string_view backend) {
  drive::Target target;
  target.backend = api::find_backend(backend).value();
  return target;
}

// Letters of their own, no merges: "abba" is four tokens.
constexpr const char* kTokenizer = R"({
  "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": false},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "merges": []}})";

TEST(LoadDataset, DefaultsFollowTheBackend) {
  const auto vllm = read({});
  ASSERT_TRUE(vllm.ok());
  EXPECT_EQ(vllm->flags.name, "random");
  EXPECT_EQ(vllm->flags.random.input_len, 1024);
  EXPECT_EQ(vllm->flags.random.output_len, 128);
  EXPECT_EQ(vllm->flags.random.range_rule, load::RangeRule::kVllm);
  const auto sglang = read({}, "sglang-oai");
  EXPECT_EQ(sglang->flags.random.output_len, 1024);
  EXPECT_EQ(sglang->flags.random.range_rule, load::RangeRule::kSglang);
}

TEST(LoadDataset, LengthsByAllTheirNames) {
  const auto own = read({"--random-input", "10", "--random-output-len", "20",
                         "--random-range-ratio", "0.5", "--random-prefix-len", "5"});
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->flags.random.input_len, 10);
  EXPECT_EQ(own->flags.random.output_len, 20);
  EXPECT_EQ(own->flags.random.range_ratio, 0.5);
  EXPECT_EQ(own->flags.random.prefix_len, 5);
  EXPECT_EQ(own->flags.mean_context(), 25);  // 5 + 10 + 20 / 2
  const auto general = read({"--input-len", "10", "--output-len", "20"});
  EXPECT_EQ(general->flags.random.input_len, 10);
  EXPECT_EQ(general->flags.random.output_len, 20);
  EXPECT_TRUE(
      contains(dataset_fault({"--input-len", "10", "--random-input-len", "10"}), "give one"));
  for (const char* text : {"0", "-1", "x", "1e3", "99999999999999999999"}) {
    EXPECT_FALSE(read({std::string("--random-input-len=") + text}).ok()) << text;
  }
}

TEST(LoadDataset, ContextOfSglangsLengths) {
  // Uniform from half to the whole: three quarters on average.
  const auto read_ = read(
      {"--random-input-len", "1000", "--random-output-len", "200", "--random-range-ratio", "0.5"},
      "sglang");
  EXPECT_DOUBLE_EQ(read_->flags.mean_context().value(), 825);  // 0.75 x (1000 + 100)
}

TEST(LoadDataset, SharedPrefixesByBothNames) {
  for (const char* name : {"generated-shared-prefix", "shared-prefix"}) {
    const auto shared = read({"--dataset-name", name, "--gsp-num-groups", "3",
                              "--gsp-prompts-per-group", "4", "--gsp-system-prompt-len", "100",
                              "--gsp-question-len", "10", "--gsp-output-len", "20"});
    ASSERT_TRUE(shared.ok()) << shared.error().message;
    EXPECT_EQ(shared->flags.prompts_of_a_round(), 12);
    EXPECT_EQ(shared->flags.mean_context(), 120);
    EXPECT_EQ(shared->flags.described().front().second, Json(3));
  }
}

TEST(LoadDataset, OptionsOfAnotherDatasetAreRefused) {
  EXPECT_EQ(dataset_fault({"--gsp-num-groups", "3"}),
            "--gsp-num-groups does not apply to --dataset-name random; leave it out");
  EXPECT_FALSE(
      read({"--dataset-name", "sharegpt", "--dataset-path", "x", "--input-len", "5"}).ok());
  EXPECT_FALSE(read({"--no-oversample"}).ok());
  EXPECT_FALSE(read({"--sharegpt-output-len", "5"}).ok());
}

TEST(LoadDataset, FilesNeedAPath) {
  EXPECT_EQ(dataset_fault({"--dataset-name", "sharegpt"}),
            "--dataset-name sharegpt needs --dataset-path; nothing is downloaded");
  EXPECT_TRUE(contains(dataset_fault({"--dataset-path", "x"}), "--dataset-name is missing"));
  const auto noted = read({"--dataset-name", "random", "--dataset-path", "x"});
  ASSERT_TRUE(noted.ok());
  ASSERT_EQ(noted->notes.size(), 1u);
  EXPECT_TRUE(contains(noted->notes[0], "is not read"));
}

TEST(LoadDataset, LengthsOfFiles) {
  const Words custom = {"--dataset-name", "custom", "--dataset-path", "x"};
  const auto with = [&custom](Words more) {
    more.insert(more.begin(), custom.begin(), custom.end());
    return read(more);
  };
  EXPECT_EQ(with({})->flags.file.output_len, std::nullopt);
  EXPECT_TRUE(with({})->flags.file.repeat);
  EXPECT_FALSE(with({"--no-oversample"})->flags.file.repeat);
  EXPECT_EQ(with({"--custom-output-len", "-1"})->flags.file.output_len, std::nullopt);
  EXPECT_EQ(with({"--custom-output-len", "9"})->flags.file.output_len, 9);
  EXPECT_EQ(with({"--output-len", "9"})->flags.file.output_len, 9);
  EXPECT_FALSE(with({"--custom-output-len", "0"}).ok());
  EXPECT_EQ(with({})->flags.mean_context(), std::nullopt);
}

TEST(LoadDataset, RandomIdsNeedABackendThatTakesThem) {
  EXPECT_TRUE(read({"--dataset-name", "random-ids"}, "sglang").ok());
  EXPECT_TRUE(contains(dataset_fault({"--dataset-name", "random-ids"}, "openai-chat"),
                       "--backend openai-chat does not take"));
  EXPECT_TRUE(contains(dataset_fault({"--dataset-name", "random-ids", "--no-token-ids"}, "sglang"),
                       "--no-token-ids rules out"));
}

TEST(LoadDataset, IdsWhereTheWireTakesThemAndWordsElsewhere) {
  const auto flags = read({"--random-input-len", "40", "--random-output-len", "7"});
  const auto maker = dataset_maker(flags->flags, std::nullopt, target_of("vllm"));
  ASSERT_TRUE(maker.ok());
  const auto ids = (*maker)({.token_ids = true});
  ASSERT_TRUE(ids.ok());
  const auto prompt = (*ids)->make({.run = 1});
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(prompt->ids.size(), 40u);
  EXPECT_EQ(prompt->output_tokens, 7);
  // The server has refused ids, and says that a word is two tokens: twenty of them.
  const auto words = (*maker)({.token_ids = false, .tokens_per_word = 2});
  ASSERT_TRUE(words.ok());
  const auto text = (*words)->make({.run = 1});
  EXPECT_TRUE(text->ids.empty());
  EXPECT_EQ(std::count(text->text.begin(), text->text.end(), ' '), 19);
  EXPECT_FALSE(text->counted);
}

TEST(LoadDataset, RandomIdsAreNeverSentAsText) {
  const auto flags = read({"--dataset-name", "random-ids"});
  const auto maker = dataset_maker(flags->flags, std::nullopt, target_of("vllm"));
  ASSERT_TRUE(maker.ok());
  const auto refused = (*maker)({.token_ids = false});
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(contains(refused.error().message, "the server refuses token ids"));
}

TEST(LoadDataset, FaultsOfAFileAreKnownBeforeTheLoad) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "prompts.jsonl").string();
  ASSERT_TRUE(write_file(path, "{\"prompt\": \"a\", \"output_tokens\": 3}\nnonsense\n").ok());
  const auto flags = read({"--dataset-name", "custom", "--dataset-path", path});
  const auto broken = dataset_maker(flags->flags, std::nullopt, target_of("vllm"));
  ASSERT_FALSE(broken.ok());
  EXPECT_TRUE(contains(broken.error().message, "line 2"));
  ASSERT_TRUE(write_file(path, "{\"prompt\": \"a\", \"output_tokens\": 3}\n").ok());
  const auto maker = dataset_maker(flags->flags, std::nullopt, target_of("vllm"));
  ASSERT_TRUE(maker.ok());
  // Read once: what becomes of the file afterwards does not matter.
  std::filesystem::remove(path);
  const auto dataset = (*maker)({.token_ids = true, .tokens_per_word = 1.3});
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->make({.number = 5})->output_tokens, 3);  // repeats
}

TEST(LoadDataset, ATokenizerCountsAndLimitsTheIds) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "tokenizer.json", kTokenizer).ok());
  std::vector<std::string> notes;
  for (const char* option : {"--tokenizer", "--model"}) {
    const auto with = read({option, folder.path().string()});
    const auto choice = tokenizer_from(with->arguments, notes);
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    ASSERT_TRUE(choice->tokenizer.has_value());
    EXPECT_EQ(choice->id, folder.path().string());
    const load::TokenTools tools = token_tools(choice->tokenizer, {.token_ids = true}, false);
    EXPECT_TRUE(tools.send_ids);
    EXPECT_EQ(tools.count("abba"), 4u);
    const std::vector<std::int32_t> ids = {2, 0, 1};
    EXPECT_EQ(tools.decode(ids), "cab");
    EXPECT_EQ(tools.end_id, 4);
    EXPECT_LT(tools.first_id, tools.end_id);
  }
}

// An id of the Hub, as command lines of SGLang have it: from the cache, or none at all.
TEST(LoadDataset, AHubIdIsLookedUpInTheCache) {
  const TemporaryFolder folder;
  const ScopedEnvironment cache("HF_HUB_CACHE", folder.path().c_str());
  std::vector<std::string> notes;
  const auto arguments = read({"--tokenizer", "toy/abc"})->arguments;
  auto choice = tokenizer_from(arguments, notes);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_FALSE(choice->tokenizer.has_value());
  EXPECT_TRUE(choice->id.empty());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(contains(notes[0], "toy/abc is not in " + folder.path().string())) << notes[0];
  const auto model = folder.path() / "models--toy--abc";
  std::filesystem::create_directories(model / "snapshots" / "0a1b");
  std::filesystem::create_directories(model / "refs");
  ASSERT_TRUE(write_file(model / "refs" / "main", "0a1b").ok());
  ASSERT_TRUE(write_file(model / "snapshots" / "0a1b" / "tokenizer.json", kTokenizer).ok());
  choice = tokenizer_from(arguments, notes);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_TRUE(choice->tokenizer.has_value());
  EXPECT_EQ(choice->id, "toy/abc");
  EXPECT_EQ(notes.size(), 1U);
}

TEST(LoadDataset, WithoutATokenizerNothingCounts) {
  std::vector<std::string> notes;
  EXPECT_FALSE(
      tokenizer_from(read({"--model", "some-name"})->arguments, notes)->tokenizer.has_value());
  const auto missing = tokenizer_from(read({"--tokenizer", "./Qwen3-8B"})->arguments, notes);
  ASSERT_FALSE(missing.ok());
  EXPECT_TRUE(contains(missing.error().message, "nothing is downloaded"));
  const load::TokenTools tools = token_tools(std::nullopt, {.tokens_per_word = 1e9}, true);
  EXPECT_FALSE(tools.count);
  EXPECT_EQ(tools.tokens_per_word, 100);  // what a dataset takes at most
}

TEST(LoadDataset, IdsAreOfTheServersVocabulary) {
  load::TokenTools tools =
      token_tools(std::nullopt, {.token_ids = true, .vocabulary = 4096}, false);
  EXPECT_EQ(tools.first_id, 1000);
  EXPECT_EQ(tools.end_id, 4096);
  tools = token_tools(std::nullopt, {.token_ids = true, .vocabulary = 1}, false);
  EXPECT_EQ(tools.first_id, 0);
  EXPECT_EQ(tools.end_id, 1);
  tools = token_tools(std::nullopt, {.token_ids = true, .vocabulary = 150'000}, false);
  EXPECT_EQ(tools.end_id, 30'000);
}

}  // namespace
}  // namespace nibble::cli
