// Fills a TacticLog: what is alike is one entry with a count, and memory is bounded.
//
//   Collector collector(log);
//   collector.add(entry);          // the second of its kind raises the first one's count
//   collector.program("FlashInfer");
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

class Collector {
 public:
  explicit Collector(TacticLog& log) : log_(log) {}

  // Texts are made printable and shortened here.
  void add(Entry entry);
  void program(std::string_view name);
  void version(std::string_view name, std::string_view value);
  void device(std::string_view name);
  void note(std::string_view text);
  void profiles(std::string_view op, std::int64_t number);
  void unread(std::string_view text);

  TacticLog& log() { return log_; }

 private:
  TacticLog& log_;
  std::unordered_map<std::string, std::size_t> places_;  // of entries, by what tells them apart
};

}  // namespace nibble::logs
