// The tuning file: written and read back, refused in one sentence, looked up, audited.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "tactics/tune/audit.h"
#include "tactics/tune/store.h"
#include "tactics/tune/table.h"
#include "tactics/tune/test_backend.h"

namespace nibble::tune {
namespace {

W4A16Tactic wide_tactic() {
  return {.family = Family::kWgmma,
          .rows = 512,
          .tokens = 32,
          .stage_chunks = 2,
          .stages = 4,
          .groups = 2,
          .cluster = 2,
          .fragments = 4,
          .split = false};
}

TuningFile whole_file() {
  TuningFile file{.site = test_site(),
                  .compiler = "NVRTC 13.0",
                  .version = "0.1",
                  .command = "nibble tune",
                  .began_unix_s = 90,
                  .taken_unix_s = 100};
  TuningEntry entry{.key = {test_shape(), 64, 17},
                    .routing = "zipf:1",
                    .taken_unix_s = 100,
                    .replays = 50,
                    .checked_tokens = {17, 64},
                    .choice = wide_tactic(),
                    .fallback = W4A16Tactic{},
                    .runner_up = W4A16Tactic{},
                    .gain = 0.2,
                    .regret = 0.25,
                    .rounds = 30};
  entry.times = {
      {wide_tactic(),
       {.median_us = 80,
        .interval_us = Interval{79, 81},
        .rounds = 30,
        .ratio = 0.8,
        .ratio_interval = Interval{0.78, 0.82},
        .standing = Standing::kChosen}},
      {W4A16Tactic{.stages = 5},
       {.median_us = 81, .rounds = 30, .ratio = 0.81, .standing = Standing::kTied}},
      {W4A16Tactic{}, {.median_us = 100, .rounds = 30, .ratio = 1, .standing = Standing::kSlower}}};
  entry.rejected = {{W4A4Tactic{.way = Way::kWeightsOnM, .n = 8, .split = false}, "NaN"}};
  entry.infeasible = {{W4A16Tactic{.stages = 9}, "102400 bytes"}};
  file.put(std::move(entry));
  return file;
}

TEST(TuningFile, ReadsBackWhatItWrote) {
  const Json written = to_json(whole_file());
  const Result<TuningFile> read = parse_tuning(written, "x.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read).dump(), written.dump());
  EXPECT_EQ(*read->entries[0].choice, AnyTactic(wide_tactic()));
  EXPECT_EQ(read->entries[0].ties().size(), 1U);
  EXPECT_EQ(read->entries[0].rejected[0].tactic,
            AnyTactic(W4A4Tactic{.way = Way::kWeightsOnM, .n = 8, .split = false}));
}

std::string refusal(const TemporaryFolder& folder, const std::string& text) {
  const std::filesystem::path path = folder.path() / "t.json";
  EXPECT_TRUE(write_file(path, text).ok());
  const Result<TuningFile> read = read_tuning(path);
  if (read.ok()) return "";
  EXPECT_EQ(read.error().kind, ErrorKind::kInput);
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  return read.error().message;
}

TEST(TuningFile, EachFaultHasItsSentence) {
  const TemporaryFolder folder;
  const std::string name = (folder.path() / "t.json").string();
  const Result<TuningFile> missing = read_tuning(name);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message,
            "there is no tuning file " + name + "; nibble tune --output writes one");
  EXPECT_NE(refusal(folder, "{\"schema\": ").find(name), std::string::npos);
  EXPECT_EQ(refusal(folder, "[]"), name +
                                       " is no tuning file: it has no \"schema\"; nibble tune "
                                       "--output writes another");
  EXPECT_EQ(refusal(folder, R"({"schema": "nibble.tuning/2"})"),
            name +
                " is \"nibble.tuning/2\", and this nibble reads nibble.tuning/1; nibble tune "
                "--output writes another");
  EXPECT_NE(refusal(folder, R"({"schema": "nibble.tuning/1", "version": "1"})").find("command"),
            std::string::npos);
}

// FlashInfer's second product once got the first one's tactic id.
TEST(TuningFile, ATacticOfAnotherOperationIsRefused) {
  Json json = to_json(whole_file());
  json.find("entries")->as_array()[0].find("choice")->set("op", "moe.gate_up");
  const Result<TuningFile> read = parse_tuning(json, "x.json");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("a tactic is of one operation"), std::string::npos);
}

TEST(TuningFile, AKeyThatStandsTwiceIsRefused) {
  Json json = to_json(whole_file());
  const Json entry = json.find("entries")->as_array()[0];
  json.find("entries")->push(entry);
  const Result<TuningFile> read = parse_tuning(json, "x.json");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("entries[0] and entries[1] are both of moe.down"),
            std::string::npos);
}

