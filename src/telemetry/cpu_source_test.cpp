#include "telemetry/cpu_source.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStat =
    "cpu  300 0 100 500 50 10 10 30 20 0\n"
    "cpu0 200 0 50 200 20 5 5 20 20 0\n"
    "cpu1 100 0 50 300 30 5 5 10 0 0\n"
    "intr 13519670 0 0\n"
    "ctxt 20667146\n"
    "btime 1700000000\n";

TEST(ProcStat, BusyIsWhatIsNeitherIdleNorWaiting) {
  const Result<ProcStat> stat = parse_proc_stat(kStat);
  ASSERT_TRUE(stat.ok());
  ASSERT_EQ(stat->cores.size(), 3U);
  EXPECT_EQ(stat->cores.at(-1).total, 1000U);  // guest time stands in user time already
  EXPECT_EQ(stat->cores.at(-1).busy, 450U);
  EXPECT_EQ(stat->cores.at(0).busy, 280U);
  EXPECT_EQ(stat->cores.at(1).stolen, 10U);
  EXPECT_EQ(stat->context_switches, 20667146U);
}

TEST(ProcStat, OldKernelsHaveFewerColumnsAndOthersNone) {
  const Result<ProcStat> old = parse_proc_stat("cpu 1 2 3 4\n");
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->cores.at(-1).busy, 6U);
  EXPECT_EQ(old->context_switches, std::nullopt);
  for (const char* text : {"", "intr 5\n", "cpu\n", "cpu 1 2 3\n", "cpu0 a b c d\n", "cpux 1 2 3 4",
                           "cpu 1 2 3 99999999999999999999999\n", "cpu -1 2 3 4\n"}) {
    EXPECT_FALSE(parse_proc_stat(text).ok()) << text;
  }
}

TEST(ProcessSeconds, TheNameMayHoldAnything) {
  // Fields 14 and 15 are 250 and 50 ticks.
  const std::string text = "77 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20\n";
  EXPECT_EQ(*parse_process_seconds(text, 100), 3);
  EXPECT_FALSE(parse_process_seconds("", 100).ok());
  EXPECT_FALSE(parse_process_seconds("77 (x) R 1 2", 100).ok());
}

TEST(CpuinfoMhz, IsTheMean) {
  EXPECT_EQ(mean_cpuinfo_mhz("processor\t: 0\ncpu MHz\t\t: 2000.5\n\ncpu MHz\t\t: 3000.5\n"),
            2500.5);
  EXPECT_EQ(mean_cpuinfo_mhz("processor : 0\nBogoMIPS : 50\n"), std::nullopt);
  EXPECT_EQ(mean_cpuinfo_mhz("cpu MHz : x\ncpu MHz\n"), std::nullopt);
}

TEST(WrappedDifference, GoesAroundOnce) {
  EXPECT_EQ(wrapped_difference(10, 30, 99), 20);
  EXPECT_EQ(wrapped_difference(90, 5, 99), 15);  // 90 .. 99, 0 .. 5: ten steps to 0, five more
  EXPECT_EQ(wrapped_difference(7, 7, 99), 0);
}

// A machine of two cores in a folder.
class CpuSourceTest : public ::testing::Test {
 protected:
  CpuSourceTest() {
    write("proc/stat", kStat);
    write("proc/self/stat", "1 (x) R 1 2 3 4 5 6 7 8 9 10 0 0 0\n");
  }
  void write(const fs::path& name, std::string_view text) {
    fs::create_directories((folder_.path() / name).parent_path());
    ASSERT_TRUE(write_file(folder_.path() / name, text).ok());
  }
  void open() { sources_ = cpu_sources({.root = folder_.path()}, store_); }
  Source& source(const std::string& name) {
    for (const auto& candidate : sources_) {
      if (candidate->info().name == name) return *candidate;
    }
    throw std::runtime_error("no source " + name);
  }
  SignalState state(std::string_view name) {
    const std::optional<SignalId> id = store_.find(name);
    return id ? store_.state(*id) : SignalState{};
  }

  TemporaryFolder folder_;
  SampleStore store_;
  std::vector<std::unique_ptr<Source>> sources_;
};

TEST_F(CpuSourceTest, UtilizationComesFromTwoReadings) {
  open();
  ASSERT_TRUE(source("CPU").sample().ok());
  EXPECT_EQ(state("cpu.utilization").kept, 0U);  // one reading says nothing
  // 100 more ticks each: core 0 busy in 90 of them (10 stolen), core 1 in 20.
  write("proc/stat",
        "cpu  400 0 100 590 50 10 10 40 20 0\n"
        "cpu0 280 0 50 210 20 5 5 30 20 0\n"
        "cpu1 120 0 50 380 30 5 5 10 0 0\n"
        "ctxt 20668146\n");
  ASSERT_TRUE(source("CPU").sample().ok());
  EXPECT_EQ(state("cpu.utilization").latest->value, 55);  // 110 of 200
  EXPECT_EQ(state("cpu0.utilization").latest->value, 90);
  EXPECT_EQ(state("cpu1.utilization").latest->value, 20);
  EXPECT_EQ(state("cpu.busiest_core").latest->value, 90);
  EXPECT_EQ(state("cpu.stolen").latest->value, 5);  // 10 of 200
  EXPECT_GT(state("cpu.context_switches").latest->value, 0);
}

