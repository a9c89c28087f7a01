#include "base/names.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

enum class Side { kLeft, kRight, kNowhere };
constexpr Named<Side> kSides[] = {{"left", Side::kLeft}, {"right", Side::kRight}};

TEST(Names, BothWays) {
  EXPECT_EQ(name_of(kSides, Side::kRight), "right");
  EXPECT_EQ(value_of(kSides, "left"), Side::kLeft);
  EXPECT_EQ(value_of(kSides, "Left"), std::nullopt);
  EXPECT_EQ(value_of(kSides, ""), std::nullopt);
  EXPECT_DEATH(static_cast<void>(name_of(kSides, Side::kNowhere)), "internal error");
}

Result<> read_side(const char* text, Side& side) {
  const Json json = Json::parse(text, "f.json").value();
  ObjectReader reader(json, "f.json");
  read_choice(reader, "side", kSides, side);
  return reader.finish();
}

TEST(Names, AChoiceOfAFile) {
  Side side = Side::kNowhere;
  EXPECT_TRUE(read_side("{}", side).ok());
  EXPECT_EQ(side, Side::kNowhere);
  EXPECT_TRUE(read_side(R"({"side": "right"})", side).ok());
  EXPECT_EQ(side, Side::kRight);
  EXPECT_EQ(read_side(R"({"side": "up"})", side).error().message,
            "f.json: \"side\" is \"up\"; it must be one of left, right");
  EXPECT_FALSE(read_side(R"({"side": 1})", side).ok());
  EXPECT_EQ(side, Side::kRight);
}

}  // namespace
}  // namespace nibble