// Each is one edit of a file that the tuner could have written.
TEST(TuningFile, AFileThatContradictsItselfIsRefused) {
  struct Edit {
    void (*apply)(Json& entry);
    const char* words;
  };
  const Edit edits[] = {
      {[](Json& entry) { entry.set("regret_of_default", 5.0); }, "regret_of_default 5"},
      {[](Json& entry) { entry.set("gain", 0.9); }, "gain 0.9"},
      {[](Json& entry) { entry.set("times", Json::array()).set("ties", Json::array()); },
       "is not the \"chosen\" one of its times"},
      {[](Json& entry) { entry.set("choice_text", Json()); }, "choice_text"},
      {[](Json& entry) { entry.set("choice_text", "the best ever"); }, "\"the best ever\""},
      {[](Json& entry) { entry.set("default_text", "another"); }, "default_text"},
      {[](Json& entry) { entry.set("choice", Json()).set("choice_text", Json()); },
       "it has no choice, and one of its times is \"chosen\""},
      {[](Json& entry) { entry.set("choice", Json()); }, "there is no choice"},
      {[](Json& entry) { entry.set("checked_tokens", Json()); }, "checked_tokens"},
      {[](Json& entry) { entry.set("checked_tokens", Json::array().push(64)); },
       "checked_tokens are not the ends"},
      {[](Json& entry) { entry.set("ties", Json::array()); }, "ties"},
      {[](Json& entry) { entry.set("rounds", 1); }, "in 30 rounds of 1"},
      {[](Json& entry) { entry.find("times")->as_array()[1].set("standing", "chosen"); }, "ties"},
      {[](Json& entry) {
         entry.find("times")->as_array()[1].set("standing", "chosen");
         entry.set("ties", Json::array());
       },
       "two of its times are \"chosen\""},
      {[](Json& entry) { entry.find("times")->as_array()[0].set("text", "x"); }, "text"},
      {[](Json& entry) { entry.find("rejected")->as_array()[0].set("text", "x"); }, "text"}};
  for (const Edit& edit : edits) {
    Json json = to_json(whole_file());
    edit.apply(json.find("entries")->as_array()[0]);
    const Result<TuningFile> read = parse_tuning(json, "x.json");
    ASSERT_FALSE(read.ok()) << edit.words;
    EXPECT_EQ(read.error().kind, ErrorKind::kInput);
    EXPECT_NE(read.error().message.find("x.json: entries[0]"), std::string::npos)
        << read.error().message;
    EXPECT_NE(read.error().message.find(edit.words), std::string::npos) << read.error().message;
  }
}

TEST(TuningTable, FindsTheRangeThatHoldsTheTokens) {
  TuningTable table(whole_file(), "h200.json", test_site());
  EXPECT_EQ(table.problem(), "");
  for (const std::int64_t tokens : {17, 40, 64}) {
    EXPECT_EQ(table.find(test_shape(), tokens).tactic, std::optional<AnyTactic>(wide_tactic()));
  }
  EXPECT_EQ(table.find(test_shape(), 16).reason,
            "this many tokens are not in the file, default taken");
  EXPECT_EQ(table.find(test_shape(), 65).reason, "the file ends at 64 tokens, default taken");
  EXPECT_FALSE(table.find(test_shape(), 65).tactic);
  const std::vector<std::string> report = table.report();
  ASSERT_EQ(report.size(), 4U);
  EXPECT_EQ(report[0], "tuning file h200.json: 3 of 5 keys hit");
  EXPECT_EQ(report[1], "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 17, 40 and 64 tokens: " +
                           to_string(AnyTactic(wide_tactic())));
  EXPECT_EQ(report[3],
            "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 65 tokens: the file ends at 64 tokens, "
            "default taken");
}

// A file of one rank's 36 experts where 288 are asked for: vLLM and SGLang did not tell.
TEST(TuningTable, AnotherRanksShapeIsNotUsedAndSaysSo) {
  TuningFile file = whole_file();
  file.entries[0].key.shape.experts = 36;
  TuningTable table(std::move(file), "e36.json", test_site());
  TuningShape asked = test_shape();
  asked.experts = 288;
  const Found found = table.find(asked, 64);
  EXPECT_FALSE(found.tactic);
  EXPECT_EQ(found.reason,
            "the file is for another rank's shape, moe.down 36 x [6144, 256] top 8 nvfp4 x bf16: "
            "not used, default taken");
}

