#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "machine/spec.h"

namespace nibble {
namespace {

MachineSpec load(std::string_view name) {
  const std::optional<MachineSpec> machine = find_in_catalog(name);
  EXPECT_TRUE(machine) << name;
  return machine.value_or(MachineSpec{});
}

double dense(const MachineSpec& machine, Precision precision) {
  return machine.peaks.at(precision).dense_tflops.value;
}

TEST(SetNumber, ReplacesOneNumberAndSaysWhoDidIt) {
  MachineSpec machine = load("rtx-pro-6000-server");
  ASSERT_TRUE(set_number(machine, "bandwidth_gb_s", 1500).ok());
  EXPECT_EQ(machine.bandwidth_gb_s.value, 1500);
  EXPECT_EQ(machine.bandwidth_gb_s.provenance, Provenance::kGiven);
  EXPECT_EQ(machine.bandwidth_gb_s.source, "--set");
  ASSERT_TRUE(set_number(machine, "peaks.fp4.dense_tflops", 1850, "case").ok());
  EXPECT_EQ(dense(machine, Precision::kFp4), 1850);
  EXPECT_EQ(machine.peaks.at(Precision::kFp4).dense_tflops.source, "case");
  EXPECT_EQ(dense(machine, Precision::kBf16), 467.8);  // nothing else moves
}

TEST(SetNumber, EveryPathThatIsListedCanBeSet) {
  MachineSpec machine = load("h200");
  double value = 1000;
  for (const std::string& path : settable_paths(machine)) {
    EXPECT_TRUE(set_number(machine, path, value).ok()) << path;
    value += 1;
  }
  EXPECT_EQ(machine.bandwidth_gb_s.value, 1000);  // the first two paths
  EXPECT_EQ(machine.memory_gb.value, 1001);
}

TEST(SetNumber, ReachesLinksPowerAndNumbersThatTheMachineLacks) {
  MachineSpec machine = load("h200");
  ASSERT_FALSE(machine.power.copy_w);
  ASSERT_TRUE(set_number(machine, "power.copy_w", 400).ok());
  EXPECT_EQ(machine.power.copy_w->value, 400);
  ASSERT_TRUE(set_number(machine, "links.1.bandwidth_gb_s", 55).ok());
  EXPECT_EQ(machine.links[1].bandwidth_gb_s.value, 55);
  ASSERT_TRUE(set_number(machine, "links.0.latency_us", 0).ok());
  EXPECT_EQ(machine.links[0].latency_us.value, 0);
  ASSERT_EQ(machine.peak(Precision::kFp4), nullptr);
  ASSERT_TRUE(set_number(machine, "peaks.fp4.dense_tflops", 4000).ok());
  EXPECT_EQ(dense(machine, Precision::kFp4), 4000);
  ASSERT_TRUE(set_number(machine, "launch_gap_us", 0.8).ok());
  EXPECT_EQ(machine.launch_gap_us->value, 0.8);
}

TEST(SetNumber, RefusesWhatIsNoPositiveNumber) {
  for (const double value : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    MachineSpec machine = load("h200");
    const Result<> result = set_number(machine, "bandwidth_gb_s", value);
    ASSERT_FALSE(result.ok()) << value;
    EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
    EXPECT_NE(result.error().message.find("give a number above 0"), std::string::npos);
    EXPECT_EQ(machine.bandwidth_gb_s.value, 4800);
  }
  MachineSpec machine = load("h200");
  EXPECT_FALSE(set_number(machine, "bandwidth_gb_s", 1e300).ok());
  EXPECT_FALSE(set_number(machine, "links.0.latency_us", -1).ok());
  EXPECT_FALSE(set_number(machine, "links.0.latency_us", std::nan("")).ok());
}

TEST(SetNumber, UnknownPathsGetTheNearest) {
  MachineSpec machine = load("h200");
  const Result<> result = set_number(machine, "bandwith_gb_s", 5);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(result.error().message,
            "h200 has no number \"bandwith_gb_s\"; did you mean bandwidth_gb_s?");
  EXPECT_FALSE(set_number(machine, "links.7.bandwidth_gb_s", 5).ok());
  EXPECT_FALSE(set_number(machine, "peaks.fp4.sparse_tflops", 5).ok());  // no dense one beside it
  EXPECT_FALSE(set_number(machine, "", 5).ok());
  const Result<> far = set_number(machine, "qqqqqqqqqqqqqqqqqq", 5);
  ASSERT_FALSE(far.ok());
  EXPECT_NE(far.error().message.find("the numbers are: bandwidth_gb_s, memory_gb"),
            std::string::npos)
      << far.error().message;
}

// 3,700 TFLOPS quoted sparse are 1,850 dense; 1850 / 1871.2 = 0.98867, so bf16 follows to
// 467.8 x 0.98867 = 462.5 (a quarter of 1,850) and fp8 to 925.
TEST(SetPeak, ASparseQuoteIsHalvedAndTheOthersFollow) {
  MachineSpec machine = load("rtx-pro-6000-server");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kSparse, true, "case").ok());
  EXPECT_DOUBLE_EQ(dense(machine, Precision::kFp4), 1850);
  EXPECT_DOUBLE_EQ(machine.peaks.at(Precision::kFp4).sparse_tflops->value, 3700);
  EXPECT_NEAR(dense(machine, Precision::kBf16), 462.5, 1e-9);
  EXPECT_NEAR(dense(machine, Precision::kFp8), 925, 1e-9);
  EXPECT_NEAR(machine.peaks.at(Precision::kBf16).sparse_tflops->value, 925, 1e-9);
  const Sourced& fp4 = machine.peaks.at(Precision::kFp4).dense_tflops;
  EXPECT_EQ(fp4.provenance, Provenance::kGiven);
  EXPECT_EQ(fp4.source, "case: 3700 TFLOPS meant sparse, / 2");
  EXPECT_EQ(machine.peaks.at(Precision::kBf16).dense_tflops.provenance, Provenance::kDerived);
}

