#include "cli/describe.h"

#include <algorithm>

#include "base/text.h"

namespace nibble::cli {

std::vector<std::string> option_names(const OptionDef& option) {
  std::vector<std::string> names{option.name};
  names.insert(names.end(), option.aliases.begin(), option.aliases.end());
  return names;
}

std::string describe_names(const OptionDef& option) {
  const std::string names = join(option_names(option), ", ");
  return is_switch(option) ? names : names + " " + option.value;
}

std::string describe_help(const OptionDef& option) {
  std::string text = option.help;
  if (!option.choices.empty()) text += ": " + join(option.choices, ", ");
  std::vector<std::string> notes;
  if (option.repeatable) notes.push_back("may be repeated");
  if (option.several) notes.push_back("several, or repeated");
  if (!option.default_text.empty()) notes.push_back("default: " + option.default_text);
  if (!notes.empty()) text += " (" + join(notes, "; ") + ")";
  return text;
}

std::string describe_usage(const CommandDef& command) {
  std::string text = "nibble " + command.name;
  for (const OptionDef& operand : command.operands) {
    text += operand.required ? " " + operand.name : " [" + operand.name + "]";
  }
  return text + " [OPTION]...";
}

std::vector<OptionGroup> option_groups(const CommandDef& command) {
  std::vector<OptionGroup> groups;
  for (OptionDef& option : all_options(command)) {
    const std::string title = option.group.empty() ? "Options" : option.group;
    const auto same = [&title](const OptionGroup& group) { return group.title == title; };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {title, {}});
    group->options.push_back(std::move(option));
  }
  return groups;
}

}  // namespace nibble::cli
