#include "bench/shapes_file.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble {
namespace {

constexpr const char* kGood = R"({"schema": "nibble.shapes/1", "seed": 1, "how": "by hand",
  "shapes": [{"format": "nvfp4", "activations": "int8", "experts": 8, "top_k": 2, "n": 64, "k": 128,
              "tokens": 3},
             {"kind": "moe", "format": "mxfp4", "activations": "bf16", "experts": 4, "top_k": 4,
              "n": 64, "k": 128, "tokens": 1}]})";

class ShapesFile : public testing::Test {
 protected:
  Result<std::vector<BenchShape>> read(const std::string& text) const {
    EXPECT_TRUE(write_file(path_, text).ok());
    return read_shapes(path_.string());
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "shapes.json";
};

TEST_F(ShapesFile, IsRead) {
  const auto shapes = read(kGood);
  ASSERT_TRUE(shapes.ok()) << shapes.error().message;
  ASSERT_EQ(shapes->size(), 2U);
  const BenchShape& first = shapes->front();
  EXPECT_EQ(first.op, BenchOp::kGemm);
  EXPECT_EQ(first.format, Format::kNvfp4);
  EXPECT_EQ(first.activations, Format::kInt8);
  EXPECT_EQ(first.experts, 8);
  EXPECT_EQ(first.top_k, 2);
  EXPECT_EQ(first.n, 64);
  EXPECT_EQ(first.k, 128);
  EXPECT_EQ(first.tokens, std::vector<std::int64_t>{3});
  EXPECT_NE(first.where.find("shapes.json: shapes[0]"), std::string::npos);
  EXPECT_EQ(shapes->back().op, BenchOp::kMoe);
}

TEST_F(ShapesFile, FaultsNameTheirPlace) {
  const std::string good = kGood;
  const auto with = [&good](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const auto& [from, to, part] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"nibble.shapes/1", "nibble.shapes/2", "schema"},
           {"\"nvfp4\"", "\"nvfp5\"", "shapes[0]"},
           {"\"top_k\": 2", "\"top_k\": 9", "top_k"},
           {"\"tokens\": 3", "\"tokens\": 0", "shapes[0]"},
           {"\"tokens\": 3", "\"tokens\": 3, \"colour\": 1", "colour"},
           {"\"k\": 128", "\"k\": 127", "even"},
           {"\"int8\"", "\"fp8\"", "shapes[0]: activations is fp8"},
           {"\"mxfp4\"", "\"int8\"", "shapes[1]: format is int8"},
           {"\"moe\"", "\"mow\"", "kind"},
           {"\"shapes\": [", "\"shapes\": [], \"how\": [", "how"}}) {
    const auto shapes = read(with(from, to));
    ASSERT_FALSE(shapes.ok()) << to;
    EXPECT_EQ(shapes.error().kind, ErrorKind::kInput);
    EXPECT_NE(shapes.error().message.find(part), std::string::npos) << shapes.error().message;
  }
  EXPECT_FALSE(read(R"({"schema": "nibble.shapes/1", "shapes": []})").ok());
  EXPECT_FALSE(read(R"({"schema": "nibble.shapes/1"})").ok());
  EXPECT_FALSE(read_shapes((folder_.path() / "none.json").string()).ok());
}

}  // namespace
}  // namespace nibble
