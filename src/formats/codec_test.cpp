#include "formats/codec.h"

#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/test_floats.h"

namespace nibble {
namespace {

// The compiler computes them too.
static_assert(e2m1_to_float(7) == 6 && e2m1_to_float(0x9) == -0.5F);
static_assert(float_to_e2m1(2.5F) == 4);
static_assert(float_to_e4m3(1e9F) == 0x7e && e4m3_to_float(1) == 1.0F / 512);
static_assert(is_e4m3_nan(0x7f) && is_e4m3_nan(0xff) && !is_e4m3_nan(0x7e) && !is_e4m3_nan(0x80));
static_assert(float_to_e8m0(3.0F) == 128 && e8m0_to_float(254) == 0x1p127F);
static_assert(float_to_bf16(-1.0F) == 0xbf80 && float_to_fp16(-2.0F) == 0xc000);
static_assert(pack_e2m1(0x1, 0xf) == 0xf1);

struct Codec {
  std::function<std::uint32_t(float)> encode;
  std::function<float(std::uint32_t)> decode;
};

const Codec& codec(const std::string& name) {
  static const std::map<std::string, Codec> all = {
      {"e2m1", {float_to_e2m1, [](std::uint32_t c) { return e2m1_to_float(std::uint8_t(c)); }}},
      {"e4m3", {float_to_e4m3, [](std::uint32_t c) { return e4m3_to_float(std::uint8_t(c)); }}},
      {"e8m0", {float_to_e8m0, [](std::uint32_t c) { return e8m0_to_float(std::uint8_t(c)); }}},
      {"bf16", {float_to_bf16, [](std::uint32_t c) { return bf16_to_float(std::uint16_t(c)); }}},
      {"fp16", {float_to_fp16, [](std::uint32_t c) { return fp16_to_float(std::uint16_t(c)); }}}};
  return all.at(name);
}

// Lines of words and hexadecimal numbers; tools/oracle/formats.py says what they mean.
std::ifstream golden(const std::string& name) {
  std::ifstream file(NIBBLE_SOURCE_DIR "/tests/golden/formats/" + name);
  EXPECT_TRUE(file.is_open()) << name;
  file >> std::hex;
  return file;
}

TEST(Codec, DecodesEveryCodeAsTheOracle) {
  std::map<std::string, int> lines;
  std::ifstream file = golden("decode_small.txt");
  std::string name;
  for (std::uint32_t code = 0, bits = 0; file >> name >> code >> bits;) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(codec(name).decode(code)), bits) << name << " " << code;
    ++lines[name];
  }
  // e4m3 has two codes that are NaN, e8m0 one.
  EXPECT_EQ(lines, (std::map<std::string, int>{{"e2m1", 16}, {"e4m3", 254}, {"e8m0", 255}}));
}

TEST(Codec, EncodesAroundEveryBoundaryAsTheOracle) {
  std::map<std::string, int> lines;
  std::ifstream file = golden("encode_small.txt");
  std::string name;
  for (std::uint32_t bits = 0, code = 0; file >> name >> bits >> code;) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_EQ(codec(name).encode(value), code) << name << " " << value;
    ++lines[name];
  }
  // At least five inputs for each boundary between the 7, 126 and 254 pairs of neighbours.
  EXPECT_GT(lines["e2m1"], 2 * 5 * 7);
  EXPECT_GT(lines["e4m3"], 2 * 5 * 126);
  EXPECT_GT(lines["e8m0"], 5 * 254);
}

TEST(Codec, EveryCodeSurvivesTheRoundTrip) {
  const std::pair<const char*, std::uint32_t> counts[] = {
      {"e2m1", 16}, {"e4m3", 256}, {"e8m0", 256}, {"bf16", 65536}, {"fp16", 65536}};
  for (const auto& [name, count] : counts) {
    const Codec& both = codec(name);
    for (std::uint32_t code = 0; code < count; ++code) {
      const float value = both.decode(code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(both.decode(both.encode(value)))) << name << " " << code;
      } else {
        EXPECT_EQ(both.encode(value), code) << name;
      }
    }
  }
}

