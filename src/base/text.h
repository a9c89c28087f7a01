// Small things about text: splitting, joining, nearest names, patterns.
//
//   input_error("no machine is named \"{}\"{}", name, did_you_mean(name, catalog_names));
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

// Always at least one part: "" gives {""}, "a,,b" gives {"a", "", "b"}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);  // without ASCII white space at both ends
std::string to_lower(std::string_view text);   // ASCII letters only

// Text from outside made safe to show: control characters, and format characters as those
// that turn the direction of writing, become '?', and beyond `most` columns the middle is replaced
// by "...".
std::string printable(std::string_view text, std::size_t most = 120);

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment), capped:
// returns `limit` + 1 as soon as it is certain to exceed `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

// Up to `most` candidates nearest to `name`, best first: those within a third of its length in
// edits and with the same digits, those that contain it or are contained in it, those that hold its
// runs of letters and digits in order ("rtx6000" in "rtx-pro-6000-server"), and those within a
// third in edits whose digits differ. Case, dashes, underscores and spaces do not count. Empty when
// nothing is near.
std::vector<std::string> nearest_names(std::string_view name,
                                       std::span<const std::string> candidates,
                                       std::size_t most = 3);

// "; did you mean a, b or c?" from nearest_names, or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

// Shell-style match of the whole text: '*' any run, '?' any one byte, '[a-z_]' a set, '[!a-z]' its
// complement; a '[' without its ']' stands for itself. At most O(pattern * text) steps.
bool glob_match(std::string_view pattern, std::string_view text);

// Number of terminal columns of UTF-8 text: one per code point, none for combining marks and for
// ANSI colour sequences.
std::size_t display_width(std::string_view text);

}  // namespace nibble
