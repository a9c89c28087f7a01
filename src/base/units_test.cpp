#include "base/units.h"

#include <gtest/gtest.h>
#include <limits>

namespace nibble {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(FormatNumber, FourSignificantDigits) {
  EXPECT_EQ(format_number(0.21773), "0.2177");
  EXPECT_EQ(format_number(54.864), "54.86");
  EXPECT_EQ(format_number(679.52), "679.5");
  EXPECT_EQ(format_number(1158.4), "1158");
  EXPECT_EQ(format_number(12345.6), "12346");  // digits before the point are never rounded away
  EXPECT_EQ(format_number(-54.864), "-54.86");
  EXPECT_EQ(format_number(2.5), "2.500");
  EXPECT_EQ(format_number(2.54, 2), "2.5");
}

TEST(FormatNumber, WholeNumbersShowNoPoint) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(-0.0), "0");
  EXPECT_EQ(format_number(16), "16");
  EXPECT_EQ(format_number(1234567), "1234567");
}

TEST(FormatNumber, RoundingMayAddADigit) {
  EXPECT_EQ(format_number(9.9999), "10.00");
  EXPECT_EQ(format_number(999.96), "1000");
  EXPECT_EQ(format_number(0.99999), "1.000");
}

TEST(FormatNumber, NeverAnExponent) {
  EXPECT_EQ(format_number(1.2345e-5), "0.00001234");  // 1.2345e-5 lies below the tie in binary
  EXPECT_EQ(format_number(1e21), "1000000000000000000000");
  EXPECT_EQ(format_number(1e-13), "0");
  EXPECT_EQ(format_number(kNan), "n/a");
  EXPECT_EQ(format_number(kInfinity), "infinite");
  EXPECT_EQ(format_number(-kInfinity), "-infinite");
}

TEST(FormatBytes, DecimalPrefixes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(0.5), "0.5000 B");
  EXPECT_EQ(format_bytes(1000), "1.000 kB");
  EXPECT_EQ(format_bytes(679.5e6), "679.5 MB");
  EXPECT_EQ(format_bytes(98.7654e9), "98.77 GB");
  EXPECT_EQ(format_bytes(-2e12), "-2.000 TB");
  EXPECT_EQ(format_bytes(1234567e15), "1,234,567 PB");  // no prefix above: the digits stay
}

TEST(FormatBytes, ThePrefixIsChosenAfterRounding) {
  EXPECT_EQ(format_bytes(999.94e6), "999.9 MB");
  EXPECT_EQ(format_bytes(999.96e6), "1.000 GB");
  EXPECT_EQ(format_bytes(999.6e3, 3), "1.00 MB");
}

TEST(FormatTime, FromNanosecondsToHours) {
  EXPECT_EQ(format_time_us(0), "0 us");
  EXPECT_EQ(format_time_us(0.0123), "12.30 ns");
  EXPECT_EQ(format_time_us(0.0000123), "0.01230 ns");
  EXPECT_EQ(format_time_us(5), "5.000 us");
  EXPECT_EQ(format_time_us(31913), "31.91 ms");
  EXPECT_EQ(format_time_us(999.96), "1.000 ms");
  EXPECT_EQ(format_time_us(1.5e6), "1.500 s");
  EXPECT_EQ(format_time_us(119e6), "119.0 s");
  EXPECT_EQ(format_time_us(120e6), "2.000 min");
  EXPECT_EQ(format_time_us(7200e6), "2.000 h");
  EXPECT_EQ(format_time_us(3600e6 * 12345), "12,345 h");
  EXPECT_EQ(format_time_us(-31913), "-31.91 ms");
  EXPECT_EQ(format_time_us(kNan), "n/a us");
}

TEST(FormatCount, WrittenOutBelowAMillion) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1024), "1,024");
  EXPECT_EQ(format_count(-154880), "-154,880");
  EXPECT_EQ(format_count(7.77), "7.770");
  EXPECT_EQ(format_count(999999), "999,999");
}

