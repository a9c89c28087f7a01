#include "base/result.h"

#include <gtest/gtest.h>
#include <memory>

namespace nibble {
namespace {

Result<double> half_of(int number) {
  if (number % 2 != 0) return input_error("{} is odd; give an even number", number);
  return number / 2.0;
}

Result<std::unique_ptr<double>> boxed_quarter_of(int number) {
  NIBBLE_ASSIGN_OR_RETURN(const double half, half_of(number));
  NIBBLE_ASSIGN_OR_RETURN(const double quarter, half_of(static_cast<int>(half)));
  return std::make_unique<double>(quarter);
}

Result<> check_quarter(int number) {
  NIBBLE_RETURN_IF_ERROR(boxed_quarter_of(number));
  return {};
}

TEST(Result, CarriesValuesThatOnlyMove) {
  Result<std::unique_ptr<double>> result = boxed_quarter_of(8);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<double> taken = std::move(result).value();
  EXPECT_EQ(*taken, 2);
}

TEST(Result, StopsAtTheFirstError) {
  EXPECT_EQ(boxed_quarter_of(7).error().message, "7 is odd; give an even number");
  EXPECT_EQ(boxed_quarter_of(6).error().message, "3 is odd; give an even number");
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_EQ(check_quarter(6).error().kind, ErrorKind::kInput);
}

TEST(Error, NamesTheKindAndThePlace) {
  EXPECT_EQ(usage_error("x").kind, ErrorKind::kUsage);
  EXPECT_EQ(run_error("x").kind, ErrorKind::kRun);
  const Error error = input_error("{} is missing", "m").within("case.json");
  EXPECT_EQ(error.message, "case.json: m is missing");
  EXPECT_EQ(error.kind, ErrorKind::kInput);
}

TEST(ResultDeathTest, AskingAnErrorForItsValueIsOurMistake) {
  EXPECT_DEATH(static_cast<void>(half_of(7).value()), "internal error at .*result.h");
  EXPECT_DEATH(static_cast<void>(half_of(8).error()), "internal error at .*result.h");
}

}  // namespace
}  // namespace nibble
