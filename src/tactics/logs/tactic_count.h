// How many tactics entries speak of: one that failed on eight ranks is one tactic.
//
//   TacticCount count;
//   for (const Entry& entry : log.entries) count.add(entry);
//   count.tactics()        // 12
//   count.ranks.size()     // 2
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

struct TacticCount {
  std::set<std::string> names;    // distinct tactics, where told
  std::int64_t most_of_line = 0;  // tactics that one line speaks of
  std::int64_t lines = 0;
  std::set<std::string> ranks;  // that are named

  void add(const Entry& entry);
  std::int64_t tactics() const;
};

}  // namespace nibble::logs
