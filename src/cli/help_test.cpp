#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

CommandDef sample() {
  return {.name = "paint",
          .summary = "paints",
          .options = {{.name = "--colour",
                       .aliases = {"-c"},
                       .value = "NAME",
                       .kind = ValueKind::kChoice,
                       .help = "the colour",
                       .default_text = "red",
                       .choices = {"red", "blue"}},
                      {.name = "--a-very-long-option-name", .value = "VALUE", .help = "long"},
                      {.name = "--dry", .help = "for a start", .repeatable = true, .group = "Air"}},
          .examples = {{"nibble paint", "paint it red"}}};
}

// The help of one command, letter by letter: groups in order, columns aligned, wide names on a line
// of their own, examples last.
TEST(Help, ListsGroupsAlignedAndExamplesLast) {
  EXPECT_EQ(command_help(sample(), Style::plain()),
            "nibble paint: paints\n"
            "\n"
            "Usage: nibble paint [OPTION]...\n"
            "\n"
            "Options:\n"
            "  --colour, -c NAME  the colour: red, blue (default: red)\n"
            "  --a-very-long-option-name VALUE\n"
            "                     long\n"
            "  --json             print a JSON document instead of tables\n"
            "  --help, -h         print this help\n"
            "\n"
            "Air:\n"
            "  --dry  for a start (may be repeated)\n"
            "\n"
            "Examples:\n"
            "  nibble paint\n"
            "      paint it red\n");
}

TEST(Help, FitsTheWidth) {
  const std::string help = command_help(sample(), {.colour = false, .width = 40});
  for (const std::string& line : split(help, '\n')) {
    EXPECT_LE(display_width(line), 40u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, BreaksExamplesAsAShellReadsThem) {
  CommandDef command = sample();
  command.examples = {{"nibble paint --colour red --dry", "paint it"}};
  const std::string help = command_help(command, {.colour = false, .width = 24});
  // 24 columns, less 2 for " \\" and 4 of indent: at least 20 for the words, as wrap() keeps.
  EXPECT_NE(help.find("\n  nibble paint \\\n    --colour red --dry\n"), std::string::npos) << help;
}

TEST(Help, OfTheProgramNamesEveryCommand) {
  const std::vector<CommandDef> two = {sample(), {.name = "dry", .summary = "dries"}};
  const std::string help = program_help(two, Style::plain());
  EXPECT_NE(help.find("\n  paint  paints\n"), std::string::npos);
  EXPECT_NE(help.find("\n  dry    dries\n"), std::string::npos);
  EXPECT_NE(help.find("--version"), std::string::npos);
}

TEST(Version, SaysWhichLibrariesAreFound) {
  const std::vector<LibraryStatus> libraries = {
      {.name = "NVML", .version = "12.9", .path = "/lib/a.so", .reason = "", .gives = ""},
      {.name = "cuBLASLt", .version = "", .path = "", .reason = "no such file", .gives = ""}};
  const std::vector<std::string> lines = split(version_text(libraries), '\n');
  ASSERT_EQ(lines.size(), 6u);  // program, build, compiler, two libraries, nothing after the last
  EXPECT_EQ(lines[0], "nibble " + std::string(version()));
  EXPECT_TRUE(lines[1].starts_with("build     "));
  EXPECT_TRUE(lines[2].starts_with("compiler  "));
  EXPECT_EQ(lines[3], "NVML      12.9 (/lib/a.so)");
  EXPECT_EQ(lines[4], "cuBLASLt  not found: no such file");
  EXPECT_EQ(lines[5], "");
}

}  // namespace
}  // namespace nibble::cli
