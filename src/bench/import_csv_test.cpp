#include "bench/import_csv.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

constexpr std::string_view kHeader =
    "routine,median_time,std_time,tflops,tb_per_sec,backend,resolved_backend,n,use_nvfp4,"
    "num_tokens,intermediate_size,num_experts,top_k,cutlass_variant,batch_size,hidden_size,m,k\n";

Result<Imported> imported(const std::string& rows) {
  return parse_flashinfer(std::string(kHeader) + rows, "results.csv");
}

std::string refusal(const std::string& rows) {
  const Result<Imported> result = imported(rows);
  return result.ok() ? "" : result.error().message;
}

TEST(ImportCsv, AProductOfFp4) {
  const Result<Imported> result =
      imported("mm_fp4,0.020,0.001,644.2,1.5,cudnn,,4096,True,,,,,,,,128,6144\n");
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->rows.size(), 1U);
  const CudaRow& row = result->rows.front();
  EXPECT_EQ(row.row.shape.op, BenchOp::kGemm);
  EXPECT_EQ(row.row.shape.format, Format::kNvfp4);
  EXPECT_EQ(row.row.shape.n, 4096);
  EXPECT_EQ(row.row.shape.k, 6144);
  EXPECT_EQ(row.row.tokens, 128);
  EXPECT_EQ(row.row.kernel, "flashinfer mm_fp4 cudnn");
  EXPECT_DOUBLE_EQ(row.row.time_us.median, 20);
  EXPECT_DOUBLE_EQ(*row.flop, 644.2e12 * 20e-6);
  EXPECT_DOUBLE_EQ(*row.bytes, 1.5e12 * 20e-6);
  const Json json = to_json(row);
  EXPECT_EQ(*json.find("time_us"), Json(20.0));
  EXPECT_TRUE(json.find("floor_us")->is_null());
  EXPECT_TRUE(json.find("roof_share")->is_null());
  EXPECT_NEAR(json.find("reached_tops")->as_number(), 644.2, 1e-9);
  EXPECT_NEAR(json.find("reached_gb_s")->as_number(), 1500, 1e-9);
}

TEST(ImportCsv, LayersAndTheirVariants) {
  const Result<Imported> result = imported(
      "cutlass_fused_moe,0.5,0,0,0,cutlass,,,,64,2048,256,8,nvfp4,,6144,,\n"
      "trtllm_fp8_block_scale_moe,0.7,0,0,0,trtllm,trtllm_v2,,,64,2048,256,8,,,6144,,\n"
      "mm_fp4,0.02,0,0,0,cutlass,,64,False,,,,,,,,8,64\n");
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->rows.size(), 3U);
  const BenchShape& layer = result->rows[0].row.shape;
  EXPECT_EQ(layer.op, BenchOp::kMoe);
  EXPECT_EQ(layer.format, Format::kNvfp4);
  EXPECT_EQ(layer.experts, 256);
  EXPECT_EQ(layer.top_k, 8);
  EXPECT_EQ(layer.k, 6144);
  EXPECT_EQ(layer.n, 2048);
  EXPECT_FALSE(result->rows[0].flop.has_value());  // 0 TFLOPS says nothing
  EXPECT_EQ(result->rows[1].row.shape.format, Format::kFp8);
  EXPECT_EQ(result->rows[1].row.kernel, "flashinfer trtllm_fp8_block_scale_moe trtllm_v2");
  EXPECT_EQ(result->rows[2].row.shape.format, Format::kMxfp4);
}

TEST(ImportCsv, BatchesAreMatricesOfTheirOwn) {
  const Result<Imported> result = imported("bmm_fp8,0.1,0,1,1,cublas,,64,,,,,,,16,,8,128\n");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->rows[0].row.shape.experts, 16);
  EXPECT_EQ(result->rows[0].row.tokens, 128);
}

TEST(ImportCsv, OtherRoutinesAreNoted) {
  const Result<Imported> result =
      imported("rmsnorm,0.1,0,1,1,cuda,,,,,,,,,8,64,,\nrmsnorm,0.1,0,1,1,cuda,,,,,,,,,8,64,,\n");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->rows.empty());
  ASSERT_EQ(result->notes.size(), 1U);
  EXPECT_EQ(result->notes.front(), "2 rows of rmsnorm left out: no product or layer of experts");
}

TEST(ImportCsv, ARowWithoutATimeIsNotTimed) {
  const Result<Imported> result = imported("mm_bf16,,,,,cublas,,64,,,,,,,,,8,64\n");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(result->rows[0].row.timed());
  EXPECT_EQ(result->rows[0].row.error, "the file has no time of it");
}

TEST(ImportCsv, MalformedFilesAreOneSentence) {
  EXPECT_NE(parse_flashinfer("", "x.csv").error().message.find("x.csv is empty"),
            std::string::npos);
  EXPECT_NE(parse_flashinfer("a,b\n1,2\n", "x.csv").error().message.find("no column \"routine\""),
            std::string::npos);
  EXPECT_EQ(refusal("mm_bf16,1\n"), "results.csv: row 1 has 2 cells, and the header 18");
  EXPECT_EQ(refusal("mm_bf16,fast,,,,cublas,,64,,,,,,,,,8,64\n"),
            "results.csv: row 1: median_time is \"fast\", which is no number");
  EXPECT_EQ(refusal("mm_bf16,1,,,,cublas,,64,,,,,,,,,,64\n"),
            "results.csv: row 1: m is missing, and mm_bf16 needs it");
  EXPECT_EQ(refusal("mm_bf16,1,,,,cublas,,64,,,,,,,,,8.5,64\n"),
            "results.csv: row 1: m is 8.5; it must be a whole number of at least 1");
  EXPECT_NE(refusal("mm_bf16,1,,,,cublas,,64,,,,,,,,,8,1e30\n").find("it must be from 0 to"),
            std::string::npos);
  EXPECT_NE(refusal("mm_bf16,-1,,,,cublas,,64,,,,,,,,,8,64\n").find("median_time is -1"),
            std::string::npos);
  EXPECT_NE(refusal("mm_bf16,1,inf,,,cublas,,64,,,,,,,,,inf,64\n").find("which is no number"),
            std::string::npos);
  EXPECT_EQ(refusal("cutlass_fused_moe,1,0,0,0,x,,,,64,64,4,8,,,64,,\n"),
            "results.csv: row 1: top_k is 8 of 4 experts; a token cannot meet one twice");
  EXPECT_EQ(refusal("\"mm_bf16,1\n"), "results.csv: the quote that line 2 opens never ends");
}

TEST(ImportCsv, QuotesCommasAndLineEnds) {
  const auto lines = parse_csv("a,\"b,\"\"c\"\"\",\r\n\n\"d\ne\",f", "x");
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ((*lines)[0], (std::vector<std::string>{"a", "b,\"c\"", ""}));
  EXPECT_EQ((*lines)[1], (std::vector<std::string>{"d\ne", "f"}));
}

}  // namespace
}  // namespace nibble
