#include "cli/load_outputs.h"

#include <gtest/gtest.h>
#include <limits>
#include <sys/stat.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  const auto text = read_file(path, 1 << 20);
  return text.ok() ? *text : text.error().message;
}

load::RunReport report_of(std::vector<load::LevelPlan> plans) {
  load::RunReport report;
  report.setup = {.date = "20261130-101500", .backend = "vllm", .model_id = "org/model-x"};
  for (const load::LevelPlan& plan : plans) {
    load::LevelResult level;
    level.report.plan = plan;
    report.levels.push_back(std::move(level));
  }
  return report;
}

// The names are those that `vllm bench serve --save-result` writes.
TEST(LoadOutputs, ResultFilesAreNamedAsVllmsAre) {
  load::RunReport report = report_of({{.max_concurrency = 8},
                                      {.request_rate = 4},
                                      {.max_concurrency = 16, .request_rate = 0.5},
                                      {.request_rate = std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(result_name(report, 0), "vllm-infqps-concurrency8-model-x-20261130-101500.json");
  EXPECT_EQ(result_name(report, 1), "vllm-4.0qps-model-x-20261130-101500.json");
  EXPECT_EQ(result_name(report, 2), "vllm-0.5qps-concurrency16-model-x-20261130-101500.json");
  EXPECT_EQ(result_name(report, 3), "vllm-infqps-model-x-20261130-101500.json");
  report.setup.label = "a/b\n";
  report.setup.model_id = "org/";
  EXPECT_EQ(result_name(report, 1), "a-b?-4.0qps-model-20261130-101500.json");
}

TEST(LoadOutputs, LinesAreAppendedWhole) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "lines.jsonl";
  ASSERT_TRUE(append_line(path, "one").ok());
  ASSERT_TRUE(append_line(path, "two").ok());
  EXPECT_EQ(content(path), "one\ntwo\n");
  // vLLM's benchmark leaves the last line without an end.
  ASSERT_TRUE(write_file(path, "{}").ok());
  ASSERT_TRUE(append_line(path, "three").ok());
  EXPECT_EQ(content(path), "{}\nthree\n");
}

TEST(LoadOutputs, AFullDiskIsAFailureOfTheRun) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Result<> full = append_line("/dev/full", "line");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::kRun);
  EXPECT_EQ(full.error().message, "cannot append to /dev/full: No space left on device");
}

TEST(LoadOutputs, FoldersAreTriedBeforeTheLoad) {
  const TemporaryFolder folder;
  const fs::path made = folder.path() / "a" / "b";
  ASSERT_TRUE(
      check_outputs({.save = true, .result_dir = made, .report = folder.path() / "r"}).ok());
  EXPECT_TRUE(fs::is_directory(made) && fs::is_empty(made));
  EXPECT_TRUE(fs::is_empty(folder.path() / "r"));
  const fs::path missing = folder.path() / "missing" / "file";
  const auto fault = [](const LoadOutputs& outputs) {
    const Result<> checked = check_outputs(outputs);
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(fault({.csv = missing}),
            "--csv: cannot write in the folder " + missing.parent_path().string() +
                ": No such file or directory; name one that you may write to");
  EXPECT_NE(fault({.output_file = missing}), "");
  EXPECT_NE(fault({.rows = missing}), "");
  EXPECT_NE(fault({.csv = folder.path()}), "");
  ASSERT_TRUE(write_file(folder.path() / "file", "").ok());
  EXPECT_NE(fault({.report = folder.path() / "file" / "r"}), "");
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(fault({.rows = pipe}), "--rows is the pipe " + pipe.string() + "; name a file");
  EXPECT_EQ(fault({.csv = "/dev/null", .rows = folder.path() / "rows"}), "");
}

TEST(LoadOutputs, TwoOutputsNeedTwoFiles) {
  const TemporaryFolder folder;
  const Result<> same =
      check_outputs({.csv = folder.path() / "x", .rows = folder.path() / "sub" / ".." / "x"});
  ASSERT_FALSE(same.ok());
  EXPECT_EQ(same.error().kind, ErrorKind::kInput);  // the folder sub is not there
  fs::create_directory(folder.path() / "sub");
  const Result<> again =
      check_outputs({.csv = folder.path() / "x", .rows = folder.path() / "sub" / ".." / "x"});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kUsage);
}

TEST(LoadOutputs, RowsLieBesideTheResultsAndGoAway) {
  const TemporaryFolder folder;
  fs::path path;
  {
    const auto rows = RowsFile::make({.csv = folder.path() / "x.csv"});
    ASSERT_TRUE(rows.ok());
    path = rows->path();
    EXPECT_EQ(path.parent_path(), folder.path());
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  {
    auto rows = RowsFile::make({.csv = folder.path() / "x.csv"});
    path = rows->path();
    rows->keep();
  }
  EXPECT_TRUE(fs::exists(path));
  const fs::path asked = folder.path() / "rows.jsonl";
  {
    ASSERT_TRUE(write_file(asked, "x").ok());
    const auto rows = RowsFile::make({.rows = asked});
    EXPECT_EQ(rows->path(), asked);
  }
  EXPECT_TRUE(fs::exists(asked));
}

}  // namespace
}  // namespace nibble::cli
