// What a tuning file says of itself, and of what a model needs: `nibble tune --audit`.
//
//   const Audit audit = audit_tuning(file, needed);
//   for (const AuditLine& line : audit.lines) ...
//   audit.missing   // keys that the model needs and the file lacks
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tactics/tune/tuning_file.h"

namespace nibble::tune {

struct AuditLine {
  const TuningEntry* entry = nullptr;
  bool needed = false;  // of the model that was asked for; without a model: all are
};

struct MissingKey {
  TuningKey key;
  std::string why;
};

struct Audit {
  std::vector<AuditLine> lines;  // in the file's order; they point into it
  // Below, of the lines that are needed alone.
  std::vector<MissingKey> missing;
  std::size_t needed = 0;
  std::size_t kept_defaults = 0;  // entries whose choice is the default
  std::size_t without_choice = 0;
  double largest_regret = 0;  // of the default
};

// `needed` empty: only what the file has.
Audit audit_tuning(const TuningFile& file, const std::vector<TuningKey>& needed);

// A member of `nibble tune --audit --json`.
Json to_json(const Audit& audit);

}  // namespace nibble::tune
