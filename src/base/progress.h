// Progress of long work: one line on a terminal, rewritten in place; nothing in a pipe.
//
//   Progress progress("scanning", total_bytes);
//   for (...) progress.advance(chunk_bytes);
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/terminal.h"

namespace nibble {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // Draws on `stream` when it is a terminal (never otherwise). `total` counts in `unit`, which
  // names the rate; 0: unknown, and the line shows what is done so far. Without both it shows what
  // note() says.
  Progress(std::string what, double total, std::FILE* stream = stderr, std::string unit = "B");
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(double amount);
  void note(std::string_view what);  // what is being done now

  // The text that would be drawn after `elapsed`: "scanning  42 %  1.2 GB/s  8 s left". Cut to
  // the width of the terminal.
  std::string line(Clock::duration elapsed) const;

 private:
  void draw();

  std::string what_;
  std::string note_;
  std::string unit_;
  double total_;
  double done_ = 0;
  std::FILE* stream_;  // nullptr: quiet
  Style style_;
  Clock::time_point start_;
  Clock::time_point last_drawn_;
  std::size_t drawn_columns_ = 0;  // what must be overwritten
};

}  // namespace nibble
