// The manual page and the completions are tried in the programs that read them: bash, zsh, fish and
// groff. A shell that is not installed is skipped, with the reason printed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing.h"
#include "base/text.h"
#include "cli/command.h"

namespace nibble::cli {
namespace {

struct Output {
  int status = -1;
  std::string text;  // stdout and stderr
};

Output run_shell(const std::string& line) {
  Output output;
  std::FILE* pipe = popen(("{ " + line + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.text.append(buffer, count);
  }
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

bool installed(const std::string& program) {
  return run_shell("command -v " + program).status == 0;
}

// What the shells find hard: quotes, brackets, colons, backslashes, a leading full stop.
std::vector<CommandDef> sample_commands() {
  return {{.name = "paint",
           .summary = "paints [a wall]: it's \"fresh\"",
           .description = ".first a full stop\n\n'then an apostrophe and a \\ backslash",
           .options =
               {{.name = "--model",
                 .value = "NAME|FILE",
                 .kind = ValueKind::kModel,
                 .help = "the model's name [or file]: \"glm\", a\\b or $HOME `x`"},
                {.name = "--machine",
                 .aliases = {"--gpu", "-m"},
                 .value = "NAME",
                 .kind = ValueKind::kMachine,
                 .help = "the machine"},
                {.name = "--how",
                 .value = "HOW",
                 .kind = ValueKind::kChoice,
                 .help = "how",
                 .choices = {"dense", "sparse"}},
                {.name = "--into", .value = "DIR", .kind = ValueKind::kDirectory, .help = "where"},
                {.name = "--tp", .value = "N", .kind = ValueKind::kInteger, .help = "ranks"},
                {.name = "--quick", .help = "a switch", .repeatable = true}},
           .examples = {{".x 'y' \\z", "-dashes"}}},
          {.name = "show",
           .summary = "shows",
           .operands = {{.name = "WALL",
                         .value = "WALL",
                         .kind = ValueKind::kChoice,
                         .choices = {"north", "south"},
                         .required = true}},
           .json = false}};
}

const CatalogNames kNames{.models = {"glm-5-nvfp4", "gpt-oss-120b"},
                          .machines = {"h100", "h200", "this"},
                          .cases = {"one"}};

class Generated : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  // What bash offers after `words`, of which the last is being typed. `files` are in the folder.
  std::vector<std::string> complete(const std::vector<std::string>& words,
                                    const std::vector<std::string>& files = {}) const {
    const std::string script =
        write("nibble.bash", completion_script(Shell::kBash, sample_commands(), kNames));
    const std::filesystem::path folder = directory_ / "folder";
    std::filesystem::create_directory(folder);
    for (const std::string& file : files) std::ofstream(folder / file) << "x";
    std::string line = "set -eu; cd " + folder.string() + "; source " + script + "; COMP_WORDS=(";
    for (const std::string& word : words) line += "'" + word + "' ";
    line += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
            "; _nibble nibble; for reply in \"${COMPREPLY[@]}\"; do echo \"$reply\"; done";
    const Output output = run_shell("bash -c '" + quote(line) + "'");
    EXPECT_EQ(output.status, 0) << output.text;
    std::vector<std::string> replies = split(output.text, '\n');
    replies.pop_back();  // after the last line's end
    std::sort(replies.begin(), replies.end());
    return replies;
  }

  static std::string quote(const std::string& text) {
    std::string quoted;
    for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
    return quoted;
  }

  TemporaryFolder temporary_;
  const std::filesystem::path& directory_ = temporary_.path();
};

using Replies = std::vector<std::string>;

TEST_F(Generated, BashOffersCommandsFirst) {
  EXPECT_EQ(complete({"nibble", ""}), (Replies{"--help", "--version", "paint", "show"}));
  EXPECT_EQ(complete({"nibble", "p"}), (Replies{"paint"}));
  EXPECT_EQ(complete({"nibble", "x"}), (Replies{}));
}

TEST_F(Generated, BashOffersTheOptionsOfTheCommand) {
  EXPECT_EQ(complete({"nibble", "paint", "--m"}), (Replies{"--machine", "--model"}));
  EXPECT_EQ(complete({"nibble", "paint", "--tp", "4", "--q"}), (Replies{"--quick"}));
  EXPECT_EQ(complete({"nibble", "show", "-"}), (Replies{"--help", "-h"}));
  EXPECT_EQ(complete({"nibble", "unknown", "-"}), (Replies{}));
}

TEST_F(Generated, BashOffersValues) {
  EXPECT_EQ(complete({"nibble", "paint", "--how", ""}), (Replies{"dense", "sparse"}));
  EXPECT_EQ(complete({"nibble", "paint", "-m", "h"}), (Replies{"h100", "h200"}));
  EXPECT_EQ(complete({"nibble", "paint", "--gpu", "t"}), (Replies{"this"}));
  EXPECT_EQ(complete({"nibble", "paint", "--tp", ""}), (Replies{}));
  EXPECT_EQ(complete({"nibble", "show", ""}), (Replies{"north", "south"}));
  EXPECT_EQ(complete({"nibble", "show", "n"}), (Replies{"north"}));
}

TEST_F(Generated, BashReadsEqualsSigns) {
  EXPECT_EQ(complete({"nibble", "paint", "--how", "="}), (Replies{"dense", "sparse"}));
  EXPECT_EQ(complete({"nibble", "paint", "--how", "=", "d"}), (Replies{"dense"}));
}

TEST_F(Generated, BashOffersFilesWhereNoNameFits) {
  EXPECT_EQ(complete({"nibble", "paint", "--model", "g"}, {"grid.json"}),
            (Replies{"glm-5-nvfp4", "gpt-oss-120b"}));
  EXPECT_EQ(complete({"nibble", "paint", "--model", "co"}, {"config.json", "a b"}),
            (Replies{"config.json"}));
  EXPECT_EQ(complete({"nibble", "paint", "--model", "a"}, {"a b"}), (Replies{"a b"}));
  EXPECT_EQ(complete({"nibble", "paint", "--into", ""}, {"file"}), (Replies{}));
}

TEST_F(Generated, BashCompletesThisProgram) {
  const std::string script =
      write("real.bash", completion_script(Shell::kBash, commands(), catalog_names()));
  const Output output = run_shell(
      "bash -c 'set -eu; source " + script +
      "; COMP_WORDS=(nibble completion \"\"); COMP_CWORD=2; _nibble; echo ${COMPREPLY[@]}'");
  EXPECT_EQ(output.text, "bash zsh fish\n");
}

TEST_F(Generated, ZshReadsTheScript) {
  if (!installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  for (const auto& [name, list] :
       {std::pair{"sample", sample_commands()}, {"real", {commands().begin(), commands().end()}}}) {
    const std::string path = write(name, completion_script(Shell::kZsh, list, kNames));
    // Loads the script as a user would, and completes nothing: no message may appear.
    const Output output = run_shell("zsh -n " + path + " && zsh -f -c 'autoload -U compinit; " +
                                    "compinit -u -d " + path + ".dump; source " + path + "'");
    EXPECT_EQ(output.status, 0);
    EXPECT_EQ(output.text, "");
  }
}

// Types into an interactive zsh and waits for the one completion that each line has.
TEST_F(Generated, ZshCompletesWhatIsTyped) {
  if (!installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string path =
      write("_nibble", completion_script(Shell::kZsh, sample_commands(), kNames));
  std::string script =
      "zmodload zsh/zpty; zpty z zsh -f -i\n"
      "zpty -w z 'PS1=; stty columns 300; autoload -U compinit; compinit -u -d " +
      path + ".dump; source " + path + "; print READ\"\"Y'\n" + "zpty -r z shown '*READY*'\n";
  for (const auto& [typed, completed] : {std::pair{"pa", "nibble paint"},
                                         {"paint --mac", "--machine"},
                                         {"paint --model gl", "glm-5-nvfp4"},
                                         {"paint --model=gp", "gpt-oss-120b"},
                                         {"paint --gpu h2", "h200"},
                                         {"paint --how sp", "sparse"},
                                         {"show no", "north"}}) {
    script += std::string("zpty -w -n z $'\\C-unibble ") + typed + "\\t'; zpty -r z shown '*" +
              completed + "*' && print -r -- '" + completed + "'\n";
  }
  const Output output = run_shell("timeout 40 zsh -f " + write("type.zsh", script));
  EXPECT_EQ(output.text,
            "nibble paint\n--machine\nglm-5-nvfp4\ngpt-oss-120b\nh200\nsparse\nnorth\n");
}

TEST_F(Generated, FishOffersCommandsOptionsAndValues) {
  if (!installed("fish")) GTEST_SKIP() << "fish is not installed";
  const std::string path =
      write("nibble.fish", completion_script(Shell::kFish, sample_commands(), kNames));
  const auto offers = [&](const std::string& line) {
    const Output output =
        run_shell("HOME=" + directory_.string() + " fish --no-config -c 'source " + path +
                  "; complete -C \"" + line + "\"'");
    EXPECT_EQ(output.status, 0) << output.text;
    std::vector<std::string> words;
    for (const std::string& reply : split(output.text, '\n'))
      words.push_back(split(reply, '\t')[0]);
    words.pop_back();
    std::sort(words.begin(), words.end());
    return words;
  };
  EXPECT_EQ(offers("nibble p"), (Replies{"paint"}));
  EXPECT_EQ(offers("nibble paint --m"), (Replies{"--machine", "--model"}));
  EXPECT_EQ(offers("nibble paint --how "), (Replies{"dense", "sparse"}));
  EXPECT_EQ(offers("nibble show "), (Replies{"north", "south"}));
}

TEST_F(Generated, TheManualPageHasNoWarnings) {
  if (!installed("man")) GTEST_SKIP() << "man is not installed";
  for (const auto& [name, list] : {std::pair{"sample.1", sample_commands()},
                                   {"real.1", {commands().begin(), commands().end()}}}) {
    const std::string path = write(name, man_page(list));
    const Output output = run_shell("man --warnings -E UTF-8 -l -Tutf8 -Z " + path + " >/dev/null");
    EXPECT_EQ(output.status, 0);
    EXPECT_EQ(output.text, "") << name;
  }
}

TEST_F(Generated, TheManualPageShowsTextAsItIs) {
  if (!installed("man")) GTEST_SKIP() << "man is not installed";
  const std::string path = write("sample.1", man_page(sample_commands()));
  const Output output =
      run_shell("MANWIDTH=500 MANPAGER=cat LC_ALL=C.UTF-8 man -l " + path + " | col -bx");
  for (const char* text :
       {".first a full stop", "'then an apostrophe and a \\ backslash", ".x 'y' \\z", "-dashes.",
        "the model's name [or file]: \"glm\", a\\b or $HOME `x`.", "--machine, --gpu, -m NAME",
        "how: dense, sparse.", "nibble show WALL [OPTION]..."}) {
    EXPECT_NE(output.text.find(text), std::string::npos) << text << "\n" << output.text;
  }
}

}  // namespace
}  // namespace nibble::cli
