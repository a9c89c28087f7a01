#include "load/level_sentences.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"

namespace nibble::load {
namespace {

constexpr std::size_t kMostNames = 4;  // more are counted

// A text without its numbers: levels that say the same of other numbers share a sentence.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char c : text) {
    const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == ',';
    if (!number) shape += c;
  }
  return shape;
}

std::string counted(const RunReport& report, const Indices& levels) {
  return fmt::format("{} of {} levels", levels.size(), report.levels.size());
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return join(names, "");
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return join(first, ", ") + " and " + names.back();
}

std::string names_of(const RunReport& report, const Indices& levels) {
  if (report.levels.size() < 2) return "";
  if (levels.size() == report.levels.size()) return "every level";
  if (levels.size() > kMostNames) return counted(report, levels);
  std::vector<std::string> names;
  std::vector<std::string> users;
  for (const std::size_t level : levels) {
    const LevelPlan& plan = report.levels[level].report.plan;
    names.push_back(level_name(plan));
    if (const auto count = users_of(plan)) users.push_back(format_compact(*count));
  }
  if (users.size() < names.size() || names.size() == 1) return listed(names);
  return listed(users) + " users";
}

std::string names_of(const RunReport& report, const Indices& levels, std::size_t worst) {
  if (report.levels.size() < 2) return "";
  const std::string name = level_name(report.levels[worst].report.plan);
  if (levels.size() == 1) return name;
  const bool all = levels.size() == report.levels.size();
  return fmt::format("{}, at worst {}", all ? "every level" : counted(report, levels), name);
}

std::string about(const std::string& names, const std::string& text) {
  return names.empty() ? text : fmt::format("{}: {}", names, text);
}

void LevelSentences::add(std::size_t level, std::string text) {
  const std::string shape = shape_of(text);
  // A level that says the same twice speaks of two things.
  auto found = std::find_if(said_.begin(), said_.end(), [&](const Said& said) {
    return said.shape == shape && said.levels.back() != level;
  });
  if (found == said_.end()) found = said_.insert(found, {shape, {}, {}});
  found->texts.push_back(std::move(text));
  found->levels.push_back(level);
}

void LevelSentences::tell(std::vector<std::string>& list, std::string_view every) const {
  for (const Said& said : said_) list.push_back(line(said, every));
}

std::string LevelSentences::line(const Said& said, std::string_view every) const {
  const std::string& last = said.texts.back();
  const bool alike = std::all_of(said.texts.begin(), said.texts.end(),
                                 [&last](const std::string& text) { return text == last; });
  if (alike && said.levels.size() == report_.levels.size() && every.empty()) return last;
  if (alike || said.levels.size() == 1) return about(names_of(report_, said.levels), last);
  const std::string name = level_name(report_.levels[said.levels.back()].report.plan);
  return fmt::format("{}, as {}: {}", counted(report_, said.levels), name, last);
}

}  // namespace nibble::load
