// What the tests of the flags of `nibble load` share: words to options, and what was said of them.
//
//   const auto flags = flags_with({"--backend", "sglang"});
//   EXPECT_TRUE(has_note(*flags, "/generate"));
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "cli/load.h"
#include "cli/load_flags.h"

namespace nibble::cli {

using Words = std::vector<std::string>;

inline Result<Arguments> parsed(Words words) {
  const CommandDef command{.name = "load", .options = load_command_options()};
  NIBBLE_ASSIGN_OR_RETURN(Arguments arguments, parse_arguments(command, words));
  arguments.command_line = {"nibble", "load"};
  arguments.command_line.insert(arguments.command_line.end(), words.begin(), words.end());
  return arguments;
}

inline Result<LoadFlags> flags_of(const Words& words) {
  NIBBLE_ASSIGN_OR_RETURN(const Arguments arguments, parsed(words));
  return load_flags_from(arguments);
}

// With a load that is enough to be one.
inline Result<LoadFlags> flags_with(Words words) {
  words.insert(words.end(), {"--max-concurrency", "1"});
  return flags_of(words);
}

inline std::string fault_of(const Words& words) {
  const auto flags = flags_of(words);
  return flags.ok() ? "" : flags.error().message;
}

inline std::string fault_with(Words words) {
  words.insert(words.end(), {"--max-concurrency", "1"});
  return fault_of(words);
}

inline bool has_note(const LoadFlags& flags, std::string_view part) {
  for (const std::string& note : flags.run.setup.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

class LoadFlagsTest : public ::testing::Test {
 protected:
  ScopedEnvironment key_{"OPENAI_API_KEY", nullptr};
};

}  // namespace nibble::cli
