#include "checkpoint/fault.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/text.h"
#include "base/units.h"

namespace nibble {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

std::string example_of(std::string_view name) {
  return name.empty() ? "\"\"" : printable(name);
}

std::string Fault::text() const {
  if (count == 1 && examples.size() == 1) {
    const bool named = sentence.find(examples.front()) != std::string::npos;
    return named ? sentence : fmt::format("{}: {}", examples.front(), sentence);
  }
  const std::string_view more = count > examples.size() ? ", ..." : "";
  return fmt::format("{} times: {} ({}{})", format_count(static_cast<double>(count)), sentence,
                     join(examples, ", "), more);
}

Fault& FaultLog::entry(Severity severity, std::string_view id, std::string_view sentence) {
  std::string key = fmt::format("{}\n{}", id, sentence);
  const auto [known, is_new] = known_.try_emplace(std::move(key), faults_.size());
  if (is_new) {
    faults_.push_back({.severity = severity,
                       .id = std::string(id),
                       .sentence = std::string(sentence),
                       .count = 0,
                       .examples = {}});
  }
  return faults_[known->second];
}

void FaultLog::add(Severity severity, std::string_view id, std::string_view where,
                   std::string_view sentence) {
  Fault& fault = entry(severity, id, sentence);
  ++fault.count;
  if (fault.examples.size() < kMostExamples) fault.examples.push_back(example_of(where));
}

void FaultLog::add_once(Severity severity, std::string_view id, std::string_view where,
                        std::string_view sentence) {
  const auto known = known_.find(fmt::format("{}\n{}", id, sentence));
  if (known != known_.end()) {
    const std::vector<std::string>& examples = faults_[known->second].examples;
    if (std::find(examples.begin(), examples.end(), example_of(where)) != examples.end()) return;
  }
  add(severity, id, where, sentence);
}

void FaultLog::append(const FaultLog& other) {
  for (const Fault& theirs : other.faults_) {
    Fault& ours = entry(theirs.severity, theirs.id, theirs.sentence);
    ours.count += theirs.count;
    for (const std::string& example : theirs.examples) {
      if (ours.examples.size() < kMostExamples) ours.examples.push_back(example);
    }
  }
}

std::size_t FaultLog::errors() const {
  return static_cast<std::size_t>(
      std::count_if(faults_.begin(), faults_.end(),
                    [](const Fault& fault) { return fault.severity == Severity::kError; }));
}

Result<> FaultLog::refuse(std::string_view path) const {
  for (const Fault& fault : faults_) {
    if (fault.severity == Severity::kError) return input_error("{}: {}", path, fault.text());
  }
  return {};
}

}  // namespace nibble
