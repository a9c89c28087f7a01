// docs/diagnosis.md has every class with its clues and their weights, and no others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "diagnose/classify.h"

namespace nibble::diagnose {
namespace {

// "`running_below_users` 3!": needed; "^": a veto.
std::string clue_words(const ClueDef& clue) {
  const char* role = clue.role == Role::kNeeded ? "!" : clue.role == Role::kVeto ? "^" : "";
  return fmt::format("`{}` {:.0f}{}", clue.id, clue.weight, role);
}

TEST(ClassesDocumentTest, TheTableOfCluesIsThatOfTheProgram) {
  const auto text = read_file(std::string(NIBBLE_SOURCE_DIR) + "/docs/diagnosis.md", 1 << 20);
  ASSERT_TRUE(text.ok());
  std::map<std::string, std::string> rows;
  for (const std::string& line : split(text.value(), '\n')) {
    if (line.rfind("| **", 0) != 0) continue;
    rows[line.substr(4, line.find("**", 4) - 4)] = line;
  }
  EXPECT_EQ(rows.size(), kClasses);
  for (const ClassInfo& info : class_infos()) {
    const std::string& row = rows[std::string(info.name)];
    std::size_t told = 0;
    for (const ClueDef& clue : clues_of(info.cls)) {
      const std::string words = clue_words(clue);
      EXPECT_TRUE(row.find(words + " ") != std::string::npos) << info.name << " lacks " << words;
    }
    for (std::size_t at = row.find("` "); at != std::string::npos; at = row.find("` ", at + 1)) {
      told += at + 2 < row.size() && row[at + 2] >= '1' && row[at + 2] <= '9' ? 1U : 0U;
    }
    EXPECT_EQ(told, clues_of(info.cls).size()) << info.name << " has a clue that is none";
  }
}

}  // namespace
}  // namespace nibble::diagnose
