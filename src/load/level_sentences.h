// Sentences on levels, those alike made one.
//
//   LevelSentences said(report);
//   said.add(0, "it rained");
//   said.add(2, "it rained");
//   said.tell(list);                      // "2 of 6 levels (1 and 4 users): it rained"
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "load/run_report.h"

namespace nibble::load {

using Indices = std::vector<std::size_t>;

// "1, 2 and 4".
std::string listed(const std::vector<std::string>& names);
// "every level", "16 and 32 users", "5 of 9 levels"; empty for a run of one level.
std::string names_of(const RunReport& report, const Indices& levels);
// The same with what stands for all: "3 of 6 levels, at worst 64 users".
std::string names_of(const RunReport& report, const Indices& levels, std::size_t worst);
// "names: text", or the text alone.
std::string about(const std::string& names, const std::string& text);

class LevelSentences {
 public:
  explicit LevelSentences(const RunReport& report) : report_(report) {}

  // Texts that differ in numbers alone are one sentence: that of the last level.
  void add(std::size_t level, std::string text);
  // `every`: the name of all levels together; empty: what holds for all needs none.
  void tell(std::vector<std::string>& list, std::string_view every = "every level") const;

 private:
  struct Said {
    std::string shape;
    std::vector<std::string> texts;
    Indices levels;
  };
  std::string line(const Said& said, std::string_view every) const;

  const RunReport& report_;
  std::vector<Said> said_;
};

}  // namespace nibble::load
