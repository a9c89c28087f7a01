#include <algorithm>

#include "base/text.h"
#include "cli/command.h"
#include "cli/describe.h"

namespace nibble::cli {
namespace {

// The words that a value completes to.
std::vector<std::string> words_of(const OptionDef& option, const CatalogNames& names) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return option.choices;
    case ValueKind::kModel:
      return names.models;
    case ValueKind::kMachine:
      return names.machines;
    case ValueKind::kCase:
      return names.cases;
    default:
      return {};
  }
}

enum class Paths { kNone, kFiles, kDirectories };

Paths paths_of(const OptionDef& option) {
  switch (option.kind) {
    case ValueKind::kFile:
    case ValueKind::kModel:
    case ValueKind::kMachine:
    case ValueKind::kCase:
      return Paths::kFiles;
    case ValueKind::kDirectory:
      return Paths::kDirectories;
    default:
      return Paths::kNone;
  }
}

// 'text' for a POSIX shell: an apostrophe ends the quotes, stands escaped, and opens them again.
std::string quote(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::vector<std::string> command_names(std::span<const CommandDef> commands) {
  std::vector<std::string> names;
  for (const CommandDef& command : commands) names.push_back(command.name);
  return names;
}

// ---- bash ------------------------------------------------------------------------------------

std::string bash_value(const OptionDef& option, const CatalogNames& names) {
  std::string call;
  const std::vector<std::string> words = words_of(option, names);
  if (!words.empty()) call += "_nibble_words " + quote(join(words, " "));
  const Paths paths = paths_of(option);
  if (paths != Paths::kNone) {
    const std::string fill =
        paths == Paths::kFiles ? "_nibble_paths file" : "_nibble_paths directory";
    // A name of the catalog comes before a file of that name.
    call += call.empty() ? fill : "; if [[ ${#COMPREPLY[@]} -eq 0 ]]; then " + fill + "; fi";
  }
  return call.empty() ? ":" : call;
}

std::string bash_command(const CommandDef& command, const CatalogNames& names) {
  std::vector<std::string> words;
  std::string values;
  for (const OptionDef& option : all_options(command)) {
    const std::vector<std::string> option_words = option_names(option);
    words.insert(words.end(), option_words.begin(), option_words.end());
    if (is_switch(option)) continue;
    values +=
        "        " + join(option_words, "|") + ") " + bash_value(option, names) + "; return ;;\n";
  }
  std::string text = "    " + command.name + ")\n";
  if (!values.empty()) text += "      case $previous in\n" + values + "      esac\n";
  for (const OptionDef& operand : command.operands) {
    text += "      [[ $current != -* ]] && { " + bash_value(operand, names) + "; return; }\n";
  }
  return text + "      _nibble_words " + quote(join(words, " ")) + " ;;\n";
}

std::string bash_script(std::span<const CommandDef> commands, const CatalogNames& names) {
  std::string text = R"(# bash completion of nibble: source <(nibble completion bash)
_nibble_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
_nibble_paths() {
  compopt -o filenames 2>/dev/null || true
  mapfile -t COMPREPLY < <(compgen -A "$1" -- "$current")
}
_nibble() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # bash breaks --option=value into three words
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' && COMP_CWORD -ge 2 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  if [[ COMP_CWORD -eq 1 ]]; then
)";
  text += "    _nibble_words " + quote(join(command_names(commands), " ") + " --help --version") +
          "\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const CommandDef& command : commands) text += bash_command(command, names);
  return text + "  esac\n}\ncomplete -F _nibble nibble\n";
}

// ---- zsh -------------------------------------------------------------------------------------

