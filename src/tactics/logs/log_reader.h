// Reads the lines of a server's log, of any number of ranks, in order.
//
//   LogReader reader(collector);
//   while (lines.next(line)) reader.read(line);
//   reader.finish();
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tactics/logs/collector.h"
#include "tactics/logs/line_events.h"
#include "tactics/logs/line_source.h"

namespace nibble::logs {

class LogReader {
 public:
  explicit LogReader(Collector& collector) : collector_(collector) {}

  void read(const LogLine& line);
  void finish();

 private:
  // A tuner goes through one operation after the other, and tells its name last or not at all.
  struct Rank {
    std::string op;           // what the progress bar names
    std::vector<Entry> open;  // whose operation is not known yet, or whose reason goes on
    int continuation = 0;     // lines that may still belong to the last one's reason
  };

  struct Place {
    std::string rank;
    std::int64_t line = 0;
  };

  void read_messages(const LogLine& line, std::string rank, std::size_t at);
  void read_message(const Place& place, std::string_view before, std::string_view message);
  void take(LineEvent event, Rank& rank);
  void take_detail(Entry entry, Rank& rank);
  void take_entry(Entry entry, Rank& rank);
  void continue_reason(const LogLine& line, Rank& rank);
  void end_reason(Rank& rank);
  void flush(Rank& rank, std::string_view op);
  Rank& state_of(const std::string& rank);

  Collector& collector_;
  std::map<std::string, Rank> ranks_;
  int continuing_ = 0;     // ranks whose last reason may go on
  std::string bare_rank_;  // of a prefix that stood alone on the line before
};

}  // namespace nibble::logs
