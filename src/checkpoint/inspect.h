// What `nibble inspect` finds out about a checkpoint, as numbers and sentences; src/cli/inspect.cpp
// shows it.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(folder));
//   const CheckpointReport report = inspect_checkpoint(checkpoint, {.deep = true});
//   report.count(Severity::kError)   // kinds of errors: 0 when it can be served
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/binding.h"
#include "checkpoint/scan.h"

namespace nibble {

struct FileReport {
  std::string name;
  bool readable = false;  // false: missing or refused; the numbers are then 0
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t tensors = 0;
};

// One part of the model: its tensors, with those that are ignored.
struct PartReport {
  Region region = Region::kOther;
  std::uint64_t tensors = 0;
  std::uint64_t matrices = 0;
  double parameters = 0;  // elements of matrices and vectors; scales do not count
  double bytes = 0;
};

// Matrices of one part that are stored, and claimed to be stored, alike.
struct ScopeReport {
  Region region = Region::kOther;
  Format found = Format::kBf16;
  std::optional<ModuleFormat> claimed;  // nothing without a configuration
  bool agrees = true;
  std::uint64_t matrices = 0;
  double parameters = 0;
  double bytes = 0;  // with their scales
  std::uint64_t with_input_scale = 0;
  std::vector<std::string> examples;  // up to eight
};

// Values of the matrices of one part and format.
struct ValueReport {
  Region region = Region::kOther;
  Format format = Format::kBf16;
  std::uint64_t matrices = 0;
  ValueStats values;
  std::optional<float> min_factor, max_factor;
};

struct CheckpointReport {
  std::string path;
  std::string name;                         // the folder's
  std::string architecture;                 // empty without a configuration
  std::string claim;                        // the configuration's quantization in one line
  std::optional<ParameterCount> described;  // what the configuration amounts to
  std::vector<std::string> dialects;        // of the quantized matrices, most frequent first
  std::vector<FileReport> files;
  std::uint64_t tensors = 0;
  double bytes = 0;                // of all files
  double parameters = 0;           // found
  std::vector<PartReport> parts;   // largest first
  std::vector<ScopeReport> scope;  // largest first
  std::vector<IgnoredTensors> ignored;
  std::uint64_t kv_scales = 0;
  std::optional<float> min_kv_scale, max_kv_scale;
  bool deep = false;
  std::vector<ValueReport> values;  // most values first; empty unless deep
  std::vector<Fault> faults;        // errors first

  std::uint64_t count(Severity severity) const;  // kinds of faults
};

struct InspectOptions {
  bool deep = false;  // read every value
};

// `scanning` is told how many bytes a deep scan will read and gives what shows its progress, or
// nullptr.
CheckpointReport inspect_checkpoint(const Checkpoint& checkpoint, const InspectOptions& options,
                                    const std::function<Progress*(double bytes)>& scanning = {});

}  // namespace nibble
