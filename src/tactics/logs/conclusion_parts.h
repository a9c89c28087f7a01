// The groups of conclusions, one a file; each appends what the logs give reason for.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/units.h"
#include "kernels/device/block_limits.h"
#include "tactics/logs/conclusions.h"
#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

struct Scene {
  std::span<const TacticLog> logs;
  const BlockLimits& limits;
  const AskedChip& asked;
};

void conclude_failures(const Scene& scene, std::vector<Finding>& findings);
void conclude_choices(const Scene& scene, std::vector<Finding>& findings);
void conclude_untuned(const Scene& scene, std::vector<Finding>& findings);
void conclude_triton(const Scene& scene, std::vector<Finding>& findings);
void conclude_reading(const Scene& scene, std::vector<Finding>& findings);

// The GPU that a cache says it was made on, as it is named there; "": it does not say.
std::string device_of(const TacticLog& log);
// Whether the log says that it is of a chip with another major number.
bool is_other_chip(const TacticLog& log, const Scene& scene);
// Whether its cache was made on another GPU than the one that was asked for by name.
bool is_other_gpu(const TacticLog& log, const Scene& scene);

// "server.log:12", or the file alone.
std::string source_of(const TacticLog& log, const Entry& entry);
// What a sentence calls the entry's operation: the operation, else the runner, else "a kernel".
std::string subject_of(const Entry& entry);
// "tactic" or "tactics", with the number before it.
std::string counted(std::int64_t number, std::string_view one, std::string_view many);
// For ids: letters and digits, the rest as '_'.
std::string id_part(std::string_view text);

}  // namespace nibble::logs
