#include "tactics/logs/python_text.h"

#include <gtest/gtest.h>

namespace nibble::logs {
namespace {

using Items = std::vector<std::string_view>;

TEST(PythonText, TuplesSplitAtTheirOwnCommas) {
  EXPECT_EQ(tuple_items("('op', 'Runner', ((1, 2), ()))"),
            (Items{"'op'", "'Runner'", "((1, 2), ())"}));
  EXPECT_EQ(tuple_items("('a, (b', [1, 2],)"), (Items{"'a, (b'", "[1, 2]"}));
  EXPECT_EQ(tuple_items("()"), Items{});
  EXPECT_EQ(tuple_items("('open"), Items{});
  EXPECT_EQ(tuple_items("text"), Items{});
  EXPECT_EQ(tuple_items("(1, 2) and more"), (Items{"1", "2"}));
  EXPECT_EQ(tuple_items(R"(('it\'s', 1))"), (Items{R"('it\'s')", "1"}));
}

TEST(PythonText, ObjectsAreTheirClasses) {
  EXPECT_EQ(class_of_object("<flashinfer.fused_moe.core.get_cutlass_fused_moe_module.<locals>."
                            "MoERunner object at 0x7c70ccce8350>"),
            "MoERunner");
  EXPECT_EQ(class_of_object("<MoERunner>"), "MoERunner");
  EXPECT_EQ(class_of_object("Fp4GemmRunner"), "Fp4GemmRunner");
}

TEST(PythonText, RunnerAndTactic) {
  const RunnerAndTactic number = split_runner("<a.<locals>.MoERunner object at 0x7c> 15");
  EXPECT_EQ(number.runner, "MoERunner");
  EXPECT_EQ(number.tactic, "15");
  const RunnerAndTactic list = split_runner("<a.MoERunner object at 0xff> [32, 15]");
  EXPECT_EQ(list.tactic, "[32, 15]");
  const RunnerAndTactic plain = split_runner("<MoERunner> 14");
  EXPECT_EQ(plain.runner, "MoERunner");
  EXPECT_EQ(plain.tactic, "14");
  EXPECT_EQ(split_runner("Runner").tactic, "");
  EXPECT_EQ(split_runner("<a object at 0x1").runner, "a");
}

TEST(PythonText, SizesOfTorchReadAsCacheKeys) {
  EXPECT_EQ(plain_shape("[torch.Size([64, 1024]), torch.Size([0])]"), "((64, 1024), (0))");
  EXPECT_EQ(plain_shape("((64, 1024), (0,))"), "((64, 1024), (0,))");
}

TEST(PythonText, AnOpenSizeIsNoNumber) {
  EXPECT_EQ(first_number("((64, 1024), (0,))"), 64);
  EXPECT_EQ(first_number("((-1, 288), (8,))"), std::nullopt);
  EXPECT_EQ(first_number("none"), std::nullopt);
  EXPECT_EQ(first_number("99999999999999999999999"), std::nullopt);
}

TEST(PythonText, TimesAreNumbersOrNone) {
  EXPECT_EQ(milliseconds_of("0.5"), 0.5);
  EXPECT_EQ(milliseconds_of("0.125ms."), 0.125);
  EXPECT_EQ(milliseconds_of("0"), 0.0);
  for (const char* none : {"inf", "infms", "-inf", "nan", "-1", "1e300", "ms", ""}) {
    EXPECT_EQ(milliseconds_of(none), std::nullopt) << none;
  }
}

TEST(PythonText, BetweenEndsWithTheTextWhereTheEndIsMissing) {
  EXPECT_EQ(between("a=1, b=2", "a=", ", "), "1");
  EXPECT_EQ(between("a=1", "a=", ", "), "1");
  EXPECT_EQ(between("a=1", "c=", ", "), std::nullopt);
}

}  // namespace
}  // namespace nibble::logs