// ---- tables that the oracle gives as digests ----------------------------------------------------

std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t index = 0; index < 256; ++index) {
      std::uint32_t entry = index;
      for (int bit = 0; bit < 8; ++bit) entry = (entry >> 1) ^ ((entry & 1U) * 0xedb88320U);
      entries[index] = entry;
    }
    return entries;
  }();
  std::uint32_t crc = 0xffffffffU;
  for (const std::uint8_t byte : bytes) crc = (crc >> 8) ^ table[(crc ^ byte) & 0xffU];
  return ~crc;
}

void append(std::vector<std::uint8_t>& bytes, std::uint32_t value, int count) {
  for (int byte = 0; byte < count; ++byte) {
    bytes.push_back(static_cast<std::uint8_t>(value >> (8 * byte)));
  }
}

std::vector<std::uint8_t> decode_table(const Codec& both) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float value = both.decode(code);
    append(bytes, std::isnan(value) ? 0 : std::bit_cast<std::uint32_t>(value), 4);
  }
  return bytes;
}

std::vector<std::uint8_t> boundary_table(const Codec& both) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t code = 0; std::isfinite(both.decode(code + 1)); ++code) {
    const float middle = both.decode(code) / 2 + both.decode(code + 1) / 2;
    const auto bits = std::bit_cast<std::uint32_t>(middle);
    for (std::uint32_t step = 0; step < 5; ++step) {
      append(bytes, both.encode(std::bit_cast<float>(bits + step - 2)), 2);
    }
  }
  bytes.resize(std::size_t{65536} * 5 * 2);
  return bytes;
}

std::vector<std::uint8_t> sweep_table(const Codec& both) {
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    const auto value = std::bit_cast<float>(high * 65536 + high * 40503 % 65536);
    append(bytes, std::isnan(value) ? 0 : both.encode(value), 2);
  }
  return bytes;
}

TEST(Codec, WholeTablesAreTheOracles) {
  const std::map<std::string, std::function<std::vector<std::uint8_t>(const Codec&)>> makers = {
      {"decode", decode_table}, {"boundary", boundary_table}, {"sweep", sweep_table}};
  std::ifstream file = golden("digests.txt");
  std::map<std::string, std::vector<std::uint8_t>> tables;
  std::string name;
  std::string what;
  int lines = 0;
  for (std::uint32_t part = 0, crc = 0; file >> name >> what >> part >> crc; ++lines) {
    std::vector<std::uint8_t>& table = tables[name + what];
    if (table.empty()) table = makers.at(what)(codec(name));
    const std::size_t size = table.size() / 16;
    EXPECT_EQ(crc32(std::span(table).subspan(part * size, size)), crc)
        << name << " " << what << " part " << part;
  }
  EXPECT_EQ(lines, 9 * 16);  // two tables of bf16 and fp16, sweeps of five formats
}

TEST(Codec, TheDigestIsTheUsualOne) {
  const std::string check = "123456789";  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32({reinterpret_cast<const std::uint8_t*>(check.data()), check.size()}),
            0xcbf43926U);
}

// ---- what the formats say of NaN, infinity and ties ---------------------------------------------

TEST(E2m1, ModelOptsTies) {
  // modelopt/torch/quantization/qtensor/nvfp4_tensor.py: bounds .25 .75 1.25 1.75 2.5 3.5 5, ties
  // to the even code.
  const std::pair<float, int> ties[] = {{.25F, 0}, {.75F, 2}, {1.25F, 2}, {1.75F, 4},
                                        {2.5F, 4}, {3.5F, 6}, {5.0F, 6}};
  for (const auto& [value, code] : ties) {
    EXPECT_EQ(float_to_e2m1(value), code) << value;
    EXPECT_EQ(float_to_e2m1(-value), code | 8) << -value;
  }
}

