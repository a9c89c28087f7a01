#include "text/stop_buffer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nibble::text {

StopBuffer::StopBuffer(const std::vector<std::string>& stops, bool include) : include_(include) {
  nodes_.emplace_back();
  for (std::size_t index = 0; index < stops.size(); ++index) {
    if (!stops[index].empty()) add(stops[index], index);
  }
  link();
}

void StopBuffer::add(std::string_view stop, std::size_t index) {
  std::size_t node = 0;
  for (const char byte : stop) {
    const auto key = static_cast<unsigned char>(byte);
    std::size_t next = child(node, key);
    if (next == 0) {
      next = nodes_.size();
      nodes_[node].children.emplace_back(key, next);
      nodes_.emplace_back();
      nodes_[next].depth = nodes_[node].depth + 1;
    }
    node = next;
  }
  if (nodes_[node].stop) return;  // given twice
  nodes_[node].stop = index;
  nodes_[node].stop_bytes = stop.size();
}

// Level by level, as a fallback is always shorter.
void StopBuffer::link() {
  std::vector<std::size_t> order{0};
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t node = order[at];
    for (const auto& [byte, next] : nodes_[node].children) {
      Node& made = nodes_[next];
      made.fallback = node == 0 ? 0 : step(nodes_[node].fallback, byte);
      const Node& shorter = nodes_[made.fallback];
      if (!made.stop && shorter.stop) {
        made.stop = shorter.stop;
        made.stop_bytes = shorter.stop_bytes;
      }
      order.push_back(next);
    }
  }
}

// 0, which is no child, where there is none.
std::size_t StopBuffer::child(std::size_t node, unsigned char byte) const {
  for (const auto& [key, next] : nodes_[node].children) {
    if (key == byte) return next;
  }
  return 0;
}

std::size_t StopBuffer::step(std::size_t node, unsigned char byte) const {
  while (true) {
    const std::size_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fallback;
  }
}

// The stop string of the state ends at byte `end` of what is held.
std::string StopBuffer::stop_at(std::size_t end) {
  const Node& node = nodes_[state_];
  NIBBLE_CHECK(node.stop && node.stop_bytes <= end);
  matched_ = node.stop;
  std::string out = held_.substr(0, include_ ? end : end - node.stop_bytes);
  held_.clear();
  return out;
}

std::string StopBuffer::feed(std::string_view piece, bool may_stop) {
  if (stopped()) return "";
  const std::size_t before = held_.size();
  held_ += piece;
  for (std::size_t at = before; at < held_.size(); ++at) {
    state_ = step(state_, static_cast<unsigned char>(held_[at]));
    if (may_stop && nodes_[state_].stop) return stop_at(at + 1);
  }
  const std::size_t safe = held_.size() - nodes_[state_].depth;
  std::string out = held_.substr(0, safe);
  held_.erase(0, safe);
  return out;
}

std::string StopBuffer::finish() {
  state_ = 0;
  return std::exchange(held_, std::string());
}

}  // namespace nibble::text
