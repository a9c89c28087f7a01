// The commands that print what the definitions say: help, shell completions, the manual page.
#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"

namespace nibble::cli {
namespace {

Result<int> run_help(const Arguments& arguments) {
  const std::optional<std::string> name = arguments.text("COMMAND");
  const Style style = Style::for_stdout();
  if (!name) {
    fmt::print("{}", program_help(commands(), style));
    return 0;
  }
  for (const CommandDef& command : commands()) {
    if (command.name == *name) fmt::print("{}", command_help(command, style));
  }
  return 0;
}

Result<int> run_completion(const Arguments& arguments) {
  const std::string shell = arguments.text("SHELL").value_or("bash");
  const Shell kind = shell == "zsh" ? Shell::kZsh : shell == "fish" ? Shell::kFish : Shell::kBash;
  fmt::print("{}", completion_script(kind, commands(), catalog_names()));
  return 0;
}

Result<int> run_man(const Arguments&) {
  fmt::print("{}", man_page(commands()));
  return 0;
}

CommandDef help_command(std::span<const CommandDef> others) {
  OptionDef operand{.name = "COMMAND",
                    .value = "COMMAND",
                    .kind = ValueKind::kChoice,
                    .help = "the command to explain"};
  for (const CommandDef& command : others) operand.choices.push_back(command.name);
  return {.name = "help",
          .summary = "what nibble or one of its commands does and takes",
          .description = "Prints the commands, or what one command does and takes.",
          .run = run_help,
          .operands = {operand},
          .json = false};
}

CommandDef completion_command() {
  return {.name = "completion",
          .summary = "completions for a shell",
          .description =
              "Prints a script that makes the shell complete commands, options and their values, "
              "with the names of the built-in models, machines and cases.",
          .examples = {{"source <(nibble completion bash)", "complete in this shell"}},
          .run = run_completion,
          .operands = {{.name = "SHELL",
                        .value = "SHELL",
                        .kind = ValueKind::kChoice,
                        .help = "the shell",
                        .choices = {"bash", "zsh", "fish"},
                        .required = true}},
          .json = false};
}

CommandDef man_command() {
  return {.name = "man",
          .summary = "the manual page",
          .description = "Prints the manual page nibble(1) as groff source.",
          .examples = {{"nibble man | man -l -", "read it"}},
          .run = run_man,
          .json = false};
}

}  // namespace

std::vector<CommandDef> documentation_commands(std::span<const CommandDef> others) {
  std::vector<CommandDef> list{completion_command(), man_command()};
  std::vector<CommandDef> explained(others.begin(), others.end());
  explained.insert(explained.end(), list.begin(), list.end());
  list.push_back(help_command(explained));
  return list;
}

}  // namespace nibble::cli
