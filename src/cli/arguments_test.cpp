#include <gtest/gtest.h>
#include <limits>

#include "cli/command.h"

namespace nibble::cli {
namespace {

using List = std::vector<std::int64_t>;

Arguments with(std::string value) {
  Arguments arguments;
  arguments.given["--n"] = {std::move(value)};
  return arguments;
}

// The error of a usage fault; "" when there is none.
template <class T>
std::string fault(const Result<T>& result) {
  if (result.ok()) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  return result.error().message;
}

TEST(Arguments, AbsentOptionsAreAbsentNotErrors) {
  const Arguments arguments;
  EXPECT_FALSE(arguments.has("--n"));
  EXPECT_EQ(arguments.text("--n"), std::nullopt);
  EXPECT_TRUE(arguments.all("--n").empty());
  EXPECT_EQ(*arguments.integer("--n", 0), std::nullopt);
  EXPECT_EQ(*arguments.number("--n", 0, 1), std::nullopt);
  EXPECT_EQ(*arguments.integers("--n", 0), std::nullopt);
}

TEST(Arguments, SwitchesHaveNoText) {
  Arguments arguments;
  arguments.given["--json"] = {};
  EXPECT_TRUE(arguments.has("--json"));
  EXPECT_EQ(arguments.text("--json"), std::nullopt);
}

TEST(Arguments, TextIsTheLastGivenAndAllKeepsTheOrder) {
  Arguments arguments;
  arguments.given["--set"] = {"b=1", "a=2"};
  EXPECT_EQ(arguments.text("--set"), "a=2");
  EXPECT_EQ(arguments.all("--set"), (std::vector<std::string>{"b=1", "a=2"}));
}

TEST(Arguments, IntegersIncludeBothEnds) {
  EXPECT_EQ(*with("1").integer("--n", 1, 8), 1);
  EXPECT_EQ(*with("8").integer("--n", 1, 8), 8);
  EXPECT_EQ(*with("-3").integer("--n", -3, 8), -3);
  EXPECT_EQ(*with("1099511627776").integer("--n", 1), INT64_C(1) << 40);
}

TEST(Arguments, IntegerFaultsNameOptionTextAndRange) {
  EXPECT_EQ(fault(with("0").integer("--n", 1)), "--n is \"0\"; give a whole number of at least 1");
  EXPECT_EQ(fault(with("9").integer("--n", 1, 8)), "--n is \"9\"; give a whole number from 1 to 8");
  // 2^40 + 1: above the default end, so that the end is named.
  EXPECT_EQ(fault(with("1099511627777").integer("--n", 1)),
            "--n is \"1099511627777\"; give a whole number from 1 to 1099511627776");
}

TEST(Arguments, IntegersAreReadWholeOrNotAtAll) {
  for (const char* text : {"", " ", "1 ", " 1", "+1", "1x", "1.0", "1e3", "0x10", "1,000", "--1",
                           "one", "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_NE(fault(with(text).integer("--n", 0)), "") << '"' << text << '"';
  }
}

TEST(Arguments, NumbersIncludeBothEndsUnlessExcluded) {
  EXPECT_EQ(*with("0").number("--n", 0, 1), 0.0);
  EXPECT_EQ(*with("1").number("--n", 0, 1), 1.0);
  EXPECT_EQ(*with("2.5e-1").number("--n", 0, 1), 0.25);
  EXPECT_EQ(fault(with("0").number("--n", 0, 1, true)),
            "--n is \"0\"; give a number above 0 and at most 1");
  EXPECT_EQ(fault(with("1.5").number("--n", 0.5, 1)),
            "--n is \"1.5\"; give a number of at least 0.5 and at most 1");
}

TEST(Arguments, NumbersWithoutAnEndDoNotNameIt) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(*with("1e300").number("--n", 0, infinity), 1e300);
  EXPECT_EQ(fault(with("-1").number("--n", 0, infinity)),
            "--n is \"-1\"; give a number of at least 0");
  EXPECT_EQ(fault(with("x").number("--n", -infinity, infinity)), "--n is \"x\"; give a number");
  EXPECT_EQ(fault(with("3").number("--n", -infinity, 2)),
            "--n is \"3\"; give a number of at most 2");
}

TEST(Arguments, NumbersAreFiniteAndReadWhole) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* text : {"", "nan", "NaN", "inf", "-inf", "infinity", "1e999", "1e-999", "0x1p3",
                           "1 ", " 1", "+1", "1,5", "1..2", "1.5GB", "."}) {
    EXPECT_NE(fault(with(text).number("--n", -infinity, infinity)), "") << '"' << text << '"';
  }
}

TEST(Arguments, ListsAreSortedAndUnique) {
  EXPECT_EQ(**with("4").integers("--n", 1), (List{4}));
  EXPECT_EQ(**with("4,1,2,4").integers("--n", 1), (List{1, 2, 4}));
}

TEST(Arguments, RangesArePowersOfTwoAndBothEnds) {
  EXPECT_EQ(**with("1..64").integers("--n", 1), (List{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(**with("3..20").integers("--n", 1), (List{3, 4, 8, 16, 20}));
  EXPECT_EQ(**with("0..5").integers("--n", 0), (List{0, 1, 2, 4, 5}));
  EXPECT_EQ(**with("-4..2").integers("--n", -4), (List{-4, 1, 2}));
  EXPECT_EQ(**with("7..7").integers("--n", 1), (List{7}));
  EXPECT_EQ(**with("100,1..4,2").integers("--n", 1), (List{1, 2, 4, 100}));
  // 2^0 ... 2^40
  EXPECT_EQ((*with("1..1099511627776").integers("--n", 1))->size(), 41u);
}

TEST(Arguments, ListFaultsNameTheElement) {
  EXPECT_EQ(fault(with("1,x,3").integers("--n", 1)),
            "--n has \"x\" in its list; give whole numbers from 1 to 1099511627776 as 1,2,4, or a "
            "range of powers of two as 1..64");
  for (const char* text :
       {"", ",", "1,", ",1", "1,,2", "1, 2", "0", "1..", "..4", "..", "4..1", "0..4", "1...4",
        "1..2..3", "1-4", "1.5", "1..1099511627777", "1..99999999999999999999"}) {
    EXPECT_NE(fault(with(text).integers("--n", 1)), "") << '"' << text << '"';
  }
}

TEST(Arguments, ListsHaveAtMost4096Entries) {
  std::string text = "1";
  for (int number = 2; number <= 4096; ++number) text += "," + std::to_string(number);
  EXPECT_EQ((*with(text).integers("--n", 1))->size(), 4096u);
  EXPECT_EQ(fault(with(text + ",4097").integers("--n", 1)),
            "--n lists more than 4096 numbers; give fewer");
}

}  // namespace
}  // namespace nibble::cli
