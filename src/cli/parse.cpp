// The command line, read by CLI11 from the definitions. CLI11 decides what each word is; the
// sentences for what it could not place are ours.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"
#include "cli/command.h"
#include "cli/describe.h"

namespace nibble::cli {
namespace {

const OptionDef* find_option(std::span<const OptionDef> options, std::string_view name) {
  for (const OptionDef& option : options) {
    const std::vector<std::string> names = option_names(option);
    if (std::find(names.begin(), names.end(), name) != names.end()) return &option;
  }
  return nullptr;
}

std::vector<std::string> words_of(std::string_view option) {
  std::vector<std::string> words = split(to_lower(option), '-');
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

// Whether one may have been meant by the other: a slip of the pen, or all words of the shorter (or
// their beginnings) in the longer. "--set" is in no word of "--plot-dataset-stats".
bool is_near(std::string_view given, std::string_view name) {
  const std::size_t slips = std::max<std::size_t>(1, std::min(given.size(), name.size()) / 4);
  if (edit_distance(given, name, slips) <= slips) return true;
  std::vector<std::string> few = words_of(given);
  std::vector<std::string> many = words_of(name);
  if (few.size() > many.size()) std::swap(few, many);
  return std::all_of(few.begin(), few.end(), [&many](const std::string& word) {
    return std::any_of(many.begin(), many.end(), [&word](const std::string& other) {
      return other.starts_with(word) || word.starts_with(other);
    });
  });
}

std::string hint(const CommandDef& command, std::string_view word,
                 std::span<const OptionDef> options) {
  std::vector<std::string> names;
  for (const OptionDef& option : options) {
    for (std::string& name : option_names(option)) names.push_back(std::move(name));
  }
  std::erase_if(names, [word](const std::string& name) { return !is_near(word, name); });
  const std::string nearest = did_you_mean(word, names);
  if (!nearest.empty()) return nearest;
  return fmt::format("; \"nibble {} --help\" lists what it takes", command.name);
}

// "--goodput ttft:200 tpot:50" -> "--goodput ttft:200 --goodput tpot:50".
std::vector<std::string> with_names_repeated(std::span<const OptionDef> options,
                                             std::span<const std::string> words) {
  std::vector<std::string> repeated;
  bool more = false;  // what stands here may be a further value of `name`
  std::string name;
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string& word = words[index];
    if (word == "--") {
      repeated.insert(repeated.end(), words.begin() + static_cast<std::ptrdiff_t>(index),
                      words.end());
      break;
    }
    const std::size_t equals = word.find('=');
    const OptionDef* option = find_option(options, word.substr(0, equals));
    if (more && option == nullptr && !word.starts_with('-')) repeated.push_back(name);
    repeated.push_back(word);
    if (option == nullptr) {
      more = more && !word.starts_with('-');
      continue;
    }
    name = option->name;
    more = option->several;
    // A value is never looked at as an option.
    if (is_switch(*option) || equals != std::string::npos || index + 1 == words.size()) continue;
    const std::string& next = words[index + 1];
    if (find_option(options, next.substr(0, next.find('='))) != nullptr) continue;
    repeated.push_back(next);
    ++index;
  }
  return repeated;
}

// The faults of a single word that CLI11 would read another way than the user meant: a long option
// with one dash, a value that is empty or is really the next option, a switch with a value.
Result<> check_words(const CommandDef& command, std::span<const OptionDef> options,
                     std::span<const std::string> words) {
  for (std::size_t index = 0; index < words.size() && words[index] != "--"; ++index) {
    const std::string_view word = words[index];
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const OptionDef* option = find_option(options, name);
    if (option == nullptr) {
      const std::string with_two = "-" + std::string(name);
      if (find_option(options, with_two) == nullptr) continue;
      return usage_error("\"nibble {}\" has no option {}; write {}", command.name, name, with_two);
    }
    if (is_switch(*option)) {
      if (equals == std::string_view::npos) continue;
      return usage_error("{} is a switch and takes no value; \"{}\" follows it", name,
                         word.substr(equals + 1));
    }
    if (equals != std::string_view::npos) {
      if (equals + 1 < word.size()) continue;
      return usage_error("{} is empty; give {}", name, option->value);
    }
    if (index + 1 == words.size()) {
      return usage_error("{} needs a value; give {}", name, option->value);
    }
    const std::string_view next = words[index + 1];
    if (find_option(options, next.substr(0, next.find('='))) != nullptr) {
      return usage_error("{} needs a value; the option {} follows it", name, next);
    }
    ++index;  // the value is not looked at as an option
  }
  return {};
}

Result<> check_values(const OptionDef& option, const std::vector<std::string>& values) {
  if (values.size() > 1 && !option.repeatable && !option.several) {
    return usage_error("{} is given {} times; give it once", option.name, values.size());
  }
  for (const std::string& value : values) {
    if (value.empty()) {
      // An operand has no word for its value but its own name; its help says what it is.
      return usage_error("{} is empty; give {}", option.name,
                         option.value.empty() ? option.help : option.value);
    }
    if (option.kind != ValueKind::kChoice) continue;
    if (std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end()) {
      continue;
    }
    return usage_error("{} is \"{}\"; give one of {}", option.name, value,
                       join(option.choices, ", "));
  }
  return {};
}

// What CLI11 could not place, in order.
Result<> check_remaining(const CommandDef& command, std::span<const OptionDef> options,
                         const std::vector<std::string>& remaining) {
  for (const std::string& word : remaining) {
    if (word == "--") continue;
    if (word.size() > 1 && word.front() == '-') {
      const std::string name = word.substr(0, word.find('='));
      return usage_error("\"nibble {}\" has no option {}{}", command.name, name,
                         hint(command, name, options));
    }
    return usage_error("\"nibble {}\" does not take the word \"{}\"{}", command.name, word,
                       hint(command, word, options));
  }
  return {};
}

void define(CLI::App& app, const OptionDef& option) {
  const std::string names = join(option_names(option), ",");
  if (option.name.front() == '-' && is_switch(option)) {
    app.add_flag(names)->disable_flag_override();
  } else {
    app.add_option(names)->expected(1)->allow_extra_args(false)->multi_option_policy(
        CLI::MultiOptionPolicy::TakeAll);
  }
}

}  // namespace

std::vector<OptionDef> all_options(const CommandDef& command) {
  std::vector<OptionDef> options = command.options;
  if (command.json) {
    options.push_back({.name = "--json", .help = "print a JSON document instead of tables"});
  }
  options.push_back({.name = "--help", .aliases = {"-h"}, .help = "print this help"});
  return options;
}

Result<Arguments> parse_arguments(const CommandDef& command, std::span<const std::string> given) {
  const std::vector<OptionDef> options = all_options(command);
  const std::vector<std::string> words = with_names_repeated(options, given);
  NIBBLE_RETURN_IF_ERROR(check_words(command, options, words));

  CLI::App app;
  app.set_help_flag();  // --help is an option like any other
  app.allow_extras();
  std::vector<OptionDef> defined = options;
  defined.insert(defined.end(), command.operands.begin(), command.operands.end());
  for (const OptionDef& option : defined) define(app, option);

  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 reads from the back
  } catch (const CLI::ParseError& error) {
    return usage_error("\"nibble {}\" cannot read its options ({}); see \"nibble {} --help\"",
                       command.name, error.what(), command.name);
  }
  NIBBLE_RETURN_IF_ERROR(check_remaining(command, options, app.remaining()));

  Arguments arguments;
  for (const OptionDef& option : defined) {
    const CLI::Option* parsed = app.get_option(option.name);
    if (parsed->empty()) {
      if (!option.required) continue;
      return usage_error("\"nibble {}\" needs {}{}", command.name, option.name,
                         option.choices.empty() ? "" : ": one of " + join(option.choices, ", "));
    }
    std::vector<std::string>& values = arguments.given[option.name];
    if (option.name.front() == '-' && is_switch(option)) continue;
    values = parsed->results();
    NIBBLE_RETURN_IF_ERROR(check_values(option, values));
  }
  return arguments;
}

}  // namespace nibble::cli
