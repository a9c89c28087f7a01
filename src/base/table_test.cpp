#include "base/table.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace nibble {
namespace {

Table operations() {
  Table table({{"op"}, {"bytes", Align::kRight, 1}, {"floor", Align::kRight, 2}, {"bound by"}});
  table.row({"moe.gate_up", "679.5 MB", "425.4 us", "memory"});
  table.row({"attn", "1.2 MB", "0.8 us", ""});
  table.rule();
  table.row({Cell("sum", Emphasis::kStrong), "680.7 MB", Cell("426.2 us", Emphasis::kBad), ""});
  return table;
}

TEST(Table, PlainInAPipe) {
  EXPECT_EQ(operations().render(Style::plain()),
            "op              bytes     floor  bound by\n"
            "-----------  --------  --------  --------\n"
            "moe.gate_up  679.5 MB  425.4 us  memory\n"
            "attn           1.2 MB    0.8 us\n"
            "-----------  --------  --------  --------\n"
            "sum          680.7 MB  426.2 us\n");
}

TEST(Table, NoLineHasTrailingSpacesAndAllAreAligned) {
  for (const std::string& line : split(operations().render(Style::plain()), '\n')) {
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "[" << line << "]";
  }
}

TEST(Table, DropsColumnsOnANarrowTerminal) {
  // 41 columns in full; without "floor" (the highest number) 31.
  const Style exact{.colour = false, .width = 41};
  EXPECT_EQ(operations().render(exact), operations().render(Style::plain()));
  const Style narrow{.colour = false, .width = 40};
  EXPECT_EQ(operations().render(narrow),
            "op              bytes  bound by\n"
            "-----------  --------  --------\n"
            "moe.gate_up  679.5 MB  memory\n"
            "attn           1.2 MB\n"
            "-----------  --------  --------\n"
            "sum          680.7 MB\n"
            "not shown at this width: floor\n");
}

TEST(Table, NeverDropsColumnsOfOrderZero) {
  const Style tiny{.colour = false, .width = 5};
  const std::string text = operations().render(tiny);
  EXPECT_TRUE(text.starts_with("op           bound by\n")) << text;
  EXPECT_NE(text.find("bytes, floor"), std::string::npos) << text;
}

TEST(Table, OfEqualOrdersTheRightmostGoesFirst) {
  Table table({{"aaaa", Align::kLeft, 1}, {"bbbb", Align::kLeft, 1}, {"cccc"}});
  table.row({"1", "2", "3"});
  const Style style{.colour = false, .width = 12};  // 4 + 2 + 4 = 10 fits, 16 does not
  EXPECT_TRUE(table.render(style).starts_with("aaaa  cccc\n")) << table.render(style);
}

TEST(Table, BreaksTheTextOfALastColumnThatDoesNotFit) {
  Table table({{"part"}, {"detail"}});
  table.row({"NVML", "says which GPUs there are and how warm"})
      .row({"path", "/a/path/without/any/space/in/it"});
  // 30 columns: 4 and a gap of 2 leave 24.
  EXPECT_EQ(table.render({.width = 30}),
            "part  detail\n"
            "----  ------------------------\n"
            "NVML  says which GPUs there\n"
            "      are and how warm\n"
            "path  /a/path/without/any/spac\n"
            "      e/in/it\n");
  // Less than twenty columns of text would be harder to read than a line that runs over.
  EXPECT_NE(table.render({.width = 24}).find("says which GPUs there are and how warm"),
            std::string::npos);
}

TEST(Table, ColoursDoNotShiftColumns) {
  const Style colour{.colour = true, .width = 80};
  const std::string text = operations().render(colour);
  EXPECT_NE(text.find("\x1b[31m426.2 us\x1b[0m"), std::string::npos);
  const std::vector<std::string> coloured = split(text, '\n');
  const std::vector<std::string> plain = split(operations().render(Style::plain()), '\n');
  ASSERT_EQ(coloured.size(), plain.size());
  for (std::size_t line = 0; line < plain.size(); ++line) {
    EXPECT_EQ(display_width(coloured[line]), plain[line].size());
  }
}

TEST(Table, AlignsByColumnsNotBytes) {
  Table table({{"t", Align::kRight}, {"x"}});
  table.row({"5 \xC2\xB5s", "a"}).row({"1000 s", "b"});
  EXPECT_EQ(table.render(Style::plain()),
            "     t  x\n"
            "------  -\n"
            "  5 \xC2\xB5s  a\n"
            "1000 s  b\n");
}

TEST(Table, CellsCannotBreakTheLineOrMoveTheCursor) {
  Table table({{"name"}});
  table.row({"a\nb\x1b[2J"});
  EXPECT_EQ(table.render(Style::plain()), "name\n-------\na?b?[2J\n");
}

TEST(Table, WithoutRowsThereIsStillAHeader) {
  EXPECT_EQ(Table({{"a"}, {"b"}}).render(Style::plain()), "a  b\n-  -\n");
}

TEST(Markdown, EscapesWhatMarkdownInterprets) {
  Table table({{"kernel"}, {"us", Align::kRight}});
  table.row({"gemm<128|64> 2*M*N", "1.5"}).rule();
  table.row({Cell("all", Emphasis::kStrong), "3"});
  EXPECT_EQ(table.render_markdown(),
            "| kernel | us |\n"
            "| --- | ---: |\n"
            "| gemm\\<128\\|64> 2\\*M\\*N | 1.5 |\n"
            "| **all** | 3 |\n");
}

TEST(TableDeathTest, ARowMustHaveACellAColumn) {
  EXPECT_DEATH(Table({{"a"}, {"b"}}).row({"1"}), "internal error");
}

}  // namespace
}  // namespace nibble
