#include <gtest/gtest.h>
#include <set>

#include "base/text.h"
#include "cli/command.h"
#include "cli/describe.h"

namespace nibble::cli {
namespace {

using Words = std::vector<std::string>;

CommandDef sample_command() {
  return {.name = "paint",
          .summary = "paints",
          .options = {{.name = "--model", .value = "NAME|FILE", .kind = ValueKind::kModel},
                      {.name = "--machine", .aliases = {"--gpu", "-m"}, .value = "NAME"},
                      {.name = "--set", .value = "PATH=VALUE", .repeatable = true},
                      {.name = "--peak-is",
                       .value = "HOW",
                       .kind = ValueKind::kChoice,
                       .choices = {"dense", "sparse"}},
                      {.name = "--quick", .aliases = {"-q"}}}};
}

Arguments parse(const Words& words) {
  const Result<Arguments> result = parse_arguments(sample_command(), words);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? *result : Arguments{};
}

std::string fault(const CommandDef& command, const Words& words) {
  const Result<Arguments> result = parse_arguments(command, words);
  if (result.ok()) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  return result.error().message;
}
std::string fault(const Words& words) {
  return fault(sample_command(), words);
}

TEST(Parse, NothingGivenIsNothing) {
  EXPECT_TRUE(parse({}).given.empty());
}

TEST(Parse, ValuesFollowAsAWordOrAfterAnEqualsSign) {
  const Arguments arguments = parse({"--model", "glm", "--machine=h200", "--quick"});
  EXPECT_EQ(arguments.text("--model"), "glm");
  EXPECT_EQ(arguments.text("--machine"), "h200");
  EXPECT_TRUE(arguments.has("--quick"));
  EXPECT_FALSE(arguments.has("--json"));
}

TEST(Parse, AliasesAreKeptUnderTheName) {
  EXPECT_EQ(parse({"--gpu", "h200"}).text("--machine"), "h200");
  EXPECT_EQ(parse({"-m", "h200"}).text("--machine"), "h200");
  EXPECT_TRUE(parse({"-q"}).has("--quick"));
  EXPECT_FALSE(parse({"--gpu", "h200"}).has("--gpu"));
}

TEST(Parse, ValuesAreKeptAsTheyAre) {
  // What a parser might take for an option, a list, a comment or an escape.
  for (const char* text : {"-5", "-", "[a,b]", "a,b", "{x}", "\"q\"", "'q'", "a=b", "a b", " ", "#",
                           "%", "\xc3\xa4", "a\nb", "@file", "\\n", "/help"}) {
    EXPECT_EQ(parse({"--set", text}).text("--set"), text);
    EXPECT_EQ(parse({std::string("--set=") + text}).text("--set"), text);
  }
}

TEST(Parse, RepeatableOptionsKeepEveryValue) {
  EXPECT_EQ(parse({"--set", "a=1", "--quick", "--set=b=2"}).all("--set"), (Words{"a=1", "b=2"}));
}

TEST(Parse, AnOptionIsGivenOnce) {
  EXPECT_EQ(fault({"--model", "a", "--model", "b"}), "--model is given 2 times; give it once");
  EXPECT_EQ(fault({"--machine=a", "--gpu", "b", "-m", "c"}),
            "--machine is given 3 times; give it once");
  EXPECT_EQ(fault({"--quick", "--quick"}), "");  // says the same twice
}

TEST(Parse, ValuesAreNeitherMissingNorEmpty) {
  EXPECT_EQ(fault({"--model"}), "--model needs a value; give NAME|FILE");
  EXPECT_EQ(fault({"--model", "--quick"}), "--model needs a value; the option --quick follows it");
  EXPECT_EQ(fault({"--model", "--gpu=a"}), "--model needs a value; the option --gpu=a follows it");
  EXPECT_EQ(fault({"--model="}), "--model is empty; give NAME|FILE");
  EXPECT_EQ(fault({"--model=", "x"}), "--model is empty; give NAME|FILE");
  EXPECT_EQ(fault({"--model", ""}), "--model is empty; give NAME|FILE");
  EXPECT_NE(fault({"-m"}), "");
}

TEST(Parse, SwitchesTakeNoValue) {
  EXPECT_EQ(fault({"--quick=yes"}), "--quick is a switch and takes no value; \"yes\" follows it");
  EXPECT_NE(fault({"--json=false"}), "");
  EXPECT_NE(fault({"--json="}), "");
}

TEST(Parse, ChoicesAreNamed) {
  EXPECT_EQ(parse({"--peak-is", "sparse"}).text("--peak-is"), "sparse");
  EXPECT_EQ(fault({"--peak-is", "Dense"}), "--peak-is is \"Dense\"; give one of dense, sparse");
}

TEST(Parse, UnknownOptionsAreAnsweredWithTheNearest) {
  EXPECT_EQ(fault({"--modl", "glm"}),
            "\"nibble paint\" has no option --modl; did you mean --model?");
  EXPECT_EQ(fault({"--modl=glm"}), "\"nibble paint\" has no option --modl; did you mean --model?");
  EXPECT_EQ(fault({"-model", "glm"}), "\"nibble paint\" has no option -model; write --model");
  EXPECT_EQ(fault({"--zzzzzz"}),
            "\"nibble paint\" has no option --zzzzzz; \"nibble paint --help\" lists what it takes");
  EXPECT_NE(fault({"--mod", "x"}), "");  // no abbreviations
  EXPECT_NE(fault({"--MODEL", "x"}), "");
  EXPECT_NE(fault({"-z"}), "");
  EXPECT_NE(fault({"---model", "x"}), "");
}

TEST(Parse, WordsWithoutAnOptionAreRefused) {
  EXPECT_EQ(fault({"stray", "--quick"}),
            "\"nibble paint\" does not take the word \"stray\"; \"nibble paint --help\" lists what "
            "it takes");
  EXPECT_NE(fault({"--", "stray"}), "");
  EXPECT_NE(fault({"--quick", "-"}), "");
  EXPECT_NE(fault({"++"}), "");
  EXPECT_NE(fault({""}), "");
  EXPECT_EQ(fault({"--"}), "");
}

TEST(Parse, OperandsAreKeptByName) {
  CommandDef command = sample_command();
  command.operands = {{.name = "SHELL",
                       .value = "SHELL",
                       .kind = ValueKind::kChoice,
                       .choices = {"bash", "zsh"},
                       .required = true}};
  const Result<Arguments> result = parse_arguments(command, Words{"--quick", "zsh"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->text("SHELL"), "zsh");
  EXPECT_TRUE(result->has("--quick"));
  EXPECT_EQ(fault(command, {}), "\"nibble paint\" needs SHELL: one of bash, zsh");
  EXPECT_EQ(fault(command, {"tcsh"}), "SHELL is \"tcsh\"; give one of bash, zsh");
  EXPECT_NE(fault(command, {"bash", "zsh"}), "");
}

TEST(Parse, JsonAndHelpAreAdded) {
  EXPECT_TRUE(parse({"--json"}).has("--json"));
  EXPECT_TRUE(parse({"-h"}).has("--help"));
  CommandDef without = sample_command();
  without.json = false;
  EXPECT_NE(fault(without, {"--json"}), "");
}

// Every definition of the program holds together: names are unique and well formed, each option and
// command is explained, choices stand where they belong, and the parser accepts the definition.
TEST(Commands, DefinitionsAreSound) {
  std::set<std::string> command_names;
  ASSERT_GE(commands().size(), 3u);
  for (const CommandDef& command : commands()) {
    SCOPED_TRACE(command.name);
    EXPECT_TRUE(command_names.insert(command.name).second);
    EXPECT_FALSE(command.summary.empty());
    EXPECT_FALSE(command.summary.ends_with('.'));
    EXPECT_FALSE(command.description.empty());
    EXPECT_TRUE(command.run);
    std::set<std::string> names;
    for (const OptionDef& option : all_options(command)) {
      SCOPED_TRACE(option.name);
      EXPECT_TRUE(option.name.starts_with("--"));
      for (const std::string& name : option_names(option)) {
        EXPECT_TRUE(names.insert(name).second) << name << " is defined twice";
        EXPECT_EQ(name.size() == 2, !name.starts_with("--")) << name;
      }
      EXPECT_FALSE(option.help.empty());
      EXPECT_FALSE(option.help.ends_with('.'));
      EXPECT_EQ(option.kind == ValueKind::kChoice, !option.choices.empty());
    }
    const Result<Arguments> parsed = parse_arguments(command, Words{"--help"});
    EXPECT_TRUE(parsed.ok() || !command.operands.empty());
  }
}

// As Python's nargs="+": one name, several values, up to the next option.
TEST(Parse, OneNameMayStandBeforeSeveralValues) {
  const CommandDef command = {.name = "load",
                              .options = {{.name = "--goodput", .value = "LIMIT", .several = true},
                                          {.name = "--tp", .value = "N"},
                                          {.name = "--dry"}}};
  const auto values = [&command](std::vector<std::string> words) {
    const auto arguments = parse_arguments(command, words);
    return arguments.ok() ? join(arguments->all("--goodput"), " ") : arguments.error().message;
  };
  EXPECT_EQ(values({"--goodput", "a", "b", "--tp", "4"}), "a b");
  EXPECT_EQ(values({"--goodput=a", "b", "--dry", "--goodput", "c"}), "a b c");
  EXPECT_EQ(values({"--goodput", "a", "--dry", "b"}),
            "\"nibble load\" does not take the word \"b\"; \"nibble load --help\" lists what it "
            "takes");
  EXPECT_EQ(values({"--tp", "4", "b"}),
            "\"nibble load\" does not take the word \"b\"; \"nibble load --help\" lists what it "
            "takes");
  EXPECT_EQ(values({"--goodput", "--dry"}), "--goodput needs a value; the option --dry follows it");
}

}  // namespace
}  // namespace nibble::cli