TEST(E2m1, SaturatesAndHasNoNan) {
  EXPECT_EQ(float_to_e2m1(kInf), 7);
  EXPECT_EQ(float_to_e2m1(-kInf), 15);
  EXPECT_EQ(float_to_e2m1(1e30F), 7);
  EXPECT_EQ(float_to_e2m1(kNan), 7);  // PTX ISA, cvt: NaN becomes the largest positive value
  EXPECT_EQ(float_to_e2m1(-kNan), 7);
  EXPECT_EQ(float_to_e2m1(-0.0F), 8);
  EXPECT_TRUE(std::signbit(e2m1_to_float(8)));
  EXPECT_EQ(e2m1_to_float(0xf7), 6);  // the high nibble does not count
}

TEST(E2m1, PackingPutsTheEvenColumnLow) {
  const std::uint8_t row[] = {0x21, 0x43, 0xf0};
  const int expected[] = {1, 2, 3, 4, 0, 15};
  for (int column = 0; column < 6; ++column) EXPECT_EQ(e2m1_at(row, column), expected[column]);
  EXPECT_EQ(pack_e2m1(0xa1, 0xb2), 0x21);  // high nibbles of the arguments do not count
}

TEST(E4m3, NanAndSaturation) {
  EXPECT_EQ(float_to_e4m3(kNan), 0x7f);
  EXPECT_EQ(float_to_e4m3(-kNan), 0xff);
  EXPECT_EQ(float_to_e4m3(kInf), 0x7e);
  EXPECT_EQ(float_to_e4m3(-kInf), 0xfe);
  EXPECT_EQ(float_to_e4m3(464.0F), 0x7e);  // would round to 480, which is NaN's code
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3_to_float(0xff)));
  EXPECT_TRUE(std::signbit(e4m3_to_float(0x80)));
}

TEST(E8m0, ZeroNegativeInfinityAndNan) {
  EXPECT_EQ(float_to_e8m0(0.0F), 0);
  EXPECT_EQ(float_to_e8m0(-0.0F), 0);
  EXPECT_EQ(float_to_e8m0(0x1p-149F), 0);
  EXPECT_EQ(float_to_e8m0(std::bit_cast<float>(0x007fffffU)), 0);
  EXPECT_EQ(float_to_e8m0(0x1p-126F), 1);
  EXPECT_EQ(float_to_e8m0(kInf), 254);
  EXPECT_EQ(float_to_e8m0(-1.0F), 255);
  EXPECT_EQ(float_to_e8m0(-kInf), 255);
  EXPECT_EQ(float_to_e8m0(kNan), 255);
  EXPECT_EQ(float_to_e8m0(-kNan), 255);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127F);
}

TEST(Bf16, OverflowAndNan) {
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::max()), 0xff80);
  // The largest bf16 is 0x7f7f; half a step above it is a tie, and the even neighbour is infinity.
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f7f7fffU)), 0x7f7f);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f7f8000U)), 0x7f80);
  EXPECT_EQ(float_to_bf16(kInf), 0x7f80);
  // A NaN whose payload lies in the low half must not become infinity.
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f800001U)), 0x7fc0);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0xffffffffU)), 0xffff);
}

TEST(Fp16, OverflowSubnormalsAndNan) {
  EXPECT_EQ(float_to_fp16(65504.0F), 0x7bff);
  EXPECT_EQ(float_to_fp16(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_fp16(-1e30F), 0xfc00);
  EXPECT_EQ(float_to_fp16(0x1p-24F), 1);
  EXPECT_EQ(float_to_fp16(0x1p-25F), 0);  // a tie
  EXPECT_EQ(float_to_fp16(std::nextafter(0x1p-25F, 1.0F)), 1);
  EXPECT_EQ(float_to_fp16(-0x1p-149F), 0x8000);
  EXPECT_EQ(float_to_fp16(std::bit_cast<float>(0x7f800001U)), 0x7e00);
  EXPECT_EQ(float_to_fp16(-kNan), 0xfe00);
  EXPECT_EQ(fp16_to_float(0x7c00), kInf);
  EXPECT_EQ(fp16_to_float(0xfc00), -kInf);
  EXPECT_TRUE(std::isnan(fp16_to_float(0x7c01)));
}

}  // namespace
}  // namespace nibble
