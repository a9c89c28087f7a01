#include "machine/gpu_roofs.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble {
namespace {

constexpr double kTakenAt = 1.7e9;

GpuRoofs gpu_of_test(std::string title, std::string uuid) {
  GpuRoofs gpu{.title = std::move(title),
               .arch = "sm_90a",
               .uuid = std::move(uuid),
               .driver = "580.65",
               .sms = 132,
               .memory_bytes = 150e9,
               .l2_bytes = 62e6,
               .taken_unix_s = kTakenAt};
  gpu.roofs["read_gb_s"] = {.value = 4700,
                            .passes = {4690, 4700, 4710},
                            .path = "bulk copies",
                            .conditions = {.clock_mhz = 1755,
                                           .power_w = 450.5,
                                           .temperature_c = 48,
                                           .throttled = {"power cap"},
                                           .samples = 9}};
  gpu.roofs["bf16_tflops"] = {.value = 774, .passes = {774}, .path = "cuBLASLt 13.0.2"};
  gpu.roofs["fp8_tflops"] = {.reason = "cuBLASLt is not there"};
  gpu.roofs["graph_gap_us"] = {.value = 1.25, .passes = {1.25}, .path = "50 empty kernels"};
  return gpu;
}

class GpuRoofCache : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(keep_gpu_roofs(path_, gpu_of_test("NVIDIA H200", "GPU-1")).ok());
  }
  FoundGpuRoofs find(double later_s = 0) const {
    return find_gpu_roofs(path_, "NVIDIA H200", kTakenAt + later_s);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "deep" / "gpu_roofs.json";
};

TEST_F(GpuRoofCache, GivesBackWhatWasKept) {
  const FoundGpuRoofs found = find(3 * 3600);
  ASSERT_TRUE(found.roofs.has_value()) << found.note;
  EXPECT_EQ(found.note,
            "measured 3 h ago at 1755 MHz; nibble bench roof --on cuda:0 measures again");
  EXPECT_EQ(found.roofs->sms, 132);
  EXPECT_EQ(found.roofs->value("read_gb_s"), 4700);
  EXPECT_EQ(found.roofs->value("fp8_tflops"), std::nullopt);
  EXPECT_EQ(found.roofs->roofs.at("fp8_tflops").reason, "cuBLASLt is not there");
  const GpuRoof& read = found.roofs->roofs.at("read_gb_s");
  EXPECT_EQ(read.passes, (std::vector<double>{4690, 4700, 4710}));
  EXPECT_EQ(read.conditions.power_w, 450.5);
  EXPECT_EQ(read.conditions.throttled, std::vector<std::string>{"power cap"});
}

TEST_F(GpuRoofCache, OtherGpusStay) {
  ASSERT_TRUE(keep_gpu_roofs(path_, gpu_of_test("NVIDIA A100", "GPU-2")).ok());
  GpuRoofs again = gpu_of_test("NVIDIA H200", "GPU-1");
  again.roofs["read_gb_s"].value = 4600;
  ASSERT_TRUE(keep_gpu_roofs(path_, again).ok());
  EXPECT_EQ(find().roofs->value("read_gb_s"), 4600);
  EXPECT_TRUE(find_gpu_roofs(path_, "NVIDIA A100", kTakenAt).roofs.has_value());
  EXPECT_NE(find_gpu_roofs(path_, "NVIDIA B200", kTakenAt).note.find("no roofs of a NVIDIA B200"),
            std::string::npos);
}

TEST_F(GpuRoofCache, OldOrBrokenFilesAreNotes) {
  EXPECT_FALSE(find(8 * 24 * 3600).roofs.has_value());
  EXPECT_FALSE(find(-60).roofs.has_value());
  for (const char* text :
       {"{", "[]", R"({"schema":"nibble.roofs/1"})", R"({"schema":"nibble.gpu_roofs/1"})",
        R"({"schema":"nibble.gpu_roofs/1","version":"0.1.0","gpus":[{"title":1}]})"}) {
    ASSERT_TRUE(write_file(path_, text).ok());
    const FoundGpuRoofs found = find();
    EXPECT_FALSE(found.roofs.has_value()) << text;
    EXPECT_NE(found.note.find("no use"), std::string::npos) << found.note;
  }
}

TEST_F(GpuRoofCache, MachinesTakeThem) {
  MachineSpec machine = *load_machine("h200");
  const double fp8 = machine.peak(Precision::kFp8)->dense_tflops.value;
  apply_gpu_roofs(find(), machine);
  EXPECT_EQ(machine.bandwidth_gb_s.value, 4700);
  EXPECT_EQ(machine.bandwidth_gb_s.provenance, Provenance::kMeasured);
  EXPECT_EQ(machine.peak(Precision::kBf16)->dense_tflops.value, 774);
  EXPECT_EQ(machine.peak(Precision::kFp8)->dense_tflops.value, fp8);  // not measured
  EXPECT_EQ(machine.launch_gap_us->value, 1.25);
  const std::size_t notes = machine.notes.size();
  apply_gpu_roofs({.note = "none"}, machine);
  EXPECT_EQ(machine.notes.size(), notes);
}

// nvml.h: idle 1, application clocks 2, SW power cap 4, HW slowdown 8, SW thermal 0x20, HW power
// brake 0x80.
TEST(ThrottleNames, IdleAndSetClocksAreNone) {
  EXPECT_TRUE(throttle_names(0).empty());
  EXPECT_TRUE(throttle_names(3).empty());
  EXPECT_EQ(throttle_names(0x4 | 0x20),
            (std::vector<std::string>{"power cap", "software thermal"}));
}

}  // namespace
}  // namespace nibble
