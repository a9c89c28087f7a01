// Lines of a log, from bytes as they come, without colours; and the rank that wrote one.
//
//   LineSource lines([&](std::span<char> buffer) { return std::fread(...); });
//   LogLine line;
//   while (lines.next(line)) read(line.text, rank_of(line.text));
//   // of "(Worker_TP3 pid=7) INFO ..." the rank is "TP3"
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace nibble::logs {

struct LogLine {
  std::string text;         // UTF-8 of at most kMostLine bytes; what is longer is cut
  std::int64_t number = 0;  // from 1, counted by line feeds
};

class LineSource {
 public:
  // Fills the buffer and says how much; 0 at the end.
  using Read = std::function<std::size_t(std::span<char>)>;

  explicit LineSource(Read read);

  // Carriage returns end a line as well: progress bars overwrite themselves with them.
  bool next(LogLine& line);

  static constexpr std::size_t kMostLine = 32 * 1024;

 private:
  bool refill();

  Read read_;
  std::string buffer_;
  std::string raw_;  // the line so far
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t feeds_ = 0;
  bool ended_ = false;
};

// Without the escape sequences of terminals: colours, titles, cursor movements.
std::string without_escapes(std::string_view text);

// UTF-8: each byte that belongs to no character is a "?". One mark, whatever is wrong with it:
// surrogates and overlong forms too, which look like characters.
std::string whole_characters(std::string text);

// From what loggers of vLLM, SGLang and TensorRT-LLM put before their messages:
// "(Worker_TP3 pid=7)", "(VllmWorker rank=1 pid=7)", "[2026-01-02 03:04:05 DP4 TP4]",
// "[TRT-LLM] [RANK 0]": "TP3", "rank 1", "DP4 TP4", "rank 0". Of a worker with no rank the process,
// "pid 7"; "" where no one is named.
std::string rank_of(std::string_view line);

// Whether something else put a time in RFC 3339 before the line: `docker logs --timestamps` does so
// with every line, and not only with the first one of a message.
bool has_carried_time(std::string_view line);

// Whether a line starts a message of its own: behind the worker's name it has a time, a level or
// the name of a program ("INFO 11-11 06:41:29", "2025-11-11 06:41:27,319 -", "[RANK 0] [I]").
// `carried`: a time in RFC 3339 is not the message's own.
bool begins_message(std::string_view line, bool carried = false);

}  // namespace nibble::logs
