// The words in which help, the manual page and the completions speak of an option.
//
//   describe_names(machine)  // "--machine, --gpu NAME|FILE"
//   describe_help(machine)   // "the machine (default: this)"
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace nibble::cli {

inline bool is_switch(const OptionDef& option) {
  return option.value.empty();
}

std::vector<std::string> option_names(const OptionDef& option);  // its name, then the aliases
std::string describe_names(const OptionDef& option);
std::string describe_help(const OptionDef& option);  // help, choices, repetition, default

// "nibble analyze [OPTION]...": what to write after the program's name.
std::string describe_usage(const CommandDef& command);

// Options by group, in the order of each group's first option.
struct OptionGroup {
  std::string title;
  std::vector<OptionDef> options;
};
std::vector<OptionGroup> option_groups(const CommandDef& command);

}  // namespace nibble::cli