// What differs is named, and only that.
TEST(TuningTable, AMissNamesWhatDiffers) {
  const auto reason = [](void (*change)(TuningShape&)) {
    TuningFile file = whole_file();
    change(file.entries[0].key.shape);
    return TuningTable(std::move(file), "t.json", test_site()).find(test_shape(), 64).reason;
  };
  EXPECT_EQ(reason([](TuningShape& shape) { shape.activations = Format::kNvfp4; }),
            "the file is for nvfp4 activations, moe.down 256 x [6144, 256] top 8 nvfp4 x nvfp4: "
            "not used, default taken");
  EXPECT_EQ(reason([](TuningShape& shape) { shape.format = Format::kMxfp4; }),
            "the file is for mxfp4 weights, moe.down 256 x [6144, 256] top 8 mxfp4 x bf16: not "
            "used, default taken");
  EXPECT_EQ(reason([](TuningShape& shape) { shape.n = 2048; }),
            "the file is for another model's shape, moe.down 256 x [2048, 256] top 8 nvfp4 x "
            "bf16: not used, default taken");
  EXPECT_EQ(reason([](TuningShape& shape) {
              shape.k = 512;
              shape.activations = Format::kInt8;
            }),
            "the file is for another rank's shape and int8 activations, moe.down 256 x [6144, "
            "512] top 8 nvfp4 x int8: not used, default taken");
}

TEST(TuningTable, AFileThatWasNamedForARunMustBeOfTheDevice) {
  TuningSite here = test_site();
  here.driver = "CUDA 13.1";
  const Result<TuningTable> stale = TuningTable::for_run(whole_file(), "t.json", here);
  ASSERT_TRUE(stale.ok());
  EXPECT_NE(stale->problem().find("driver CUDA 13.0, and this is CUDA 13.1"), std::string::npos);
  here.units = 66;
  const Result<TuningTable> foreign = TuningTable::for_run(whole_file(), "t.json", here);
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().kind, ErrorKind::kInput);
}

TEST(TuningTable, ControlCharactersOfAFileAreNotShown) {
  TuningFile file = whole_file();
  file.entries[0].choice.reset();
  file.entries[0].note = "\x1b[2Jcleared";
  EXPECT_EQ(TuningTable(file, "t.json", test_site()).find(test_shape(), 64).reason,
            "?[2Jcleared; default taken");
  file.site.device = "\x1b[2Jgone";
  const std::string problem = TuningTable(file, "t.json", test_site()).problem();
  EXPECT_NE(problem.find("?[2Jgone"), std::string::npos) << problem;
}

TEST(TuningTable, AStaleFileIsNotUsedAndSaysWhatDiffers) {
  struct Change {
    const char* field;
    void (*apply)(TuningSite&);
    const char* words;
  };
  const Change changes[] = {
      {"driver", [](TuningSite& site) { site.driver = "CUDA 13.1"; },
       "it was made with driver CUDA 13.0, and this is CUDA 13.1"},
      {"kernels", [](TuningSite& site) { site.kernel_version = "abd"; },
       "it was made with kernels abc, and these are abd"},
      {"device", [](TuningSite& site) { site.device = "NVIDIA H100"; },
       "it was made on NVIDIA H200 with 132 units, and this is NVIDIA H100 with 132"},
      {"units", [](TuningSite& site) { site.units = 66; },
       "it was made on NVIDIA H200 with 132 units, and this is NVIDIA H200 with 66"}};
  for (const Change& change : changes) {
    TuningSite here = test_site();
    change.apply(here);
    TuningTable table(whole_file(), "t.json", here);
    EXPECT_EQ(table.problem(), std::string("tuning file t.json is not used: ") + change.words);
    EXPECT_FALSE(table.find(test_shape(), 64).tactic) << change.field;
    EXPECT_EQ(table.report().at(0), table.problem() + "; defaults are taken for all 1 keys");
  }
}

TEST(TuningTable, AMissingFileFallsBackAloud) {
  TuningTable table = TuningTable::load("/nonexistent/t.json", test_site());
  EXPECT_FALSE(table.find(test_shape(), 64).tactic);
  EXPECT_EQ(table.report().at(0),
            "no tuning: there is no tuning file /nonexistent/t.json; nibble tune --output writes "
            "one; defaults are taken for all 1 keys");
}

TEST(TuningKeys, RangesDoNotMeetAndReachAQuarterDown) {
  const std::vector<TuningKey> keys = keys_of(test_shape(), {64, 1, 8, 8});
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].tokens, 1);
  EXPECT_EQ(keys[0].from_tokens, 1);
  EXPECT_EQ(keys[1].tokens, 8);
  EXPECT_EQ(keys[1].from_tokens, 3);
  EXPECT_EQ(keys[2].tokens, 64);
  EXPECT_EQ(keys[2].from_tokens, 17);
}

