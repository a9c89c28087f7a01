#include "net/sse.h"

#include <algorithm>

namespace nibble::net {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kKeptCapacity = std::size_t{64} << 10;  // of a buffer between two events
constexpr std::size_t kMostRetryDigits = 18;                  // fits 64 bits

// Empties a buffer; the room that one huge event needed is not kept for the small ones.
void empty(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptCapacity) buffer.shrink_to_fit();
}

std::size_t find_from(std::string_view text, char byte, std::size_t from) {
  const std::size_t found = text.find(byte, from);
  return found == std::string_view::npos ? text.size() : found;
}

}  // namespace

void SseParser::begin(std::string_view bytes) {
  bytes_ = bytes;
  position_ = 0;
  next_cr_ = next_lf_ = kNotSearched;
}

// Skips a byte order mark at the start of the stream; false: all bytes were part of it so far.
bool SseParser::take_mark() {
  while (at_start_ && position_ < bytes_.size()) {
    if (bytes_[position_] != kByteOrderMark[mark_bytes_]) {
      at_start_ = false;
      line_ = kByteOrderMark.substr(0, mark_bytes_);  // it was the start of a line after all
      return true;
    }
    ++position_;
    ++mark_bytes_;
    if (mark_bytes_ == kByteOrderMark.size()) at_start_ = false;
  }
  return !at_start_;
}

// Each kind of line end is searched once over the bytes, not once a line: a stream with only CR
// stays linear.
std::size_t SseParser::find_line_end() {
  if (next_lf_ == kNotSearched || next_lf_ < position_) {
    next_lf_ = find_from(bytes_, '\n', position_);
  }
  if (next_cr_ == kNotSearched || next_cr_ < position_) {
    next_cr_ = find_from(bytes_, '\r', position_);
  }
  return std::min(next_lf_, next_cr_);
}

bool SseParser::fits(std::size_t more) {
  too_large_ = line_.size() + data_.size() + event_.size() + more > max_event_bytes_;
  return !too_large_;
}

bool SseParser::next() {
  if (too_large_) return false;
  if (dispatched_) {
    dispatched_ = false;
    empty(data_);
    event_.clear();
  }
  if (!take_mark()) return false;
  while (position_ < bytes_.size()) {
    const bool second_half = after_cr_ && bytes_[position_] == '\n';
    after_cr_ = false;
    if (second_half) {
      ++position_;
      continue;
    }
    const std::size_t line_end = find_line_end();
    const std::string_view piece = bytes_.substr(position_, line_end - position_);
    if (!fits(piece.size())) return false;
    if (line_end == bytes_.size()) {
      line_.append(piece);
      position_ = line_end;
      return false;
    }
    position_ = line_end + 1;
    after_cr_ = bytes_[line_end] == '\r';
    if (line_.empty()) {
      if (take_line(piece)) return true;
      continue;
    }
    line_.append(piece);
    const bool dispatched = take_line(line_);
    empty(line_);
    if (dispatched) return true;
  }
  return false;
}

bool SseParser::take_line(std::string_view line) {
  if (line.empty()) return dispatch();
  const std::size_t colon = line.find(':');
  if (colon == 0) return false;  // a comment
  if (colon == std::string_view::npos) {
    take_field(line, "");
    return false;
  }
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  take_field(line.substr(0, colon), value);
  return false;
}

void SseParser::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    data_.append(value).push_back('\n');
  } else if (name == "event") {
    event_ = value;
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) id_ = value;
  } else if (name == "retry") {
    const bool number = !value.empty() && value.size() <= kMostRetryDigits &&
                        value.find_first_not_of("0123456789") == std::string_view::npos;
    if (number) retry_ms_ = std::stoll(std::string(value));
  }
}

bool SseParser::dispatch() {
  if (data_.empty()) {  // an event without a data line is none
    event_.clear();
    return false;
  }
  dispatched_ = true;
  return true;
}

SseEvent SseParser::event() const {
  std::string_view data = data_;
  data.remove_suffix(1);  // the LF of the last line
  return {event_, data, id_};
}

bool SseParser::end() {
  if (too_large_) return false;
  if (!line_.empty()) {
    static_cast<void>(take_line(line_));
    line_.clear();
  }
  return dispatch();
}

void SseParser::reset() {
  const std::size_t most = max_event_bytes_;
  *this = SseParser(most);
}

Result<> SseParser::status() const {
  if (!too_large_) return {};
  return run_error("an event of the stream is larger than {} bytes; this is no token stream",
                   max_event_bytes_);
}

}  // namespace nibble::net
