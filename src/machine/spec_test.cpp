#include "machine/spec.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

MachineSpec machine_with(std::initializer_list<Precision> precisions) {
  MachineSpec machine;
  for (const Precision precision : precisions) machine.peaks[precision].dense_tflops.value = 1;
  return machine;
}

const MachineSpec kBlackwell = machine_with(
    {Precision::kFp4, Precision::kFp8, Precision::kInt8, Precision::kBf16, Precision::kFp32});
const MachineSpec kHopper =
    machine_with({Precision::kFp8, Precision::kInt8, Precision::kBf16, Precision::kFp32});
const MachineSpec kAmpere = machine_with({Precision::kInt8, Precision::kBf16, Precision::kFp32});
const MachineSpec kCpu = machine_with({Precision::kFp32});

TEST(ComputePrecision, NativeUnitWhereTheMachineHasIt) {
  EXPECT_EQ(compute_precision(kBlackwell, Format::kNvfp4, Format::kNvfp4), Precision::kFp4);
  EXPECT_EQ(compute_precision(kHopper, Format::kFp8, Format::kFp8), Precision::kFp8);
  EXPECT_EQ(compute_precision(kHopper, Format::kBf16, Format::kBf16), Precision::kBf16);
  EXPECT_EQ(compute_precision(kAmpere, Format::kInt8, Format::kInt8), Precision::kInt8);
}

TEST(ComputePrecision, NarrowFormatsWidenToBf16WhereTheUnitIsMissing) {
  EXPECT_EQ(compute_precision(kHopper, Format::kNvfp4, Format::kNvfp4), Precision::kBf16);
  EXPECT_EQ(compute_precision(kAmpere, Format::kFp8, Format::kFp8), Precision::kBf16);
  EXPECT_EQ(compute_precision(kBlackwell, Format::kNvfp4, Format::kBf16), Precision::kBf16);
}

TEST(ComputePrecision, EverythingIsFp32WhereThereIsNothingElse) {
  for (const Format format : {Format::kNvfp4, Format::kFp8, Format::kInt8, Format::kBf16}) {
    EXPECT_EQ(compute_precision(kCpu, format, format), Precision::kFp32);
  }
}

TEST(ComputePrecision, Fp32OperandsFallBackToBf16WhenNoFp32RateIsStated) {
  EXPECT_EQ(compute_precision(machine_with({Precision::kBf16}), Format::kFp32, Format::kFp32),
            Precision::kBf16);
}

std::string note(std::string_view machine, Format weights, Format activations) {
  const std::optional<MachineSpec> found = find_in_catalog(machine);
  EXPECT_TRUE(found) << machine;
  return found ? widening_note(*found, weights, activations) : "";
}

TEST(WideningNote, EmptyWhereTheUnitExists) {
  EXPECT_EQ(note("rtx-pro-6000-server", Format::kNvfp4, Format::kNvfp4), "");
  EXPECT_EQ(note("h200", Format::kFp8Block128, Format::kFp8), "");
  EXPECT_EQ(note("a100-80gb", Format::kInt8, Format::kInt8), "");
  EXPECT_EQ(note("a100-80gb", Format::kBf16, Format::kFp16), "");
  EXPECT_EQ(note("h200", Format::kFp32, Format::kFp32), "");
}

TEST(WideningNote, NamesTheMissingUnitAndTheOneUsed) {
  EXPECT_EQ(note("h200", Format::kNvfp4, Format::kNvfp4), "no fp4 unit: multiplied in bf16");
  EXPECT_EQ(note("a100-80gb", Format::kFp8, Format::kFp8), "no fp8 unit: multiplied in bf16");
  EXPECT_EQ(note("b300", Format::kInt8, Format::kInt8), "no int8 unit: multiplied in bf16");
  EXPECT_EQ(note("b300", Format::kFp32, Format::kFp32), "no fp32 unit: multiplied in bf16");
  EXPECT_EQ(widening_note(kCpu, Format::kBf16, Format::kBf16), "no bf16 unit: multiplied in fp32");
}

TEST(WideningNote, NamesPairsThatNoUnitMultiplies) {
  EXPECT_EQ(note("b200", Format::kNvfp4, Format::kInt8),
            "no nvfp4 x int8 unit: multiplied in bf16");
  EXPECT_EQ(note("b200", Format::kNvfp4, Format::kBf16),
            "no nvfp4 x bf16 unit: multiplied in bf16");
  EXPECT_EQ(note("h200", Format::kInt8, Format::kFp32), "no int8 x fp32 unit: multiplied in fp32");
  EXPECT_EQ(widening_note(kCpu, Format::kNvfp4, Format::kBf16),
            "no nvfp4 x bf16 unit: multiplied in fp32");
}

TEST(Provenance, NamesReadBack) {
  const std::pair<Provenance, std::string_view> names[] = {
      {Provenance::kDatasheet, "datasheet"}, {Provenance::kReported, "reported"},
      {Provenance::kMeasured, "measured"},   {Provenance::kDerived, "derived"},
      {Provenance::kAssumed, "assumed"},     {Provenance::kGiven, "given"}};
  for (const auto& [provenance, name] : names) {
    EXPECT_EQ(to_string(provenance), name);
    EXPECT_EQ(provenance_from_string(name), provenance);
  }
  EXPECT_EQ(provenance_from_string("guessed"), std::nullopt);
  EXPECT_EQ(provenance_from_string(""), std::nullopt);
}

TEST(MachineSpec, PeakIsNullWhereThereIsNone) {
  EXPECT_EQ(kHopper.peak(Precision::kFp4), nullptr);
  ASSERT_NE(kHopper.peak(Precision::kFp8), nullptr);
  EXPECT_EQ(kHopper.peak(Precision::kFp8)->dense_tflops.value, 1);
}

}  // namespace
}  // namespace nibble
