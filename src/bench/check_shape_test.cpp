#include <gtest/gtest.h>

#include "bench/rig.h"

namespace nibble {
namespace {

BenchShape shape_of_test() {
  return {.experts = 8, .top_k = 2, .n = 32, .k = 64, .tokens = {1}};
}

std::string refusal(const BenchShape& shape) {
  const Result<> checked = check_shape(shape);
  return checked.ok() ? "" : checked.error().message;
}

TEST(CheckShape, BlamesTheNumberThatIsWrong) {
  EXPECT_EQ(refusal(shape_of_test()), "");
  BenchShape shape = shape_of_test();
  shape.n = 33;
  EXPECT_EQ(refusal(shape), "");  // a product may be of any height
  shape.op = BenchOp::kMoe;
  EXPECT_EQ(refusal(shape), "--n is 33; 4-bit weights need an even number");
  shape = shape_of_test();
  shape.k = 63;
  EXPECT_EQ(refusal(shape), "--k is 63; 4-bit weights need an even number");
  shape = shape_of_test();
  shape.top_k = 9;
  EXPECT_EQ(refusal(shape),
            "--top-k is 9, more than the 8 of --experts; a token meets an expert once");
  shape.where = "a.json: shapes[1]";
  EXPECT_TRUE(
      refusal(shape).starts_with("a.json: shapes[1]: top_k is 9, more than the 8 of experts"));
}

TEST(CheckShape, TakesTheFormatsOfTheKernels) {
  BenchShape shape = shape_of_test();
  shape.activations = Format::kFp8;
  EXPECT_EQ(refusal(shape), "--activations is fp8; the CPU kernels take bf16, int8, nvfp4");
  shape = shape_of_test();
  shape.format = Format::kInt8;
  EXPECT_EQ(refusal(shape), "--format is int8; the CPU kernels take nvfp4, mxfp4, bf16");
  shape.format = Format::kBf16;
  shape.activations = Format::kInt8;
  EXPECT_NE(refusal(shape).find("bf16 weights"), std::string::npos);
}

}  // namespace
}  // namespace nibble