TEST(FormatCount, NamesFromAMillion) {
  EXPECT_EQ(format_count(1e6), "1.000 M");
  EXPECT_EQ(format_count(743.9e9), "743.9 B");
  EXPECT_EQ(format_count(999.96e9), "1.000 T");
  EXPECT_EQ(format_count(5e15), "5,000 T");
}

TEST(FormatRate, PrefixesGoBeforeTheUnit) {
  EXPECT_EQ(format_rate(2.0e14, "FLOP/s"), "200.0 TFLOP/s");
  EXPECT_EQ(format_rate(4.0e15, "FLOP/s"), "4.000 PFLOP/s");
  EXPECT_EQ(format_rate(850, "tok/s"), "850 tok/s");
  EXPECT_EQ(format_rate(1.234e9, "B/s", 2), "1.2 GB/s");
}

TEST(FormatPercent, ThreeDigits) {
  EXPECT_EQ(format_percent(0.0513), "5.13 %");
  EXPECT_EQ(format_percent(0.5), "50.0 %");
  EXPECT_EQ(format_percent(1), "100 %");
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_percent(12.5), "1,250 %");
  EXPECT_EQ(format_percent(kNan), "n/a %");
}

TEST(FormatQuantity, EveryUnitOfTheLedger) {
  struct Case {
    double value;
    const char* unit;
    const char* text;
  };
  const Case cases[] = {
      {679.5e6, "B", "679.5 MB"},
      {96, "GB", "96.00 GB"},
      {1597, "GB/s", "1.597 TB/s"},
      {402.7e6, "FLOP", "402.7 MFLOP"},
      {2000, "TFLOPS", "2.000 PFLOPS"},
      {31913, "us", "31.91 ms"},
      {31.913, "ms", "31.91 ms"},
      {0.031913, "s", "31.91 ms"},
      {54.864, "FLOP/B", "54.86 FLOP/B"},
      {1158.4, "FLOP/B", "1,158 FLOP/B"},
      {12345.6, "tok/s", "12,346 tok/s"},
      {600, "W", "600 W"},
      {5.13, "%", "5.13 %"},
      {21.13, "x", "21.1 x"},
      {0.0513, "ratio", "5.13 %"},
      {131072, "tokens", "131,072 tokens"},
      {2e6, "tokens", "2.000 M tokens"},
      {743.9e9, "", "743.9 B"},
      {0.21773, "", "0.2177"},
      {1500000, "J/tok", "1,500,000 J/tok"},
  };
  for (const Case& test : cases) EXPECT_EQ(format_quantity(test.value, test.unit), test.text);
}

TEST(FormatQuantity, NoExponentAndNoStrayTextAtTheExtremes) {
  for (const char* unit :
       {"B", "GB/s", "us", "s", "FLOP", "FLOP/B", "x", "%", "ratio", "tokens", ""}) {
    for (const double value : {1e-9, 1e-300, 1e18, 1e300, -1e300, kInfinity, kNan}) {
      const std::string text = format_quantity(value, unit);
      EXPECT_EQ(text.find("e+"), std::string::npos) << text;
      EXPECT_EQ(text.find("e-"), std::string::npos) << text;
      EXPECT_FALSE(text.empty());
    }
  }
}

TEST(Units, SharesHaveOneDecimal) {
  EXPECT_EQ(format_share(0.0137), "1.4 %");
  EXPECT_EQ(format_share(0.00008), "<0.1 %");
  EXPECT_EQ(format_share(0.0005), "0.1 %");
  EXPECT_EQ(format_share(0), "0.0 %");
  EXPECT_EQ(format_share(1), "100.0 %");
}

TEST(Units, CompactNumbersHaveNoTrailingZeros) {
  EXPECT_EQ(format_compact(255.99998), "256");
  EXPECT_EQ(format_compact(2.302), "2.302");
  EXPECT_EQ(format_compact(1.5), "1.5");
  EXPECT_EQ(format_compact(1024), "1024");
  EXPECT_EQ(format_compact(100), "100");
  EXPECT_EQ(format_compact(0), "0");
}

}  // namespace
}  // namespace nibble