TEST(SetPeak, ADenseQuoteIsTakenAsItIs) {
  MachineSpec machine = load("rtx-pro-6000-server");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kDense, false, "--peak").ok());
  EXPECT_DOUBLE_EQ(dense(machine, Precision::kFp4), 3700);
  EXPECT_DOUBLE_EQ(machine.peaks.at(Precision::kFp4).sparse_tflops->value, 7400);
  EXPECT_EQ(dense(machine, Precision::kBf16), 467.8);
  EXPECT_EQ(machine.peaks.at(Precision::kBf16).dense_tflops.provenance, Provenance::kDatasheet);
}

// The B300's sparse fp4 is 18/14 of its dense: 18,000 quoted sparse are 14,000 dense, not 9,000.
TEST(SetPeak, UsesTheChipsOwnRatio) {
  MachineSpec machine = load("b300");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 18000, PeakIs::kSparse, true, "case").ok());
  EXPECT_NEAR(dense(machine, Precision::kFp4), 14000, 1e-6);
  EXPECT_NEAR(dense(machine, Precision::kBf16), 2250, 1e-6);
}

TEST(SetPeak, TakesTwoWhereTheMachineStatesNoSparseRate) {
  MachineSpec machine = load("rtx-pro-6000-server");
  machine.peaks[Precision::kFp4].sparse_tflops.reset();
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 4000, PeakIs::kSparse, false, "case").ok());
  EXPECT_DOUBLE_EQ(dense(machine, Precision::kFp4), 2000);
  EXPECT_FALSE(machine.peaks.at(Precision::kFp4).sparse_tflops);
}

TEST(SetPeak, TwiceTheSameQuoteChangesNothingMore) {
  MachineSpec machine = load("rtx-pro-6000-server");
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kSparse, true, "case").ok());
  }
  EXPECT_DOUBLE_EQ(dense(machine, Precision::kFp4), 1850);
  EXPECT_NEAR(dense(machine, Precision::kBf16), 462.5, 1e-9);
}

TEST(SetPeak, RefusesNonsense) {
  for (const double quoted : {0.0, -5.0, std::nan(""), static_cast<double>(INFINITY)}) {
    MachineSpec machine = load("b200");
    EXPECT_FALSE(set_peak(machine, Precision::kFp4, quoted, PeakIs::kDense, true, "case").ok());
    EXPECT_EQ(dense(machine, Precision::kFp4), 9000);
  }
  MachineSpec machine = load("h200");
  const Result<> result = set_peak(machine, Precision::kFp4, 4000, PeakIs::kDense, true, "case");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "h200 has no fp4 peak to replace; it has fp8, int8, bf16, fp32");
}

}  // namespace
}  // namespace nibble
