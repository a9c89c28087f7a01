// Values of Python as its programs print them: tuples, and objects with their addresses.
//
//   tuple_items("('op', 'Runner', ((1, 2), ()))")   // {"'op'", "'Runner'", "((1, 2), ())"}
//   class_of_object("<a.b.<locals>.MoERunner object at 0x7c>")   // "MoERunner"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::logs {

// What lies between `from` and the next `to` behind it; to the end where `to` does not follow.
// Nothing where `from` is missing.
std::optional<std::string_view> between(std::string_view text, std::string_view from,
                                        std::string_view to);

// The items of the outermost brackets; empty where the text is no bracket that closes.
std::vector<std::string_view> tuple_items(std::string_view text);
std::string_view unquoted(std::string_view text);

std::string class_of_object(std::string_view text);

// "RUNNER TACTIC" as one text: the runner is an object or a word, the tactic is the rest.
struct RunnerAndTactic {
  std::string runner;
  std::string tactic;
};
RunnerAndTactic split_runner(std::string_view text);

// "[torch.Size([1, 2304]), torch.Size([0])]" -> "((1, 2304), (0))": as cache keys write shapes.
std::string plain_shape(std::string_view text);
// Nothing where the first one is negative: -1 is a size that was left open.
std::optional<std::int64_t> first_number(std::string_view text);
// The time that a text begins with, "0.0123ms"; nothing for "inf", which tuners write for what did
// not run, for "nan", and for what is no time.
std::optional<double> milliseconds_of(std::string_view text);

}  // namespace nibble::logs
