#include "bench/bench_file.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "bench/bench.h"

namespace nibble {
namespace {

// A document as the program writes it, but for version and command, which the command adds.
Json document_of_test() {
  BenchReport report;
  report.cpu.title = "A processor";
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    report.roofs.roofs.rates[precision] = {.value = 1};
  }
  BenchRow row{.shape = {.name = "moe.down",
                         .format = Format::kNvfp4,
                         .activations = Format::kInt8,
                         .experts = 8,
                         .top_k = 2,
                         .n = 64,
                         .k = 32},
               .tokens = 5,
               .threads = 2,
               .kernel = "a kernel"};
  row.time_us.values = {12.5};
  row.time_us.median = 12.5;
  report.rows.push_back(row);
  row.error = "wrong";
  report.rows.push_back(row);
  return to_json(report).set("version", "0.1.0");
}

class BenchFileTest : public testing::Test {
 protected:
  Result<BenchFile> read(const std::string& text) const {
    EXPECT_TRUE(write_file(path_, text).ok());
    return read_bench(path_.string());
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "bench.json";
};

TEST_F(BenchFileTest, ReadsBackWhatWasWritten) {
  const auto file = read(document_of_test().dump());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->machine, "A processor");
  EXPECT_EQ(file->version, "0.1.0");
  ASSERT_EQ(file->rows.size(), 2U);
  const BenchFileRow& row = file->rows.front();
  EXPECT_EQ(row.shape.name, "moe.down");
  EXPECT_EQ(row.shape.format, Format::kNvfp4);
  EXPECT_EQ(row.shape.activations, Format::kInt8);
  EXPECT_EQ(row.shape.experts, 8);
  EXPECT_EQ(row.shape.top_k, 2);
  EXPECT_EQ(row.shape.n, 64);
  EXPECT_EQ(row.shape.k, 32);
  EXPECT_EQ(row.shape.tokens, std::vector<std::int64_t>{5});
  EXPECT_EQ(row.threads, 2);
  EXPECT_TRUE(row.cold);
  EXPECT_EQ(row.time_us, 12.5);
  EXPECT_EQ(row.kernel, "a kernel");
  // A time beside an error cannot be right.
  EXPECT_FALSE(file->rows.back().time_us.has_value());
  EXPECT_EQ(file->rows.back().error, "wrong");
}

TEST_F(BenchFileTest, WhatIsNoBenchDocumentIsRefused) {
  const std::string good = document_of_test().dump();
  const auto with = [&good](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), good.substr(0, good.size() / 2),
        with("nibble.bench/1", "nibble.case/1"), with("\"nvfp4\"", "\"nvfp5\""),
        with("12.5", "-12.5"), with("\"tokens\": 5", "\"tokens\": 5.5"),
        with("\"rows\"", "\"rovs\"")}) {
    const auto file = read(text);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().kind, ErrorKind::kInput) << file.error().message;
  }
}

}  // namespace
}  // namespace nibble
