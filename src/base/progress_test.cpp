#include "base/progress.h"

#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <unistd.h>

#include "base/testing.h"
#include "base/text.h"

namespace nibble {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Stream = std::unique_ptr<std::FILE, Close>;

TEST(Progress, SaysHowFarHowFastAndHowLong) {
  const Stream quiet(std::tmpfile());
  Progress progress("scanning", 20e9, quiet.get());
  progress.advance(8.5e9);
  // 8.5 of 20 GB are 42.5 %; 8.5 GB in 7 s are 1.214 GB/s; 11.5 GB more take 9.47 s.
  EXPECT_EQ(progress.line(seconds(7)), "scanning  42 %  1.2 GB/s  10 s left");
  progress.note("layer 3");
  EXPECT_EQ(progress.line(seconds(7)), "scanning  42 %  1.2 GB/s  10 s left  layer 3");
}

TEST(Progress, SaysNoRateBeforeThereIsOne) {
  const Stream quiet(std::tmpfile());
  Progress progress("scanning", 100, quiet.get());
  EXPECT_EQ(progress.line(seconds(0)), "scanning  0 %");
  EXPECT_EQ(progress.line(seconds(10)), "scanning  0 %");  // nothing done: no time left either
  progress.advance(50);
  EXPECT_EQ(progress.line(milliseconds(100)), "scanning  50 %");
}

TEST(Progress, HundredPercentIsSaidOnlyOfFinishedWork) {
  const Stream quiet(std::tmpfile());
  Progress progress("tuning", 1000, quiet.get(), "");
  progress.advance(999);
  EXPECT_EQ(progress.line(seconds(999)), "tuning  99 %  1 s left");
  progress.advance(1);
  EXPECT_EQ(progress.line(seconds(1000)), "tuning  100 %");
  progress.advance(500);  // more than was announced
  EXPECT_EQ(progress.line(seconds(1500)), "tuning  100 %");
}

TEST(Progress, LongTimesAreGivenInMinutesAndHours) {
  const Stream quiet(std::tmpfile());
  Progress progress("x", 1000, quiet.get(), "");
  progress.advance(100);
  EXPECT_EQ(progress.line(seconds(10)), "x  10 %  90 s left");
  EXPECT_EQ(progress.line(seconds(20)), "x  10 %  3 min left");
  EXPECT_EQ(progress.line(seconds(2000)), "x  10 %  5 h left");
}

TEST(Progress, WithoutATotalItSaysWhatIsDone) {
  const Stream quiet(std::tmpfile());
  Progress progress("reading", 0, quiet.get());
  progress.advance(3e6);
  EXPECT_EQ(progress.line(seconds(2)), "reading  3.0 MB  1.5 MB/s");
}

TEST(Progress, WritesNothingInAFile) {
  const Stream file(std::tmpfile());
  {
    Progress progress("scanning", 100, file.get());
    progress.note("now");
    progress.advance(50);
  }
  EXPECT_EQ(std::ftell(file.get()), 0);
}

TEST(Progress, RewritesOneLineOnATerminalAndErasesIt) {
  const ScopedEnvironment columns("COLUMNS", nullptr);
  const PseudoTerminal terminal(30);
  if (!terminal.open()) GTEST_SKIP() << "no pseudo terminal";
  const Stream stream(::fdopen(::dup(terminal.descriptor()), "w"));
  {
    Progress progress("scanning", 100, stream.get());
    progress.note("a\nnote that is much too long for the line");
    const std::string drawn = terminal.written();
    ASSERT_FALSE(drawn.empty());
    EXPECT_EQ(drawn[0], '\r');
    EXPECT_EQ(drawn.find('\n'), std::string::npos);
    EXPECT_EQ(display_width(drawn.substr(1)), 29U);  // cut to the width, one column stays free
    progress.note("b");
    // The shorter text covers what stood there before.
    EXPECT_EQ(terminal.written(), "\rscanning  0 %  b" + std::string(29 - 16, ' '));
  }
  EXPECT_EQ(terminal.written(), "\r" + std::string(16, ' ') + "\r");
}

TEST(Progress, DoesNotDrawTooOften) {
  const PseudoTerminal terminal(80);
  if (!terminal.open()) GTEST_SKIP() << "no pseudo terminal";
  const Stream stream(::fdopen(::dup(terminal.descriptor()), "w"));
  const auto start = Progress::Clock::now();
  Progress progress("scanning", 1e9, stream.get());
  for (int call = 0; call < 1000; ++call) progress.advance(1);
  const auto elapsed = Progress::Clock::now() - start;
  const std::string drawn = terminal.written();
  const auto draws = std::count(drawn.begin(), drawn.end(), '\r');
  EXPECT_LE(draws, elapsed / milliseconds(100));
}

}  // namespace
}  // namespace nibble
