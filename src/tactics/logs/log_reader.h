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
    bool carried = false;     // the line of that reason has a time that any line gets
    // Failures of kernels printed beside the tuner's messages, since the last search ended.
    std::vector<Entry> loose;
    std::int64_t told_from = 0;  // from this line on they are why counted tactics did not run
    std::int64_t since = 0;      // the line with which the last search ended
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
  // Whether the line belongs to the reason of the rank's last failure.
  bool continue_reason(const LogLine& line, Rank& rank);
  void read_failure(const LogLine& line);
  void take_counted(Entry entry, Rank& rank);
  void give_reason(Entry& counted, Rank& rank);
  void drop_told(Rank& rank);
  void end_reason(Rank& rank);
  void flush(Rank& rank, std::string_view op);
  // Nothing where there are kMostRanks already.
  Rank* state_of(const std::string& rank);
  // Nothing where no message of it was read.
  Rank* known_state(const std::string& rank);

  Collector& collector_;
  std::map<std::string, Rank> ranks_;
  std::int64_t line_ = 0;  // that is being read
  int continuing_ = 0;     // ranks whose last reason may go on
  std::string bare_rank_;  // of a prefix that stood alone on the line before
};

}  // namespace nibble::logs
