#include "base/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/testing.h"
#include "base/text.h"

namespace nibble {
namespace {

// The environment of an ordinary terminal, whatever runs the tests.
struct PlainEnvironment {
  ScopedEnvironment columns{"COLUMNS", nullptr};
  ScopedEnvironment no_color{"NO_COLOR", nullptr};
  ScopedEnvironment term{"TERM", "xterm"};
};

TEST(Style, APipeGetsNeitherColourNorWidth) {
  const PlainEnvironment environment;
  const ScopedEnvironment columns("COLUMNS", "70");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Style style = Style::for_descriptor(ends[1]);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(style.colour);
  EXPECT_EQ(style.width, 0U);
  EXPECT_EQ(Style::for_descriptor(-1).width, 0U);
}

TEST(Style, ATerminalIsAskedForItsWidth) {
  const PlainEnvironment environment;
  const PseudoTerminal terminal(123);
  if (!terminal.open()) GTEST_SKIP() << "no pseudo terminal";
  const Style style = Style::for_descriptor(terminal.descriptor());
  EXPECT_TRUE(style.colour);
  EXPECT_EQ(style.width, 123U);
}

TEST(Style, ColumnsWinsWhenItIsANumber) {
  const PlainEnvironment environment;
  const PseudoTerminal terminal(123);
  const PseudoTerminal unsized(0);
  if (!terminal.open() || !unsized.open()) GTEST_SKIP() << "no pseudo terminal";
  const auto width = [](const PseudoTerminal& t, const char* columns) {
    const ScopedEnvironment scoped("COLUMNS", columns);
    return Style::for_descriptor(t.descriptor()).width;
  };
  EXPECT_EQ(width(terminal, "70"), 70U);
  EXPECT_EQ(width(terminal, ""), 123U);
  EXPECT_EQ(width(terminal, "0"), 123U);
  EXPECT_EQ(width(terminal, "-5"), 123U);
  EXPECT_EQ(width(terminal, "70x"), 123U);
  EXPECT_EQ(width(unsized, nullptr), 80U);
}

TEST(Style, NoColorAndDumbTerminalsGetNoColour) {
  const PlainEnvironment environment;
  const PseudoTerminal terminal(80);
  if (!terminal.open()) GTEST_SKIP() << "no pseudo terminal";
  const auto coloured = [&](const char* name, const char* value) {
    const ScopedEnvironment scoped(name, value);
    return Style::for_descriptor(terminal.descriptor()).colour;
  };
  EXPECT_FALSE(coloured("NO_COLOR", "1"));
  EXPECT_FALSE(coloured("NO_COLOR", "0"));  // any value but the empty one (no-color.org)
  EXPECT_TRUE(coloured("NO_COLOR", ""));
  EXPECT_FALSE(coloured("TERM", "dumb"));
}

TEST(Style, EmphasisIsAnsiOrNothing) {
  const Style colour{.colour = true, .width = 80};
  EXPECT_EQ(colour.bad("x"), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(colour.good("x"), "\x1b[32mx\x1b[0m");
  EXPECT_EQ(colour.warning("x"), "\x1b[33mx\x1b[0m");
  EXPECT_EQ(colour.strong(""), "");
  for (const std::string& text : {Style::plain().bad("x"), Style::plain().heading("x"),
                                  Style::plain().faint("x"), Style::plain().strong("x")}) {
    EXPECT_EQ(text, "x");
  }
}

TEST(Wrap, BreaksAtSpaces) {
  const Style style{.colour = false, .width = 24};
  //         1234567890123456789012 (22 columns remain beside an indent of 2)
  EXPECT_EQ(style.wrap("the ridge lies at 1,158 FLOP per byte", 2),
            "the ridge lies at\n  1,158 FLOP per byte");
  // Exactly 22 columns fit.
  EXPECT_EQ(style.wrap("1234567890 12345678901 x", 2), "1234567890 12345678901\n  x");
}

TEST(Wrap, AWidthOfZeroDoesNotBreak) {
  const std::string sentence(500, 'a');
  EXPECT_EQ(Style::plain().wrap(sentence + " b", 2), sentence + " b");
  EXPECT_EQ(Style::plain().wrap("a\nb\n\nc", 2), "a\n  b\n\n  c");
}

TEST(Wrap, CountsColumnsNotBytes) {
  // Twelve micro signs (24 bytes, 12 columns) and 10 more columns are 23 with the space.
  std::string micro;
  for (int index = 0; index < 12; ++index) micro += "\xC2\xB5";
  const Style style{.colour = true, .width = 23};
  EXPECT_EQ(style.wrap(micro + " 1234567890", 0), micro + " 1234567890");
  EXPECT_EQ(style.wrap(micro + " " + style.bad("1234567890"), 0),
            micro + " " + style.bad("1234567890"));
}

TEST(Wrap, LongWordsStandAlone) {
  const Style style{.colour = false, .width = 20};
  const std::string path(40, 'p');
  EXPECT_EQ(style.wrap("see " + path + " there", 0), "see\n" + path + "\nthere");
  EXPECT_EQ(style.wrap("", 4), "");
  // An indent beyond the width leaves 20 columns instead of none.
  EXPECT_EQ(style.wrap("aaaa bbbb", 50), "aaaa bbbb");
}

}  // namespace
}  // namespace nibble
