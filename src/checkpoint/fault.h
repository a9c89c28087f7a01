// What is wrong with a checkpoint, gathered instead of stopping at the first: one fault a kind,
// with how often it occurs and up to eight names.
//
//   FaultLog log;
//   log.add(Severity::kError, "nan-scale", tensor, "block scales that are NaN");
//   log.faults()[0].count   // 1; the sentence names the place, or the number of places
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace nibble {

enum class Severity {
  kInfo,     // worth knowing; nothing is wrong
  kWarning,  // it can be loaded, but somebody should look
  kError,    // it cannot be served as it is
};

std::string_view to_string(Severity severity);  // "info", "warning", "error"

// A name from a file as an example: safe to show, and never nothing (a tensor may be called "").
std::string example_of(std::string_view name);

struct Fault {
  Severity severity = Severity::kError;
  std::string id;        // stable, lower case, dashes: "missing-tensor"
  std::string sentence;  // what it is and what to do, without the places
  std::uint64_t count = 0;
  std::vector<std::string> examples;  // tensors, modules or files; the first eight of `count`

  // "mlp.gate.weight: the sentence" or "12 places (a, b, ...): the sentence".
  std::string text() const;
};

class FaultLog {
 public:
  static constexpr std::size_t kMostExamples = 8;

  // Faults with the same id and sentence are one, whose count grows.
  void add(Severity severity, std::string_view id, std::string_view where,
           std::string_view sentence);
  // Nothing when the same was said of the same place before.
  void add_once(Severity severity, std::string_view id, std::string_view where,
                std::string_view sentence);
  void append(const FaultLog& other);

  const std::vector<Fault>& faults() const { return faults_; }
  std::size_t errors() const;  // kinds of errors
  // The first error as a refusal, "PATH: sentence".
  Result<> refuse(std::string_view path) const;

 private:
  Fault& entry(Severity severity, std::string_view id, std::string_view sentence);

  std::vector<Fault> faults_;
  std::unordered_map<std::string, std::size_t> known_;  // "id\nsentence"
};

}  // namespace nibble
