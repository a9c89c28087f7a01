// Command definitions as data: the parser, --help, the man page and the shell completions are all
// made from them, so they cannot disagree.
//
//   const CommandDef kDoctor{.name = "doctor", .summary = "what this machine has", .run =
//   run_doctor};
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/terminal.h"

namespace nibble::cli {

// What a value may be, for completions and for the first check of it.
enum class ValueKind {
  kNone,  // a switch
  kText,
  kInteger,
  kNumber,
  kIntegerList,
  kChoice,
  kFile,
  kDirectory,
  kModel,    // a catalog name, a file or a folder
  kMachine,  // a catalog name or a file
  kCase,     // a catalog name or a file
};

struct OptionDef {
  std::string name = {};                  // "--model"
  std::vector<std::string> aliases = {};  // "--gpu", "-j"
  std::string value = {};                 // "NAME|FILE|DIR" in --help; empty: a switch
  ValueKind kind = ValueKind::kText;      // ignored by a switch
  std::string help = {};                  // one sentence, lower case, no full stop
  std::string default_text = {};          // shown in --help; empty: none
  std::vector<std::string> choices = {};  // for kChoice
  bool repeatable = false;
  bool several = false;  // repeatable, and one name may stand before several values
  bool required = false;
  std::string group = {};  // heading in --help; empty: "Options"
};

// What was given on the command line, by option name (never by alias).
class Arguments {
 public:
  std::map<std::string, std::vector<std::string>, std::less<>> given;
  std::vector<std::string> command_line;  // for the report

  bool has(std::string_view option) const;
  std::optional<std::string> text(std::string_view option) const;  // the last one given
  std::vector<std::string> all(std::string_view option) const;
  // Usage errors name the option, the text and the range: "--tp is \"0\"; give a whole number of at
  // least 1".
  Result<std::optional<std::int64_t>> integer(std::string_view option, std::int64_t min,
                                              std::int64_t max = INT64_C(1) << 40) const;
  Result<std::optional<double>> number(std::string_view option, double min, double max,
                                       bool min_excluded = false) const;
  // "1,2,4", "1..64" (powers of two) or both: sorted, unique.
  Result<std::optional<std::vector<std::int64_t>>> integers(std::string_view option,
                                                            std::int64_t min,
                                                            std::int64_t max = INT64_C(1)
                                                                               << 40) const;
};

struct CommandDef {
  std::string name = {};
  std::string summary = {};             // one line
  std::string description = {};         // paragraphs for the man page, blank line between
  std::vector<OptionDef> options = {};  // --help is added, and --json unless `json` is false
  std::vector<std::pair<std::string, std::string>> examples = {};  // command line, what it does
  std::function<Result<int>(const Arguments&)> run = {};           // exit status, or an error
  std::vector<OptionDef> operands = {};  // words without dashes, by name: "SHELL"
  bool json = true;                      // has --json
};

// The options as a user may give them: the command's own, then --json and --help.
std::vector<OptionDef> all_options(const CommandDef& command);

// Reads the words after the command's name. Usage errors name the word and the nearest option.
Result<Arguments> parse_arguments(const CommandDef& command, std::span<const std::string> words);

// Every command, in the order of --help.
std::span<const CommandDef> commands();

// Parses and runs; prints errors as "nibble: sentence" on stderr; returns the exit status.
int run_program(int argc, const char* const* argv);

// `nibble --help` and `nibble COMMAND --help`.
std::string program_help(std::span<const CommandDef> commands, const Style& style);
std::string command_help(const CommandDef& command, const Style& style);

// groff source of nibble(1).
std::string man_page(std::span<const CommandDef> commands);

// The names that kModel, kMachine and kCase complete to.
struct CatalogNames {
  std::vector<std::string> models, machines, cases;
};
CatalogNames catalog_names();

enum class Shell { kBash, kZsh, kFish };
std::string completion_script(Shell shell, std::span<const CommandDef> commands,
                              const CatalogNames& names);

// `nibble help`, `nibble completion` and `nibble man`; `others` are the commands that help knows.
std::vector<CommandDef> documentation_commands(std::span<const CommandDef> others);

}  // namespace nibble::cli
