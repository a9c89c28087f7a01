#include "tactics/logs/tactic_count.h"

#include <algorithm>

namespace nibble::logs {

void TacticCount::add(const Entry& entry) {
  if (!entry.tactic.empty()) names.insert(entry.runner + " " + entry.tactic);
  most_of_line = std::max(most_of_line, entry.tactics);
  lines += entry.count;
  if (!entry.rank.empty()) ranks.insert(entry.rank);
}

std::int64_t TacticCount::tactics() const {
  return std::max(most_of_line, static_cast<std::int64_t>(names.size()));
}

}  // namespace nibble::logs
