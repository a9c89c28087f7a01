// What `nibble tune --audit` says of each key.
#include <gtest/gtest.h>

#include "cli/tune_report.h"

namespace nibble::cli {
namespace {

using tune::CpuTactic;
using tune::Standing;
using tune::TuningShape;

const TuningShape kShape{.op = "moe.down", .experts = 256, .top_k = 8, .n = 6144, .k = 256};

CpuTactic avx2(int threads) {
  return {.isa = Isa::kAvx2, .threads = threads};
}

// The default takes 100 us, the choice 80: a quarter longer, and a fifth saved.
tune::TuningFile audited_file() {
  tune::TuningFile file{
      .site = {
          .device = "Xeon", .units = 8, .driver = "none", .kernel_version = "nibble 0.1.0 avx2"}};
  tune::TuningEntry entry{.key = {kShape, 64, 17},
                          .choice = avx2(4),
                          .fallback = avx2(8),
                          .runner_up = avx2(2),
                          .gain = 0.2,
                          .regret = 0.25,
                          .rounds = 30};
  entry.times = {
      {avx2(4),
       {.median_us = 80,
        .rounds = 30,
        .ratio = 0.8,
        .ratio_interval = Interval{0.78, 0.82},
        .standing = Standing::kChosen}},
      {avx2(2), {.median_us = 81, .rounds = 30, .ratio = 0.81, .standing = Standing::kTied}},
      {avx2(8), {.median_us = 100, .rounds = 30, .standing = Standing::kSlower}}};
  entry.rejected = {{CpuTactic{.threads = 8}, "at 64 tokens: replay 37 of 50 gave other bits"}};
  entry.infeasible = {{CpuTactic{.isa = Isa::kAvx512, .threads = 8}, "it has not avx512"}};
  file.put(entry);
  file.put({.key = {kShape, 1, 1}, .choice = avx2(8), .fallback = avx2(8), .note = "untuned"});
  return file;
}

void expect_said(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

TEST(TuneText, SaysChoiceRunnerUpRegretTiesAndWhoWasRejectedAndWhy) {
  const tune::TuningFile file = audited_file();
  const std::string text =
      tune_text(file, tune::audit_tuning(file, {}), {.path = "cpu.json"}, Style{});
  expect_said(text, {"Xeon, 8 processors, driver none, kernels nibble 0.1.0 avx2", "cpu.json",
                     "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 64 tokens",
                     "default: cpu avx2 8 threads",
                     "choice: cpu avx2 4 threads, 0.800 of the default's time (0.780 to 0.820)",
                     "runner-up: cpu avx2 2 threads, 0.810 of the default's time",
                     "tied with the choice: cpu avx2 2 threads",
                     "rejected: cpu portable 8 threads: at 64 tokens: replay 37 of 50 gave other",
                     "1 tactics do not fit; the first, cpu avx512 8 threads: it has not avx512",
                     "1 of 2 keys keep the default; its largest regret is 25"});
}

TEST(TuneText, SaysWhatAModelNeedsAndTheFileLacks) {
  const tune::TuningFile file = audited_file();
  TuningShape other = kShape;
  other.k = 512;
  const std::string text = tune_text(
      file, tune::audit_tuning(file, {{kShape, 64, 17}, {kShape, 256, 65}, {other, 1, 1}}),
      {.path = "cpu.json"}, Style{});
  expect_said(text, {"missing: moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 256 tokens:",
                     "missing: moe.down 256 x [6144, 512] top 8 nvfp4 x bf16, 1 token:"});
  // The key that this model does not need has no part of its own, and is not counted.
  EXPECT_EQ(text.find("untuned"), std::string::npos) << text;
  expect_said(text, {"\n0 of 1 keys keep the default; its largest regret is 25",
                     "the file holds 1 more key, of other shapes"});
  const std::string none =
      tune_text(file, tune::audit_tuning(file, {{other, 1, 1}}), {.path = "cpu.json"}, Style{});
  expect_said(none, {"none of the file's keys is needed", "the file holds 2 more keys"});
  EXPECT_EQ(none.find("keep the default"), std::string::npos) << none;
}

// A file may come from anybody.
TEST(TuneText, ShowsNoControlCharacterOfAFile) {
  tune::TuningFile file = audited_file();
  file.site.device = "\x1b[2Jhacked";
  file.site.driver = "CUDA\x07";
  file.site.kernel_version = "\x1b]0;x";
  file.entries[0].note = "\x1b[31mred";
  file.entries[0].rejected[0].why = "\x1b[1m";
  file.entries[0].infeasible[0].why = "\x1b[2m";
  const std::string text =
      tune_text(file, tune::audit_tuning(file, {}), {.path = "cpu.json"}, Style{});
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
  expect_said(text, {"?[2Jhacked, 8 SMs, driver CUDA?", "?[31mred"});
}

}  // namespace
}  // namespace nibble::cli
