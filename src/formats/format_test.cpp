#include "formats/format.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

constexpr Format kAll[] = {
    Format::kFp32,  Format::kBf16, Format::kFp16,         Format::kFp8,   Format::kFp8Block128,
    Format::kMxfp8, Format::kInt8, Format::kInt4Group128, Format::kMxfp4, Format::kNvfp4};

TEST(Format, NamesReadBack) {
  for (const Format format : kAll) EXPECT_EQ(format_from_string(to_string(format)), format);
  for (const Precision precision :
       {Precision::kFp32, Precision::kBf16, Precision::kFp8, Precision::kInt8, Precision::kFp4}) {
    EXPECT_EQ(precision_from_string(to_string(precision)), precision);
  }
  EXPECT_EQ(to_string(Format::kNvfp4), "nvfp4");
  EXPECT_EQ(to_string(Format::kFp8Block128), "fp8-block128");
  EXPECT_EQ(to_string(Precision::kFp4), "fp4");
}

TEST(Format, UnknownNamesAreNone) {
  for (const char* name : {"", "NVFP4", "fp4", "nvfp4 ", "float"}) {
    EXPECT_FALSE(format_from_string(name)) << name;
  }
  EXPECT_FALSE(precision_from_string("nvfp4"));
  EXPECT_FALSE(precision_from_string(""));
}

TEST(StorageBytes, Nvfp4) {
  // 2048 * 6144 = 12,582,912 codes of half a byte = 6,291,456; / 16 = 786,432 scales of one byte.
  const StorageBytes bytes = storage_bytes(Format::kNvfp4, 2048, 6144);
  EXPECT_EQ(bytes.codes, 6291456);
  EXPECT_EQ(bytes.scales, 786432);
  EXPECT_EQ(bytes.total(), 7077888);
}

TEST(StorageBytes, EveryFormatOfAWholeMatrix) {
  struct Case {
    Format format;
    double codes;
    double scales;
  };
  // 256 x 512 = 131,072 elements.
  const Case cases[] = {
      {Format::kFp32, 524288, 0},
      {Format::kBf16, 262144, 0},
      {Format::kFp16, 262144, 0},
      {Format::kFp8, 131072, 0},
      {Format::kFp8Block128, 131072, 2 * 4 * 4},  // 2 x 4 blocks, 4 bytes each
      {Format::kMxfp8, 131072, 256 * 16},         // 512 / 32 bytes a row
      {Format::kInt8, 131072, 0},
      {Format::kInt4Group128, 65536, 256 * 4 * 2},  // 512 / 128 groups a row, 2 bytes each
      {Format::kMxfp4, 65536, 256 * 16},
      {Format::kNvfp4, 65536, 256 * 32},  // 512 / 16 bytes a row
  };
  for (const Case& test : cases) {
    const StorageBytes bytes = storage_bytes(test.format, 256, 512);
    EXPECT_EQ(bytes.codes, test.codes) << to_string(test.format);
    EXPECT_EQ(bytes.scales, test.scales) << to_string(test.format);
    // Whole blocks only: the bits an element add up to the same bytes.
    EXPECT_DOUBLE_EQ(bytes.total(), 131072 * bits_per_element(test.format) / 8);
    EXPECT_DOUBLE_EQ(bytes.codes, 131072 * code_bits(test.format) / 8);
  }
}

TEST(StorageBytes, PartialBlocksCostAWholeScale) {
  EXPECT_EQ(storage_bytes(Format::kNvfp4, 3, 17).scales, 3 * 2);  // 16 + 1 columns
  EXPECT_EQ(storage_bytes(Format::kMxfp4, 1, 1).scales, 1);
  EXPECT_EQ(storage_bytes(Format::kMxfp8, 2, 33).scales, 2 * 2);
  EXPECT_EQ(storage_bytes(Format::kFp8Block128, 129, 128).scales, 2 * 4);
  EXPECT_EQ(storage_bytes(Format::kFp8Block128, 1, 129).scales, 2 * 4);
  EXPECT_EQ(storage_bytes(Format::kInt4Group128, 1, 130).scales, 2 * 2);
}

TEST(StorageBytes, NothingCostsNothing) {
  for (const Format format : kAll) {
    EXPECT_EQ(storage_bytes(format, 0, 512).total(), 0);
    EXPECT_EQ(storage_bytes(format, 512, 0).total(), 0);
  }
}

TEST(Bits, PerElement) {
  EXPECT_EQ(code_bits(Format::kNvfp4), 4);
  EXPECT_EQ(bits_per_element(Format::kNvfp4), 4.5);   // 8 / 16 more
  EXPECT_EQ(bits_per_element(Format::kMxfp4), 4.25);  // 8 / 32 more
  EXPECT_EQ(bits_per_element(Format::kMxfp8), 8.25);
  EXPECT_EQ(bits_per_element(Format::kInt4Group128), 4.125);  // 16 / 128 more
  EXPECT_EQ(bits_per_element(Format::kFp8Block128), 8 + 32.0 / 16384);
  EXPECT_EQ(bits_per_element(Format::kBf16), 16);
}

TEST(NativePrecision, OfEqualPartners) {
  EXPECT_EQ(native_precision(Format::kNvfp4, Format::kNvfp4), Precision::kFp4);
  EXPECT_EQ(native_precision(Format::kMxfp4, Format::kMxfp4), Precision::kFp4);
  EXPECT_EQ(native_precision(Format::kFp8, Format::kFp8), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kFp8Block128, Format::kFp8), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kMxfp8, Format::kMxfp8), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kInt8, Format::kInt8), Precision::kInt8);
  EXPECT_EQ(native_precision(Format::kBf16, Format::kBf16), Precision::kBf16);
  EXPECT_EQ(native_precision(Format::kFp16, Format::kFp16), Precision::kBf16);
  EXPECT_EQ(native_precision(Format::kFp32, Format::kFp32), Precision::kFp32);
}

TEST(NativePrecision, WeightsThatMustBeWidened) {
  for (const Format weights : {Format::kNvfp4, Format::kMxfp4, Format::kInt4Group128, Format::kInt8,
                               Format::kFp8, Format::kFp8Block128, Format::kMxfp8}) {
    EXPECT_EQ(native_precision(weights, Format::kBf16), Precision::kBf16) << to_string(weights);
    EXPECT_EQ(native_precision(weights, Format::kFp32), Precision::kFp32) << to_string(weights);
  }
  EXPECT_EQ(native_precision(Format::kInt4Group128, Format::kInt8), Precision::kBf16);
}

TEST(NativePrecision, MixedPartners) {
  // The mxf8f6f4 instruction takes e2m1 beside e4m3 with e8m0 scales, and no e4m3 scales.
  EXPECT_EQ(native_precision(Format::kMxfp4, Format::kMxfp8), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kMxfp4, Format::kFp8), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kMxfp8, Format::kMxfp4), Precision::kFp8);
  EXPECT_EQ(native_precision(Format::kNvfp4, Format::kFp8), Precision::kBf16);
  EXPECT_EQ(native_precision(Format::kNvfp4, Format::kMxfp4), Precision::kBf16);
  EXPECT_EQ(native_precision(Format::kInt8, Format::kFp8), Precision::kBf16);
}

}  // namespace
}  // namespace nibble