TEST(Audit, NamesWhatAModelNeedsAndTheFileLacks) {
  const TuningFile file = whole_file();
  TuningShape other = test_shape();
  other.op = "moe.gate_up";
  const std::vector<TuningKey> needed = {
      {test_shape(), 64, 33}, {test_shape(), 128, 65}, {other, 64, 33}};
  const Audit audit = audit_tuning(file, needed);
  ASSERT_EQ(audit.lines.size(), 1U);
  EXPECT_TRUE(audit.lines[0].needed);
  EXPECT_EQ(audit.needed, 1U);
  EXPECT_EQ(audit.kept_defaults, 0U);
  EXPECT_EQ(audit.largest_regret, 0.25);
  ASSERT_EQ(audit.missing.size(), 2U);
  EXPECT_EQ(audit.missing[0].why, "the file ends at 64 tokens, default taken");
  EXPECT_EQ(audit.missing[1].why, "not in the file, default taken");
}

// Two keys of another model: neither kept defaults nor a regret of this one's.
TEST(Audit, CountsWhatIsNeededAlone) {
  TuningFile file = whole_file();
  file.put({.key = test_key(4), .fallback = W4A16Tactic{}, .note = "no correct kernel: ..."});
  TuningShape other = test_shape();
  other.n = 2048;
  const Audit audit = audit_tuning(file, {{other, 64, 33}});
  EXPECT_EQ(audit.lines.size(), 2U);
  EXPECT_EQ(audit.needed, 0U);
  EXPECT_EQ(audit.kept_defaults, 0U);
  EXPECT_EQ(audit.without_choice, 0U);
  EXPECT_EQ(audit.largest_regret, 0);
  EXPECT_EQ(audit.missing.size(), 1U);
  EXPECT_EQ(to_json(audit).find("needed")->as_integer(), 0);
}

// What the audit's reader is to find of each key.
TEST(Audit, ItsDocumentHasTheChoiceAndAllThatSpeaksForAndAgainstIt) {
  TuningFile file = whole_file();
  file.put({.key = test_key(1), .choice = W4A16Tactic{}, .fallback = W4A16Tactic{}});
  file.put({.key = test_key(4), .fallback = W4A16Tactic{}, .note = "no correct kernel: ..."});
  const Json json = to_json(audit_tuning(file, {}));
  EXPECT_EQ(json.find("kept_defaults")->as_integer(), 1);
  EXPECT_EQ(json.find("without_choice")->as_integer(), 1);
  EXPECT_EQ(json.find("largest_regret")->as_number(), 0.25);
  const Json& entry = json.find("entries")->as_array()[0];
  EXPECT_EQ(entry.find("choice_text")->as_string(), to_string(AnyTactic(wide_tactic())));
  EXPECT_EQ(entry.find("default_text")->as_string(), to_string(AnyTactic(W4A16Tactic{})));
  EXPECT_EQ(parse_tactic(*entry.find("runner_up"), "moe.down", "t").value(),
            AnyTactic(W4A16Tactic{}));
  EXPECT_EQ(entry.find("regret_of_default")->as_number(), 0.25);
  EXPECT_EQ(entry.find("gain")->as_number(), 0.2);
  ASSERT_EQ(entry.find("ties")->as_array().size(), 1U);
  EXPECT_EQ(entry.find("ties")->as_array()[0].as_string(),
            to_string(AnyTactic(W4A16Tactic{.stages = 5})));
  ASSERT_EQ(entry.find("rejected")->as_array().size(), 1U);
  EXPECT_EQ(entry.find("rejected")->as_array()[0].find("why")->as_string(), "NaN");
  EXPECT_EQ(entry.find("infeasible")->as_array()[0].find("why")->as_string(), "102400 bytes");
  const Json& without = json.find("entries")->as_array()[2];
  EXPECT_TRUE(without.find("choice")->is_null());
  EXPECT_EQ(without.find("note")->as_string(), "no correct kernel: ...");
}

TEST(TuningStore, NamesItsFileByTheDevice) {
  const ScopedEnvironment cache("XDG_CACHE_HOME", "/somewhere");
  EXPECT_EQ(default_tuning_path({.device = "NVIDIA RTX PRO 6000 (Blackwell)", .units = 188}),
            "/somewhere/nibble/tuning/nvidia-rtx-pro-6000-blackwell-188.json");
}

}  // namespace
}  // namespace nibble::tune
