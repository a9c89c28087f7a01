// What the output is connected to, and how to write on it.
//
//   const Style style = Style::for_stdout();
//   fmt::print("{}\n", style.wrap("a long sentence ...", 2));
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble {

struct Style {
  bool colour = false;    // ANSI colours
  std::size_t width = 0;  // columns; 0: unlimited (a pipe or a file)

  // Looks at the descriptor, COLUMNS, NO_COLOR and TERM=dumb.
  static Style for_descriptor(int descriptor);
  static Style for_stdout();
  static Style for_stderr();
  static Style plain() { return {}; }

  std::string strong(std::string_view text) const;
  std::string heading(std::string_view text) const;
  std::string faint(std::string_view text) const;
  std::string good(std::string_view text) const;
  std::string warning(std::string_view text) const;
  std::string bad(std::string_view text) const;

  // Breaks text at spaces so that it fits right of column `indent` (which the caller has reached
  // when the first line starts); each following line is indented. A width of 0 breaks only where
  // the text itself does; longer words stand alone on their line.
  std::string wrap(std::string_view text, std::size_t indent) const;
};

}  // namespace nibble