TEST_F(CpuSourceTest, TimesThatGoBackSayNothing) {
  open();
  ASSERT_TRUE(source("CPU").sample().ok());
  write("proc/stat", "cpu 1 0 1 1 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0\nctxt 3\n");
  ASSERT_TRUE(source("CPU").sample().ok());
  EXPECT_EQ(state("cpu.utilization").kept, 0U);
  EXPECT_EQ(state("cpu0.utilization").kept, 0U);
  EXPECT_EQ(state("cpu.context_switches").kept, 0U);
}

TEST_F(CpuSourceTest, AMissingFileIsAReason) {
  fs::remove(folder_.path() / "proc/stat");
  open();
  const Result<> result = source("CPU").sample();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("proc/stat: No such file"), std::string::npos);
}

TEST_F(CpuSourceTest, OwnTimeMissingAloneIsMarkedAlone) {
  fs::remove(folder_.path() / "proc/self/stat");
  open();
  ASSERT_TRUE(source("CPU").sample().ok());
  EXPECT_FALSE(state("process.cpu").signal.available);
  EXPECT_TRUE(state("cpu.utilization").signal.available);
}

TEST_F(CpuSourceTest, FrequencyFromCpufreqOrCpuinfoOrAReason) {
  open();
  EXPECT_FALSE(source("CPU frequency").sample().ok());
  write("proc/cpuinfo", "cpu MHz : 2500\n");
  ASSERT_TRUE(source("CPU frequency").sample().ok());
  EXPECT_EQ(state("cpu.frequency").latest->value, 2500);
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n");
  open();
  ASSERT_TRUE(source("CPU frequency").sample().ok());
  EXPECT_EQ(state("cpu.frequency").latest->value, 2500);
  EXPECT_EQ(state("cpu.frequency").signal.source, "cpufreq");
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "<unknown>\n");
  EXPECT_FALSE(source("CPU frequency").sample().ok());
}

TEST_F(CpuSourceTest, RaplAddsUpOverTheTurnOfItsCounter) {
  const fs::path zone = "sys/class/powercap/intel-rapl:0";
  write(zone / "name", "package-0\n");
  write(zone / "max_energy_range_uj", "999999999\n");
  write(zone / "energy_uj", "999000000\n");
  write("sys/class/powercap/intel-rapl:0:0/name", "core\n");  // part of the package
  write("sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  write("sys/class/powercap/intel-rapl:0:1/max_energy_range_uj", "999999999\n");
  write("sys/class/powercap/intel-rapl:0:1/energy_uj", "5\n");
  open();
  ASSERT_TRUE(source("RAPL").sample().ok());
  EXPECT_EQ(state("package0.energy").latest->value, 0);
  write(zone / "energy_uj", "2000000\n");
  ASSERT_TRUE(source("RAPL").sample().ok());
  EXPECT_NEAR(state("package0.energy").latest->value, 3, 1e-9);  // 1 J to the turn, 2 J after it
  EXPECT_EQ(state("package0.energy").signal.kind, SignalKind::kCounter);
  EXPECT_EQ(state("dram0.energy").latest->value, 0);
}

TEST_F(CpuSourceTest, RaplThatCannotBeReadSaysSo) {
  open();
  EXPECT_NE(state("cpu.power").signal.reason.find("no RAPL zones"), std::string::npos);
  const fs::path zone = "sys/class/powercap/intel-rapl:0";
  write(zone / "name", "package-0\n");
  fs::create_directories(folder_.path() / zone /
                         "energy_uj");  // unreadable as a file, also for root
  open();
  EXPECT_FALSE(source("RAPL").sample().ok());
  EXPECT_NE(state("package0.power").signal.reason.find("RAPL is often for root alone"),
            std::string::npos);
}

TEST_F(CpuSourceTest, ARaplZoneThatCannotBeReadIsMarkedAlone) {
  write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  write("sys/class/powercap/intel-rapl:0/energy_uj", "7\n");
  write("sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  open();
  EXPECT_TRUE(source("RAPL").sample().ok());
  EXPECT_TRUE(state("package0.energy").signal.available);
  EXPECT_FALSE(state("dram0.energy").signal.available);
}

// This very machine: whatever it has, nothing fails that Linux always gives.
TEST(CpuSources, OfThisMachine) {
  SampleStore store;
  const auto sources = cpu_sources({}, store);
  ASSERT_TRUE(sources.front()->sample().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  ASSERT_TRUE(sources.front()->sample().ok());
  const SignalState all = store.state(*store.find("cpu.utilization"));
  EXPECT_EQ(all.kept, 1U);
  EXPECT_EQ(all.dropped, 0U);
}

}  // namespace
}  // namespace nibble::telemetry