// Brackets and colons end parts of an _arguments specification.
std::string zsh_escape(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

// ":NAME:(a b)" or ":FILE:_files".
std::string zsh_value(const OptionDef& option, const CatalogNames& names) {
  const std::vector<std::string> words = words_of(option, names);
  const Paths paths = paths_of(option);
  const std::string files = paths == Paths::kDirectories ? "_files -/" : "_files";
  std::string action = " ";
  if (!words.empty() && paths != Paths::kNone) {
    action = " _nibble_either " + join(words, " ");  // a blank first: called as it stands
  } else if (!words.empty()) {
    action = "(" + join(words, " ") + ")";
  } else if (paths != Paths::kNone) {
    action = files;
  }
  return ":" + zsh_escape(option.value) + ":" + action;
}

std::string zsh_command(const CommandDef& command, const CatalogNames& names) {
  std::string text = "        " + command.name + ")\n          _arguments -s";
  for (const OptionDef& option : all_options(command)) {
    const std::vector<std::string> option_words = option_names(option);
    const bool again = option.repeatable || option.several;
    const std::string excluded = again ? "*" : "(" + join(option_words, " ") + ")";
    for (const std::string& name : option_words) {
      // "--option=": the value may follow as the next word or after an equals sign
      const std::string long_form = !is_switch(option) && name.starts_with("--") ? "=" : "";
      std::string specification = excluded + name + long_form + "[" + zsh_escape(option.help) + "]";
      if (!is_switch(option)) specification += zsh_value(option, names);
      text += " \\\n            " + quote(specification);
    }
  }
  for (const OptionDef& operand : command.operands) {
    text += " \\\n            " + quote("1" + zsh_value(operand, names));
  }
  return text + " ;;\n";
}

std::string zsh_script(std::span<const CommandDef> commands, const CatalogNames& names) {
  std::string text = R"(#compdef nibble
# zsh completion of nibble: save as _nibble in a folder of $fpath
# One of the names, else a file.
_nibble_either() { compadd -- "$@" || _files }
_nibble() {
  local context state line
  typeset -A opt_args
  _arguments -C '--help[print help]' '--version[print the version]' '1:command:->command' '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
)";
  for (const CommandDef& command : commands) {
    text += "        " + quote(command.name + ":" + zsh_escape(command.summary)) + "\n";
  }
  text += R"(      )
      _describe 'command' commands ;;
    argument)
      case $words[1] in
)";
  for (const CommandDef& command : commands) text += zsh_command(command, names);
  return text + R"(      esac ;;
  esac
}
if [[ $funcstack[1] == _nibble ]]; then
  _nibble "$@"
else
  compdef _nibble nibble
fi
)";
}

// ---- fish ------------------------------------------------------------------------------------

// 'text' for fish, where a backslash escapes inside the quotes.
std::string fish_quote(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

std::string fish_value(const OptionDef& option, const CatalogNames& names) {
  const std::vector<std::string> words = words_of(option, names);
  std::string text = " -r";
  text += paths_of(option) == Paths::kNone ? " -f" : " -F";
  if (paths_of(option) == Paths::kDirectories) text = " -r -f -a '(__fish_complete_directories)'";
  if (!words.empty()) text += " -a " + fish_quote(join(words, " "));
  return text;
}

std::string fish_command(const CommandDef& command, const CatalogNames& names) {
  const std::string condition =
      "complete -c nibble -n " + fish_quote("__fish_seen_subcommand_from " + command.name);
  std::string text = "complete -c nibble -n __fish_use_subcommand -f -a " + command.name + " -d " +
                     fish_quote(command.summary) + "\n";
  for (const OptionDef& option : all_options(command)) {
    text += condition;
    for (const std::string& name : option_names(option)) {
      const bool is_long = name.starts_with("--");
      text += is_long ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += is_switch(option) ? " -f" : fish_value(option, names);
    text += " -d " + fish_quote(option.help) + "\n";
  }
  for (const OptionDef& operand : command.operands) {
    const bool folders = paths_of(operand) == Paths::kDirectories;
    const std::string choices = folders ? "'(__fish_complete_directories)'"
                                        : fish_quote(join(words_of(operand, names), " "));
    text += condition + " -f -a " + choices + "\n";
  }
  return text;
}

std::string fish_script(std::span<const CommandDef> commands, const CatalogNames& names) {
  std::string text =
      "# fish completion of nibble: nibble completion fish | source\n"
      "complete -c nibble -f\n"
      "complete -c nibble -n __fish_use_subcommand -l help -d 'print help'\n"
      "complete -c nibble -n __fish_use_subcommand -l version -d 'print the version'\n";
  for (const CommandDef& command : commands) text += fish_command(command, names);
  return text;
}

}  // namespace

std::string completion_script(Shell shell, std::span<const CommandDef> commands,
                              const CatalogNames& names) {
  switch (shell) {
    case Shell::kZsh:
      return zsh_script(commands, names);
    case Shell::kFish:
      return fish_script(commands, names);
    case Shell::kBash:
      break;
  }
  return bash_script(commands, names);
}

}  // namespace nibble::cli
