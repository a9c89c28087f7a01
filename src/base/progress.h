// Progress of long work: one line on a terminal, rewritten in place; nothing in a pipe.
//
//   Progress progress("scanning", total_bytes);
//   for (...) progress.advance(chunk_bytes);
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "base/terminal.h"

namespace nibble {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // Draws on `stream` when it is a terminal (never otherwise); `total` in any unit.
  Progress(std::string what, double total, std::FILE* stream = stderr);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(double amount);
  void note(std::string_view what);  // what is being done now

  // The text that would be drawn after `elapsed`: "scanning  42 %  1.2 GB/s  8 s left".
  std::string line(Clock::duration elapsed) const;

 private:
  void draw();

  std::string what_;
  std::string note_;
  double total_;
  double done_ = 0;
  std::FILE* stream_;  // nullptr: quiet
  Style style_;
  Clock::time_point start_;
  Clock::time_point last_drawn_;
};

}  // namespace nibble
