#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <tuple>

#include "machine/spec.h"

namespace nibble {
namespace {

MachineSpec from_catalog(std::string_view name) {
  const std::optional<MachineSpec> machine = find_in_catalog(name);
  EXPECT_TRUE(machine) << name;
  return machine.value_or(MachineSpec{});
}

double dense_peak(const MachineSpec& machine, Precision precision) {
  return machine.peaks.at(precision).dense_tflops.value;
}

TEST(SetNumber, ReplacesOneNumberAndSaysWhoDidIt) {
  MachineSpec machine = from_catalog("rtx-pro-6000-server");
  ASSERT_TRUE(set_number(machine, "bandwidth_gb_s", 1500).ok());
  EXPECT_EQ(machine.bandwidth_gb_s.value, 1500);
  EXPECT_EQ(machine.bandwidth_gb_s.provenance, Provenance::kGiven);
  EXPECT_EQ(machine.bandwidth_gb_s.source, "--set");
  ASSERT_TRUE(set_number(machine, "peaks.fp4.dense_tflops", 1850, "case").ok());
  EXPECT_EQ(dense_peak(machine, Precision::kFp4), 1850);
  EXPECT_EQ(machine.peaks.at(Precision::kFp4).dense_tflops.source, "case");
  EXPECT_EQ(dense_peak(machine, Precision::kBf16), 467.8);  // nothing else moves
}

TEST(SetNumber, EveryPathThatIsListedCanBeSet) {
  const MachineSpec h200 = from_catalog("h200");
  for (const std::string& path : settable_paths(h200)) {
    // 5,000: above every dense_peak peak of the h200, so that a sparse one may be that. An SM's
    // shared memory must hold a block's, 232,448.
    const double value = path == "shared_per_sm_bytes" ? 300000 : 5000;
    MachineSpec machine = h200;
    const Result<> result = set_number(machine, path, value);
    EXPECT_TRUE(result.ok()) << path << (result.ok() ? "" : result.error().message);
    EXPECT_NE(to_json(machine), to_json(h200)) << path;
    EXPECT_TRUE(parse_machine(to_json(machine), "copy").ok()) << path;
  }
}

// The same sentence from a file and from --set, for each number and each way to be wrong.
TEST(SetNumber, HoldsNumbersToTheRulesOfFiles) {
  const std::pair<const char*, double> cases[] = {
      {"sms", 1.5},
      {"sms", 1e15},
      {"sms", 0},
      {"registers_per_sm", 0.5},
      {"bandwidth_gb_s", 1e7},
      {"memory_gb", 0.01},
      {"clock_mhz", 1e6},
      {"l2_mb", -1},
      {"launch_gap_us", 1e7},
      {"shared_per_block_bytes", 1.5},
      {"shared_per_block_bytes", 300000},
  };
  for (const auto& [path, value] : cases) {
    MachineSpec machine = from_catalog("h200");
    const Json before = to_json(machine);
    const Result<> set = set_number(machine, path, value);
    ASSERT_FALSE(set.ok()) << path << value;
    EXPECT_EQ(set.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(to_json(machine), before) << path;
    Json file = before;
    file.set(path, value);
    const Result<MachineSpec> read = parse_machine(file, "m.json");
    ASSERT_FALSE(read.ok()) << path << value;
    const std::string as_in_files = "m.json: \"" + std::string(path) + "\"";
    ASSERT_TRUE(read.error().message.starts_with(as_in_files)) << read.error().message;
    EXPECT_EQ(set.error().message, path + read.error().message.substr(as_in_files.size()));
  }
}

TEST(SetNumber, SaysWhatANumberMayBe) {
  const std::tuple<const char*, double, const char*> cases[] = {
      {"sms", 1.5, "sms is 1.5; it must be a whole number"},
      {"sms", 1e15, "sms is 1000000000000000; it must be from 1 to 100000"},
      {"shared_per_block_bytes", 1e9,
       "shared_per_block_bytes is 1000000000, more than the 233472 of a whole SM"},
      {"shared_per_sm_bytes", 1000,
       "shared_per_sm_bytes is 1000, and shared_per_block_bytes is 232448, more than the 1000 of a "
       "whole SM; lower that one first"},
      {"links.0.bandwidth_gb_s", 1e9,
       "links.0.bandwidth_gb_s is 1000000000; it must be from 0.001 to 1000000 GB/s"},
      {"links.1.latency_us", -1, "links.1.latency_us is -1; it must be from 0 to 1000000 us"},
      {"power.limit_w", 1e6, "power.limit_w is 1000000; it must be from 1 to 100000 W"},
      {"peaks.fp8.dense_tflops", 0,
       "peaks.fp8.dense_tflops is 0; it must be from 1e-06 to 1000000 TFLOPS"},
      {"peaks.fp8.sparse_tflops", 5,
       "peaks.fp8.sparse_tflops is 5, below the dense 1978.9; were the two exchanged?"},
  };
  for (const auto& [path, value, expected] : cases) {
    MachineSpec machine = from_catalog("h200");
    const Result<> result = set_number(machine, path, value);
    ASSERT_FALSE(result.ok()) << path;
    EXPECT_EQ(result.error().message, expected);
  }
}

// The h200's fp8: 3,957.8 sparse / 1,978.9 dense_peak = 2, so 4,000 dense_peak are 8,000 sparse.
TEST(SetNumber, ADensePeakAboveTheSparseOneTakesItAlong) {
  MachineSpec machine = from_catalog("h200");
  ASSERT_TRUE(set_number(machine, "peaks.fp8.dense_tflops", 3000).ok());
  EXPECT_EQ(machine.peaks.at(Precision::kFp8).sparse_tflops->value, 3957.8);  // no contradiction
  machine = from_catalog("h200");
  ASSERT_TRUE(set_number(machine, "peaks.fp8.dense_tflops", 4000).ok());
  EXPECT_DOUBLE_EQ(machine.peaks.at(Precision::kFp8).sparse_tflops->value, 8000);
  EXPECT_EQ(machine.peaks.at(Precision::kFp8).sparse_tflops->provenance, Provenance::kDerived);
}

TEST(SetNumber, ReachesLinksPowerAndNumbersThatTheMachineLacks) {
  MachineSpec machine = from_catalog("h200");
  ASSERT_FALSE(machine.power.copy_w);
  ASSERT_TRUE(set_number(machine, "power.copy_w", 400).ok());
  EXPECT_EQ(machine.power.copy_w->value, 400);
  ASSERT_TRUE(set_number(machine, "links.1.bandwidth_gb_s", 55).ok());
  EXPECT_EQ(machine.links[1].bandwidth_gb_s.value, 55);
  ASSERT_TRUE(set_number(machine, "links.0.latency_us", 0).ok());
  EXPECT_EQ(machine.links[0].latency_us.value, 0);
  ASSERT_EQ(machine.peak(Precision::kFp4), nullptr);
  ASSERT_TRUE(set_number(machine, "peaks.fp4.dense_tflops", 4000).ok());
  EXPECT_EQ(dense_peak(machine, Precision::kFp4), 4000);
  ASSERT_TRUE(set_number(machine, "launch_gap_us", 0.8).ok());
  EXPECT_EQ(machine.launch_gap_us->value, 0.8);
}

TEST(SetNumber, RefusesWhatIsNoPositiveNumber) {
  for (const double value : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    MachineSpec machine = from_catalog("h200");
    const Result<> result = set_number(machine, "bandwidth_gb_s", value);
    ASSERT_FALSE(result.ok()) << value;
    EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
    EXPECT_TRUE(result.error().message.starts_with("bandwidth_gb_s is ")) << result.error().message;
    EXPECT_EQ(machine.bandwidth_gb_s.value, 4800);
  }
  MachineSpec machine = from_catalog("h200");
  EXPECT_FALSE(set_number(machine, "bandwidth_gb_s", 1e300).ok());
  EXPECT_FALSE(set_number(machine, "links.0.latency_us", -1).ok());
  EXPECT_FALSE(set_number(machine, "links.0.latency_us", std::nan("")).ok());
}

TEST(SetNumber, UnknownPathsGetTheNearest) {
  MachineSpec machine = from_catalog("h200");
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

// 3,700 TFLOPS quoted sparse are 1,850 dense_peak; 1850 / 1871.2 = 0.98867, so bf16 follows to
// 467.8 x 0.98867 = 462.5 (a quarter of 1,850) and fp8 to 925.
TEST(SetPeak, ASparseQuoteIsHalvedAndTheOthersFollow) {
  MachineSpec machine = from_catalog("rtx-pro-6000-server");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kSparse, true, "case").ok());
  EXPECT_DOUBLE_EQ(dense_peak(machine, Precision::kFp4), 1850);
  EXPECT_DOUBLE_EQ(machine.peaks.at(Precision::kFp4).sparse_tflops->value, 3700);
  EXPECT_NEAR(dense_peak(machine, Precision::kBf16), 462.5, 1e-9);
  EXPECT_NEAR(dense_peak(machine, Precision::kFp8), 925, 1e-9);
  EXPECT_NEAR(machine.peaks.at(Precision::kBf16).sparse_tflops->value, 925, 1e-9);
  const Sourced& fp4 = machine.peaks.at(Precision::kFp4).dense_tflops;
  EXPECT_EQ(fp4.provenance, Provenance::kGiven);
  EXPECT_EQ(fp4.source, "case: 3700 TFLOPS meant sparse, / 2");
  EXPECT_EQ(machine.peaks.at(Precision::kBf16).dense_tflops.provenance, Provenance::kDerived);
}

TEST(SetPeak, ADenseQuoteIsTakenAsItIs) {
  MachineSpec machine = from_catalog("rtx-pro-6000-server");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kDense, false, "--peak").ok());
  EXPECT_DOUBLE_EQ(dense_peak(machine, Precision::kFp4), 3700);
  EXPECT_DOUBLE_EQ(machine.peaks.at(Precision::kFp4).sparse_tflops->value, 7400);
  EXPECT_EQ(dense_peak(machine, Precision::kBf16), 467.8);
  EXPECT_EQ(machine.peaks.at(Precision::kBf16).dense_tflops.provenance, Provenance::kReported);
}

