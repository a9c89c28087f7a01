// What `nibble tune` and `nibble tune --audit` print for people.
//
//   fmt::print("{}", tune_text(file, audit, {.path = "h200.json"}, Style::for_stdout()));
#pragma once

#include <string>
#include <vector>

#include "base/terminal.h"
#include "tactics/tune/audit.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::cli {

struct TuneSaid {
  std::string path;
  std::vector<std::string> notes;
  std::vector<tune::TuningKey> reused;
};

std::string tune_text(const tune::TuningFile& file, const tune::Audit& audit, const TuneSaid& said,
                      const Style& style);

}  // namespace nibble::cli
