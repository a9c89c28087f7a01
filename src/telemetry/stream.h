// The stream of samples as JSON lines, for files and between hosts:
//
//   {"schema":"nibble.telemetry/1","host":"node7","clock":"CLOCK_MONOTONIC","unit":"ns"}
//   {"signal":{"name":"gpu0.power","unit":"W","source":"NVML field 186","kind":"gauge", ...}}
//   {"t":8123456789,"v":{"gpu0.power":445.1}}
//
// A signal is described before its first value, and again when it becomes available or is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "telemetry/store.h"

namespace nibble::telemetry {

// Makes lines of what a store tells; from one thread at a time.
class StreamEncoder {
 public:
  explicit StreamEncoder(std::string_view host);
  void on_signal(SignalId id, const Signal& signal);
  void on_value(SignalId id, const Point& point);
  // All that is complete so far, and with it the values of the newest moment.
  std::string take();
  std::size_t pending_bytes() const { return lines_.size() + open_.size(); }

 private:
  struct Key {
    std::string text;        // "\"gpu0.power\":"
    std::uint64_t line = 0;  // the last one that holds it
  };
  void close_line();

  std::string lines_;
  std::string open_;  // the line of the newest moment, without its end
  Nanoseconds open_at_ = 0;
  std::uint64_t open_line_ = 0;
  std::vector<Key> keys_;  // by signal
};

// Lines of what a store tells, for one reader: filled by the sampling threads, emptied by the
// reader's own. A reader that does not come back is given up, so that it costs no memory without
// end.
class LineFeed {
 public:
  static constexpr std::size_t kMostPendingBytes = std::size_t{8} << 20;

  LineFeed(std::shared_ptr<SampleStore> store, std::string_view host,
           std::size_t most_pending_bytes = kMostPendingBytes);
  ~LineFeed();
  LineFeed(const LineFeed&) = delete;
  LineFeed& operator=(const LineFeed&) = delete;

  std::string take();
  // More was pending than the reader may leave: what came since then is lost.
  bool overrun() const;

 private:
  bool has_room();

  std::shared_ptr<SampleStore> store_;
  std::size_t most_pending_bytes_;
  mutable std::mutex mutex_;
  StreamEncoder encoder_;
  bool overrun_ = false;
  int subscription_ = 0;
};

struct StreamHeader {
  std::string host;
};
struct StreamValues {
  Nanoseconds at = 0;
  std::vector<std::pair<std::string, double>> values;
};
using StreamLine = std::variant<StreamHeader, Signal, StreamValues>;

// Unknown fields are passed over; a line of another schema is refused.
Result<StreamLine> parse_stream_line(std::string_view line);

// Cuts bytes that come in pieces into lines.
class LineCutter {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
  // Calls on_line for each complete line; false when a line is too long.
  template <class OnLine>
  bool feed(std::string_view bytes, OnLine on_line) {
    while (true) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos) break;
      if (part_.empty()) {
        on_line(bytes.substr(0, end));
      } else {
        part_.append(bytes.substr(0, end));
        on_line(std::string_view(part_));
        part_.clear();
      }
      bytes.remove_prefix(end + 1);
    }
    part_.append(bytes);
    return part_.size() <= kLongestLine;
  }

 private:
  std::string part_;
};

}  // namespace nibble::telemetry
