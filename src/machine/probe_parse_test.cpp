#include "machine/probe_parse.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(ParseCpuinfo, ReadsTheFirstProcessor) {
  const CpuInfo info = parse_cpuinfo(
      "processor\t: 0\n"
      "vendor_id\t: GenuineIntel\n"
      "model name\t: Intel(R) Xeon(R) Platinum 8480C\n"
      "flags\t\t: fpu avx2 fma f16c avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile hypervisor\n"
      "\n"
      "processor\t: 1\n"
      "model name\t: another\n");
  EXPECT_EQ(info.title, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(info.isa, (std::vector<std::string>{"avx2", "fma", "f16c", "avx512f", "avx512_vnni",
                                                "avx512_bf16", "amx_tile", "amx_bf16"}));
}

TEST(ParseCpuinfo, ReadsArmAndSurvivesNonsense) {
  const CpuInfo arm = parse_cpuinfo("processor : 0\nFeatures : fp asimd asimddp sve\n");
  EXPECT_EQ(arm.title, "");
  EXPECT_EQ(arm.isa, (std::vector<std::string>{"asimd", "asimddp", "sve"}));
  for (const char* text : {"", "\n\n", "flags", "flags:", "no colon here\nmodel name"}) {
    EXPECT_TRUE(parse_cpuinfo(text).isa.empty()) << text;
    EXPECT_TRUE(parse_cpuinfo(text).title.empty()) << text;
  }
}

// A flag must be a whole word: "avx2" is not in "avx2x".
TEST(ParseCpuinfo, FlagsAreWholeWords) {
  EXPECT_TRUE(parse_cpuinfo("flags : avx2x xfma avx512foo\n").isa.empty());
}

TEST(Meminfo, CountsInKib) {
  const char* text = "MemTotal:       24684092 kB\nMemFree:  100 kB\nHugePages_Total:       3\n";
  EXPECT_EQ(meminfo_bytes(text, "MemTotal"), 24684092.0 * 1024);
  EXPECT_EQ(meminfo_bytes(text, "MemFree"), 102400.0);
  EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes(text, "HugePages_Total"), std::nullopt);  // a count, no size
  EXPECT_EQ(meminfo_bytes("MemTotal: lots kB\n", "MemTotal"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("", "MemTotal"), std::nullopt);
}

TEST(CacheBytes, ReadsTheKernelsSpelling) {
  EXPECT_EQ(cache_bytes("32768K\n"), 33554432.0);
  EXPECT_EQ(cache_bytes("2M"), 2097152.0);
  EXPECT_EQ(cache_bytes("3"), 3.0);
  EXPECT_EQ(cache_bytes("max\n"), std::nullopt);
  EXPECT_EQ(cache_bytes(""), std::nullopt);
  EXPECT_EQ(cache_bytes("12 apples"), std::nullopt);
  EXPECT_EQ(cache_bytes("-1"), std::nullopt);
}

TEST(AdminOnlyCounters, ReadsTheDriversParameters) {
  EXPECT_EQ(admin_only_counters("Foo: 3\nRmProfilingAdminOnly: 1\nBar: 0\n"), 1);
  EXPECT_EQ(admin_only_counters("RmProfilingAdminOnly: 0\n"), 0);
  EXPECT_EQ(admin_only_counters("RmProfilingAdminOnlyX: 0\n"), std::nullopt);
  EXPECT_EQ(admin_only_counters(""), std::nullopt);
}

TEST(Versions, AreSpelledAsTheMakersDo) {
  EXPECT_EQ(cuda_version_text(13000), "13.0");
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(cublaslt_version_text(130100), "13.1.0");
  EXPECT_EQ(cublaslt_version_text(120805), "12.8.5");
}

TEST(ArchOfCapability, IsTheCompilersName) {
  EXPECT_EQ(arch_of_capability(9, 0), "sm_90");
  EXPECT_EQ(arch_of_capability(10, 3), "sm_103");
  EXPECT_EQ(arch_of_capability(12, 1), "sm_121");
}

