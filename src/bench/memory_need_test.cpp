#include "bench/memory_need.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(PackedBytes, CountsWholeTiles) {
  // 16 x 128 codes of half a byte, a scale for 16 of them, and a float for each row.
  EXPECT_EQ(packed_bytes(Format::kNvfp4, 1, 2), 1024 + 128 + 64);
  EXPECT_EQ(packed_bytes(Format::kBf16, 17, 128), 32 * 128 * 2 + 32 * 4);
}

TEST(LeastMemory, AddsExpertsOriginalsAndValues) {
  BenchShape shape{.experts = 8, .top_k = 2, .n = 16, .k = 128, .tokens = {1, 5}};
  // 8 packed, 4 as they were, 5 tokens of 128 and 10 outputs of 16 floats.
  EXPECT_EQ(least_memory_bytes(shape), 8 * 1216 + 4 * 1152 + 4 * (5 * 128 + 10 * 16));
  shape.experts = 1;
  shape.top_k = 1;
  EXPECT_EQ(least_memory_bytes(shape), 1216 + 1152 + 4 * (5 * 128 + 5 * 16));
}

TEST(CheckMemory, NamesTheShapeAndBothNumbers) {
  BenchShape shape{.experts = 1, .top_k = 1, .n = 1'000'000, .k = 1'000'000, .tokens = {1}};
  const Result<> refused = check_memory(shape, 16e9);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  for (const char* part : {"gemm", "[1000000, 1000000]", "1.125 TB", "16.00 GB", "--n"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  shape.where = "a.json: shapes[1]";
  EXPECT_TRUE(check_memory(shape, 16e9).error().message.starts_with("a.json: shapes[1]: "));
  EXPECT_TRUE(check_memory(shape, 2e12).ok());
}

}  // namespace
}  // namespace nibble