// The B300's sparse fp4 is 18/14 of its dense_peak: 18,000 quoted sparse are 14,000 dense_peak, not
// 9,000.
TEST(SetPeak, UsesTheChipsOwnRatio) {
  MachineSpec machine = from_catalog("b300");
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 18000, PeakIs::kSparse, true, "case").ok());
  EXPECT_NEAR(dense_peak(machine, Precision::kFp4), 14000, 1e-6);
  EXPECT_NEAR(dense_peak(machine, Precision::kBf16), 2250, 1e-6);
}

TEST(SetPeak, TakesTwoWhereTheMachineStatesNoSparseRate) {
  MachineSpec machine = from_catalog("rtx-pro-6000-server");
  machine.peaks[Precision::kFp4].sparse_tflops.reset();
  ASSERT_TRUE(set_peak(machine, Precision::kFp4, 4000, PeakIs::kSparse, false, "case").ok());
  EXPECT_DOUBLE_EQ(dense_peak(machine, Precision::kFp4), 2000);
  EXPECT_FALSE(machine.peaks.at(Precision::kFp4).sparse_tflops);
}

TEST(SetPeak, TwiceTheSameQuoteChangesNothingMore) {
  MachineSpec machine = from_catalog("rtx-pro-6000-server");
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(set_peak(machine, Precision::kFp4, 3700, PeakIs::kSparse, true, "case").ok());
  }
  EXPECT_DOUBLE_EQ(dense_peak(machine, Precision::kFp4), 1850);
  EXPECT_NEAR(dense_peak(machine, Precision::kBf16), 462.5, 1e-9);
}

TEST(SetPeak, RefusesNonsense) {
  for (const double quoted : {0.0, -5.0, std::nan(""), static_cast<double>(INFINITY)}) {
    MachineSpec machine = from_catalog("b200");
    EXPECT_FALSE(set_peak(machine, Precision::kFp4, quoted, PeakIs::kDense, true, "case").ok());
    EXPECT_EQ(dense_peak(machine, Precision::kFp4), 9000);
  }
  MachineSpec machine = from_catalog("b200");
  const Result<> huge = set_peak(machine, Precision::kFp4, 1e300, PeakIs::kDense, false, "--peak");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().message,
            "the quoted fp4 peak is 1e+300; it must be from 1e-06 to 1000000 TFLOPS");
  machine = from_catalog("h200");
  const Result<> result = set_peak(machine, Precision::kFp4, 4000, PeakIs::kDense, true, "case");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "h200 has no fp4 peak to replace; it has fp8, int8, bf16, fp32");
}

}  // namespace
}  // namespace nibble
