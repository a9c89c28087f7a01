// W4A4 in the bench: its arithmetic by hand, its floors, its refusals; on a GPU without the FP4
// instruction the refusal to time, and the checks through the software body.
#include <gtest/gtest.h>

#include "bench/cuda_bench.h"
#include "bench/cuda_compile.h"
#include "bench/cuda_measure.h"
#include "bench/cuda_w4a4_check.h"
#include "bench/cuda_w4a4_rig.h"
#include "kernels/device/test_gpu.h"

namespace nibble {
namespace {

constexpr std::int64_t kSide = 32;

// All weights are 1 x factor.
struct Ones {
  std::vector<std::uint8_t> codes, scales;
  QuantizedMatrix view;

  Ones(Format format, std::int64_t rows, std::vector<float> factors)
      : codes(static_cast<std::size_t>(rows * kSide / 2), 0x22),
        scales(static_cast<std::size_t>(rows * kSide / (format == Format::kMxfp4 ? 32 : 16)),
               format == Format::kMxfp4 ? 0x7f : 0x38),
        view{.format = format, .rows = rows, .columns = kSide} {
    std::int64_t begin = 0;
    for (const float factor : factors) {
      view.segments.push_back({.row_begin = begin, .factor = factor});
      begin += rows / static_cast<std::int64_t>(factors.size());
    }
    view.codes = codes;
    view.scales = scales;
  }
};

// x = 1 is exact in either format. Gate is 32 / 32 = 1 and up 32 / 16 = 2; silu(1) x 2 =
// 1.4621172, in bf16 187 / 128 = 1.4609375. NVFP4 gives a row of equal values back; MXFP4 has the
// scale 2^-2 and the code 6 for 5.84: 1.5. Down adds up 32 of them, each times 1 / 32.
TEST(CudaW4A4Check, OneExpertByHand) {
  for (const auto& [format, wanted] :
       {std::pair{Format::kNvfp4, 1.4609375}, std::pair{Format::kMxfp4, 1.5}}) {
    const Ones gate_up(format, 2 * kSide, {1.0F / 32, 1.0F / 16});
    const Ones down(format, kSide, {1.0F / 32});
    const std::vector<float> x(kSide, 1);
    const std::vector<double> y = w4a4_expert_reference({.format = format,
                                                         .hidden = kSide,
                                                         .intermediate = kSide,
                                                         .gate_up = gate_up.view,
                                                         .down = down.view,
                                                         .x = x});
    ASSERT_EQ(y.size(), static_cast<std::size_t>(kSide));
    for (const double value : y) EXPECT_NEAR(value, wanted, 1e-6) << to_string(format);
  }
}

BenchShape w4a4_layer() {
  return {.op = BenchOp::kMoe,
          .name = "moe",
          .activations = Format::kNvfp4,
          .experts = 16,
          .top_k = 4,
          .n = 256,
          .k = 512,
          .tokens = {1, 64}};
}

// 64 tokens of 512 values, 256 slots of 256. Codes and scales take 9/16 byte a value, other values
// two. Gate and up read 64 x 288 and write 256 x 512; down reads 256 x 144 and writes 256 x 1024;
// the layer reads and writes 64 x 1024, and what is between twice: 256 x (144 + 1024).
TEST(CudaW4A4Bench, BytesOfFourBitActivations) {
  const ExpertCounts counts{
      .tokens = std::vector<std::int64_t>(16, 16), .slots = 256, .distinct = 16, .most = 16};
  const BenchShape shape = w4a4_layer();
  EXPECT_EQ(part_work(shape, ProductPart::kGateUp, 64, counts).activation_bytes, 18432 + 131072);
  EXPECT_EQ(part_work(shape, ProductPart::kDown, 64, counts).activation_bytes, 36864 + 262144);
  EXPECT_EQ(moe_work(shape, 64, counts).activation_bytes, 2 * (65536 + 299008));
  const BenchShape dense{.activations = Format::kNvfp4, .n = 128, .k = 64};
  EXPECT_EQ(dense_work(dense, 3).activation_bytes, 3 * (36 + 256));
}

// Without an FP4 rate there is no compute floor: bf16's would be above the time of a good kernel.
TEST(CudaW4A4Bench, TheFloorTakesNoOtherRate) {
  GpuRoofs roofs;
  roofs.roofs["bf16_tflops"] = {.value = 400, .passes = {400}, .path = "cuBLASLt"};
  EXPECT_EQ(roofs_for(roofs, Precision::kFp4).matrix_tflops, 0);
  EXPECT_EQ(roofs_for(roofs, Precision::kBf16).matrix_tflops, 400);
  roofs.roofs["fp4_tflops"] = {.value = 1600, .passes = {1600}, .path = "cuBLASLt"};
  EXPECT_EQ(roofs_for(roofs, Precision::kFp4).matrix_tflops, 1600);
  CudaRow row{.on = "cuda:0", .part = "dense"};
  row.row.shape = {.activations = Format::kNvfp4, .n = 64, .k = 64};
  const CudaWork work{.weight_bytes = 4e6, .flop = 1e9};
  const CudaRoofsNow now{.read_gb_s = 1000};
  const std::vector<CudaRun> runs(12, {.us = 10, .work = work, .floor = floor_of(work, now)});
  set_runs(row, runs, summarize(std::vector<double>(12, 10), 0.95), now);
  const Json json = to_json(row);
  EXPECT_EQ(*json.find("floor_us"), Json(4.0));
  for (const char* key : {"compute_us", "roof_tops", "bound_by"}) {
    EXPECT_TRUE(json.find(key)->is_null()) << key;
  }
}

std::string w4a4_refusal(const BenchShape& shape) {
  const Result<> taken = check_cuda_shape(shape);
  return taken.ok() ? "" : taken.error().message;
}

TEST(CudaW4A4Bench, ShapesThatTheKernelsDoNotTake) {
  BenchShape shape = w4a4_layer();
  EXPECT_EQ(w4a4_refusal(shape), "");
  shape.k = 520;
  EXPECT_NE(w4a4_refusal(shape).find("520 columns are not whole blocks of 16"), std::string::npos);
  shape.k = 512;
  shape.n = 248;  // columns of down
  EXPECT_NE(w4a4_refusal(shape).find("248 columns are not whole blocks of 16"), std::string::npos);
  shape.n = 256;
  shape.activations = Format::kMxfp4;
  EXPECT_NE(w4a4_refusal(shape).find("mxfp4 activations want mxfp4 weights"), std::string::npos);
  shape.format = Format::kMxfp4;
  EXPECT_EQ(w4a4_refusal(shape), "");
  shape.n = 240;
  EXPECT_NE(w4a4_refusal(shape).find("240 columns are not whole blocks of 32"), std::string::npos);
  shape = {.activations = Format::kNvfp4, .n = 65, .k = 72};
  EXPECT_NE(w4a4_refusal(shape).find("72 columns are not whole blocks of 16"), std::string::npos);
  shape.k = 80;
  EXPECT_EQ(w4a4_refusal(shape), "");
  shape.where = "shapes.json: shapes[2]";
  shape.k = 72;
  EXPECT_EQ(w4a4_refusal(shape).find("shapes.json: shapes[2]"), 0U);
}

TEST(CudaW4A4Bench, WhichGpusAreTimed) {
  const auto why = [](const char* name, int major, int minor) {
    return why_w4a4_is_not_timed({.name = name, .major = major, .minor = minor});
  };
  EXPECT_EQ(why("NVIDIA RTX PRO 6000", 12, 0), "");
  EXPECT_EQ(why("NVIDIA GB10", 12, 1), "");
  // Of another family, whose FP4 instruction is not this one.
  EXPECT_NE(why("NVIDIA B200", 10, 0).find("(NVIDIA B200, sm_100a)"), std::string::npos);
  const std::string h200 = why("NVIDIA H200", 9, 0);
  for (const char* part :
       {"(NVIDIA H200, sm_90a)", "software body", "--activations bf16", "--check-only"}) {
    EXPECT_NE(h200.find(part), std::string::npos) << part;
  }
}

CudaBenchRequest small_w4a4() {
  CudaBenchRequest request{.row_seconds = 0.05, .roof_seconds = 0.02, .baselines = false};
  request.shapes = {
      w4a4_layer(),
      {.name = "moe.gate_up",
       .activations = Format::kNvfp4,
       .experts = 16,
       .top_k = 4,
       .n = 512,
       .k = 512,
       .tokens = {8}},
      {.name = "gemm", .activations = Format::kNvfp4, .n = 1024, .k = 1040, .tokens = {1, 33}},
      {.name = "gemm",
       .format = Format::kMxfp4,
       .activations = Format::kMxfp4,
       .n = 256,
       .k = 2880,
       .tokens = {5}}};
  return request;
}

// Without a GPU, before a run on one: what the tests below need is then compiled and kept.
TEST(CudaW4A4Bench, DISABLED_CompileForAnH200) {
  const Result<CompiledAhead> done = compile_ahead(small_w4a4(), "sm_90a", [](auto, double) {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_GT(done->programs, 10);
}

class CudaW4A4BenchOnGpu : public GpuTest {};

TEST_F(CudaW4A4BenchOnGpu, IsTimedWithTheInstructionAlone) {
  const std::string why = why_w4a4_is_not_timed(gpu().info());
  const Result<CudaBenchReport> report = run_cuda_bench(small_w4a4(), [](auto, double) {});
  if (!why.empty()) {
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().message, why);
    return;
  }
  ASSERT_TRUE(report.ok()) << report.error().message;
  for (const CudaRow& row : report->rows) EXPECT_TRUE(row.row.timed()) << row.row.error;
}

TEST_F(CudaW4A4BenchOnGpu, SmallShapesAreRight) {
  const bool software = !why_w4a4_is_not_timed(gpu().info()).empty();
  CudaBenchRequest checked = small_w4a4();
  checked.check_only = true;
  const Result<CudaBenchReport> report = run_cuda_bench(checked, [](auto, double) {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->rows.size(), 2 * 2 + 1 + 2 + 1U);
  for (const CudaRow& row : report->rows) {
    EXPECT_EQ(row.row.error, "") << row.row.shape.name << " " << row.row.tokens;
    EXPECT_FALSE(row.row.timed());
    EXPECT_EQ(row.row.kernel.find("software body") != std::string::npos, software);
    EXPECT_NE(row.tactic, "");
  }
}

}  // namespace
}  // namespace nibble
