#include "machine/probe.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>

#include "machine/nvml.h"
#include "machine/probe_parse.h"

namespace nibble {
namespace {

TEST(ProbeLibraries, EveryLibrarySaysWhatItGivesAndIsFoundOrHasAReason) {
  const std::vector<LibraryStatus> libraries = probe_libraries();
  std::vector<std::string> names;
  for (const LibraryStatus& library : libraries) {
    names.push_back(library.name);
    EXPECT_FALSE(library.gives.empty()) << library.name;
    EXPECT_TRUE(library.found() || !library.reason.empty()) << library.name;
    const bool works = library.found() && library.reason.empty();
    EXPECT_TRUE(!works || !library.version.empty()) << library.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"NVML", "CUDA driver", "NVRTC", "NCCL", "cuBLASLt",
                                             "CUPTI"}));
}

TEST(ProbeThisMachine, HasACpuAndEitherGpusOrAReason) {
  const Probe probe = probe_this_machine();
  EXPECT_FALSE(probe.cpu.title.empty());
  EXPECT_GE(probe.cpu.cores, 1);
  EXPECT_LE(probe.cpu.cores, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(probe.cpu.memory_gb, 0.1);
  EXPECT_NE(probe.gpus.empty(), probe.no_gpu_reason.empty());
  ASSERT_EQ(probe.permissions.size(), 3U);
  for (const PermissionStatus& permission : probe.permissions) {
    EXPECT_FALSE(permission.name.empty());
    EXPECT_FALSE(permission.detail.empty()) << permission.name;
  }
}

// taskset -c 0 must leave one core: the probe counts what the process may use.
TEST(ProbeCpu, CountsTheProcessorsOfThisProcessOnly) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const CpuStatus cpu = probe_cpu();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(cpu.cores, 1);
  EXPECT_EQ(probe_cpu().cores, CPU_COUNT(&before));
}

CpuRoofs roofs_of_test() {
  CpuRoofs roofs{.threads = 4, .buffer_bytes = 256e6};
  roofs.read = {.value = 30.5, .passes = std::vector<double>(15, 30.5), .path = "4 streams"};
  roofs.rates[Precision::kFp32] = {.value = 0.2, .passes = {0.2}, .path = "vfmadd231ps"};
  roofs.rates[Precision::kBf16] = {.value = 0.3, .passes = {0.3}, .path = "vpmaddwd"};
  roofs.rates[Precision::kInt8] = {.value = 0.6, .passes = {0.6}, .path = "vpmaddubsw"};
  return roofs;
}

TEST(MachineOfCpu, HasMeasuredRoofsThatSayHow) {
  const MachineSpec machine = machine_of_cpu(probe_cpu(), roofs_of_test(), "measured 3 h ago");
  EXPECT_TRUE(machine.is_cpu);
  EXPECT_EQ(machine.name, "this-cpu");
  EXPECT_EQ(machine.bandwidth_gb_s.provenance, Provenance::kMeasured);
  EXPECT_EQ(machine.bandwidth_gb_s.value, 30.5);
  EXPECT_EQ(machine.bandwidth_gb_s.source,
            "measured here: 4 threads read a buffer of 256.0 MB (4 streams), median of 15 passes");
  for (const auto& [precision, rate] :
       {std::pair{Precision::kFp32, 0.2}, {Precision::kBf16, 0.3}, {Precision::kInt8, 0.6}}) {
    ASSERT_NE(machine.peak(precision), nullptr);
    EXPECT_EQ(machine.peak(precision)->dense_tflops.value, rate);
    EXPECT_EQ(machine.peak(precision)->dense_tflops.provenance, Provenance::kMeasured);
  }
  EXPECT_NE(machine.notes.front().find("measured 3 h ago"), std::string::npos);
  EXPECT_TRUE(parse_machine(to_json(machine), "this.json").ok());  // a file of it can be kept
}

// 4-bit codes are multiplied as 8-bit integers; beside 16-bit activations they are widened.
TEST(MachineOfCpu, HoldsEachPairAgainstItsOwnRate) {
  const MachineSpec machine = machine_of_cpu(probe_cpu(), roofs_of_test(), "");
  EXPECT_EQ(compute_precision(machine, Format::kNvfp4, Format::kBf16), Precision::kBf16);
  EXPECT_EQ(compute_precision(machine, Format::kNvfp4, Format::kInt8), Precision::kInt8);
  EXPECT_EQ(compute_precision(machine, Format::kNvfp4, Format::kNvfp4), Precision::kInt8);
  EXPECT_EQ(compute_precision(machine, Format::kMxfp4, Format::kInt8), Precision::kInt8);
  EXPECT_EQ(compute_precision(machine, Format::kBf16, Format::kInt8), Precision::kBf16);
  EXPECT_TRUE(multiplies_as_is(machine, Format::kNvfp4, Format::kInt8));
  EXPECT_FALSE(multiplies_as_is(machine, Format::kFp8, Format::kFp8));
  EXPECT_EQ(widening_note(machine, Format::kNvfp4, Format::kInt8), "");
}

TEST(ThisMachine, IsWhatLoadMachineCallsThis) {
  const Result<MachineSpec> machine = load_machine("this");
  const Nvml nvml = Nvml::open();
  if (nvml.ready() && nvml.device_count() > 0) {
    const GpuReading reading = nvml.read(0);
    EXPECT_EQ(machine.ok(), find_in_catalog(reading.title).has_value());
    return;
  }
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_TRUE(machine->is_cpu);
}

TEST(Nvml, IsReadyOrSaysWhyNot) {
  const Nvml nvml = Nvml::open();
  EXPECT_EQ(nvml.ready(), nvml.reason().empty());
  if (!nvml.ready()) {
    EXPECT_EQ(nvml.device_count(), 0);
    EXPECT_EQ(nvml.driver_version(), "");
    EXPECT_FALSE(nvml.read(0).missing.empty());  // asked all the same, it says that it cannot
    GTEST_SKIP() << "no NVML here: " << nvml.reason();
  }
  ASSERT_GT(nvml.device_count(), 0);
  const GpuReading reading = nvml.read(0);
  EXPECT_FALSE(reading.title.empty());
  EXPECT_GT(reading.memory_bytes.value_or(0), 1e9);
  EXPECT_FALSE(nvml.read(nvml.device_count()).missing.empty());  // one past the last
}

}  // namespace
}  // namespace nibble
