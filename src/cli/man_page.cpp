#include "base/text.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

// Text as groff prints it: the backslash and the hyphen have a meaning of their own, and so has a
// full stop or an apostrophe at the start of a line.
std::string escape(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
  }
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped.insert(0, "\\&");
  return escaped;
}

std::string paragraphs(std::string_view text) {
  std::string source;
  bool begin = true;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) {
      begin = true;
      continue;
    }
    if (begin) source += ".PP\n";
    begin = false;
    source += escape(trim(line)) + "\n";
  }
  return source;
}

std::string entry(std::string_view left, std::string_view help) {
  return ".TP\n\\fB" + escape(left) + "\\fR\n" + escape(help) + ".\n";
}

// The name in bold, the kind of value in italics.
std::string option_entry(const OptionDef& option) {
  std::string left = "\\fB" + escape(join(option_names(option), ", ")) + "\\fR";
  if (!is_switch(option)) left += " \\fI" + escape(option.value) + "\\fR";
  return ".TP\n" + left + "\n" + escape(describe_help(option)) + ".\n";
}

std::string command_section(const CommandDef& command) {
  std::string source = ".SS \"" + escape(describe_usage(command)) + "\"\n";
  source += paragraphs(command.description.empty() ? command.summary : command.description);
  for (const OptionDef& operand : command.operands) {
    source += entry(operand.name, describe_help(operand));
  }
  for (const OptionGroup& group : option_groups(command)) {
    source += ".PP\n\\fI" + escape(group.title) + "\\fR\n";
    for (const OptionDef& option : group.options) source += option_entry(option);
  }
  return source;
}

std::string examples_section(std::span<const CommandDef> commands) {
  std::string source = ".SH EXAMPLES\n";
  for (const CommandDef& command : commands) {
    for (const auto& [line, what] : command.examples) source += entry(line, what);
  }
  return source;
}

std::string closing_sections() {
  return ".SH EXIT STATUS\n" + entry("0", "done") + entry("1", "the run failed") +
         entry("2", "a fault in the command line or in a file that was given") +
         entry("3", "done, but a check that was asked for did not hold") + ".SH ENVIRONMENT\n" +
         entry("NO_COLOR", "when set, nothing is coloured") +
         entry("XDG_CACHE_HOME", "where the cache folder stands (default: ~/.cache)") +
         entry("CUDA_VISIBLE_DEVICES", "the GPUs that the driver shows");
}

}  // namespace

std::string man_page(std::span<const CommandDef> commands) {
  std::string source = ".TH NIBBLE 1 \"\" \"nibble " + escape(version()) + "\" \"nibble manual\"\n";
  source += ".SH NAME\nnibble \\- says why a 4\\-bit mixture\\-of\\-experts model is slow\n";
  source += ".SH SYNOPSIS\n.B nibble\n.I COMMAND\n[\\fIOPTION\\fR]...\n";
  source += ".SH DESCRIPTION\n";
  source += paragraphs(
      "nibble measures the machine, the kernels and the running server of a 4-bit "
      "mixture-of-experts model, holds all three against the physical floor, and says what holds "
      "the deployment back and what each change would win.\n\n"
      "Every command prints a table for people, and a JSON document with --json where it has one.");
  source += ".SH COMMANDS\n";
  for (const CommandDef& command : commands) source += command_section(command);
  return source + examples_section(commands) + closing_sections();
}

}  // namespace nibble::cli