// What an eight-GPU H200 server reports for its first GPU.
GpuReading h200_reading() {
  GpuReading reading;
  reading.title = "NVIDIA H200";
  reading.memory_bytes = 150754820096.0;
  reading.power_limit_w = 650;
  reading.max_sm_mhz = 1980;
  reading.pcie_generation = 5;
  reading.pcie_width = 16;
  reading.capability_major = 9;
  reading.capability_minor = 0;
  reading.gpm = true;
  return reading;
}

TEST(GpuStatus, SaysWhatNvmlSaid) {
  const GpuStatus status = gpu_status(3, h200_reading());
  EXPECT_EQ(status.index, 3);
  EXPECT_EQ(status.title, "NVIDIA H200");
  EXPECT_EQ(status.catalog_name, "h200");
  EXPECT_EQ(status.arch, "sm_90");
  EXPECT_DOUBLE_EQ(status.memory_gb, 150.754820096);
  EXPECT_EQ(status.power_limit_w, 650);
  EXPECT_EQ(status.pcie, "gen 5 x16");
  EXPECT_TRUE(status.gpm);
}

TEST(GpuStatus, LeavesOutWhatNvmlDidNotSay) {
  GpuReading reading;
  reading.title = "NVIDIA Something";
  reading.pcie_generation = 4;  // a width without a generation, or the reverse, is no link
  reading.missing = {"power limit: Not Supported"};
  const GpuStatus status = gpu_status(0, reading);
  EXPECT_EQ(status.catalog_name, "");
  EXPECT_EQ(status.arch, "");
  EXPECT_EQ(status.pcie, "");
  EXPECT_FALSE(status.power_limit_w);
  EXPECT_EQ(status.missing, reading.missing);
}

TEST(MachineOfGpu, IsTheCatalogsEntryWithWhatNvmlMeasured) {
  const Result<MachineSpec> machine = machine_of_gpu(h200_reading());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->name, "h200");
  EXPECT_EQ(machine->bandwidth_gb_s.value, 4800);  // NVML measures no bandwidth
  EXPECT_DOUBLE_EQ(machine->memory_gb.value, 150.754820096);
  EXPECT_EQ(machine->memory_gb.provenance, Provenance::kMeasured);
  EXPECT_EQ(machine->memory_gb.source, "NVML");
  EXPECT_EQ(machine->power.limit_w->value, 650);
  EXPECT_EQ(machine->clock_mhz->value, 1980);
}

TEST(MachineOfGpu, KeepsTheCatalogsNumberWhereNvmlIsSilent) {
  GpuReading reading;
  reading.title = "NVIDIA GB10";
  const Result<MachineSpec> machine = machine_of_gpu(reading);
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->memory_gb.value, 128);
  EXPECT_EQ(machine->memory_gb.provenance, Provenance::kDatasheet);
}

TEST(MachineOfGpu, AGpuThatTheCatalogLacksIsASentence) {
  GpuReading reading;
  reading.title = "NVIDIA H200 NVL";
  const Result<MachineSpec> machine = machine_of_gpu(reading);
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.error().kind, ErrorKind::kInput);
  EXPECT_NE(machine.error().message.find("this machine's GPU \"NVIDIA H200 NVL\" is not in the "
                                         "catalog; give --machine a JSON file with its numbers"),
            std::string::npos);
  EXPECT_NE(machine.error().message.find("h200"), std::string::npos) << machine.error().message;
}

TEST(CpuInfoClock, IsTheFastestListed) {
  EXPECT_EQ(cpuinfo_mhz("cpu MHz\t\t: 2450.000\nx: 1\ncpu MHz\t\t: 3193.5\n"), 3193.5);
  EXPECT_EQ(cpuinfo_mhz("processor : 0\n"), std::nullopt);
  EXPECT_EQ(cpuinfo_mhz("cpu MHz : unknown\n"), std::nullopt);
}

}  // namespace
}  // namespace nibble
