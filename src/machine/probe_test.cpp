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

TEST(MachineOfCpu, HasMeasuredRoofsThatSayHow) {
  const MachineSpec machine = machine_of_cpu(probe_cpu());
  EXPECT_TRUE(machine.is_cpu);
  EXPECT_EQ(machine.name, "this-cpu");
  EXPECT_EQ(machine.bandwidth_gb_s.provenance, Provenance::kMeasured);
  EXPECT_GT(machine.bandwidth_gb_s.value, 0.1);
  EXPECT_NE(machine.bandwidth_gb_s.source.find("threads read a buffer of"), std::string::npos);
  EXPECT_NE(machine.bandwidth_gb_s.source.find("median of 15 passes"), std::string::npos);
  ASSERT_NE(machine.peak(Precision::kFp32), nullptr);
  EXPECT_EQ(machine.peak(Precision::kFp32)->dense_tflops.provenance, Provenance::kMeasured);
  EXPECT_EQ(machine.peak(Precision::kBf16), nullptr);              // not measured, so not claimed
  EXPECT_TRUE(parse_machine(to_json(machine), "this.json").ok());  // a file of it can be kept
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
