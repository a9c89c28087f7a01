#include "base/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"

namespace nibble {
namespace {

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr double kSettled_s = 0.5;  // before that a rate is mostly noise

std::string time_left(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s left", std::ceil(seconds));
  if (seconds < 100 * 60) return fmt::format("{:.0f} min left", std::ceil(seconds / 60));
  return fmt::format("{:.0f} h left", std::ceil(seconds / 3600));
}

}  // namespace

Progress::Progress(std::string what, double total, std::FILE* stream, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      stream_(stream != nullptr && ::isatty(::fileno(stream)) != 0 ? stream : nullptr),
      style_(stream_ != nullptr ? Style::for_descriptor(::fileno(stream_)) : Style::plain()),
      start_(Clock::now()),
      last_drawn_(start_) {}

Progress::~Progress() {
  if (stream_ == nullptr || drawn_columns_ == 0) return;
  std::fprintf(stream_, "\r%s\r", std::string(drawn_columns_, ' ').c_str());
  std::fflush(stream_);
}

void Progress::advance(double amount) {
  done_ += amount;
  if (stream_ != nullptr && Clock::now() - last_drawn_ >= kRedrawEvery) draw();
}

void Progress::note(std::string_view what) {
  note_ = what;
  if (stream_ != nullptr) draw();  // what follows may take long before it advances
}

std::string Progress::line(Clock::duration elapsed) const {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const bool settled = seconds >= kSettled_s && done_ > 0;
  const double rate = settled ? done_ / seconds : 0;
  std::string text = what_;
  if (total_ > 0) {
    // Rounded down: 100 % is said only of finished work.
    text += fmt::format("  {:.0f} %", std::floor(100 * std::clamp(done_ / total_, 0.0, 1.0)));
  } else if (!unit_.empty()) {
    text += "  " + format_rate(done_, unit_, 2);
  }
  if (settled && !unit_.empty()) text += "  " + format_rate(rate, unit_ + "/s", 2);
  if (settled && total_ > done_) text += "  " + time_left((total_ - done_) / rate);
  if (!note_.empty()) text += "  " + note_;
  // One column stays free: a full line would make some terminals scroll.
  return printable(text, style_.width == 0 ? text.size() : style_.width - 1);
}

void Progress::draw() {
  const Clock::time_point now = Clock::now();
  const std::string text = line(now - start_);
  const std::size_t columns = display_width(text);
  const std::string blank(drawn_columns_ - std::min(drawn_columns_, columns), ' ');
  std::fprintf(stream_, "\r%s%s", text.c_str(), blank.c_str());
  std::fflush(stream_);
  drawn_columns_ = columns;
  last_drawn_ = now;
}

}  // namespace nibble
