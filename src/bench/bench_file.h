// Reads back what `nibble bench --json` wrote: the kernels that other commands set beside a floor.
//
//   NIBBLE_ASSIGN_OR_RETURN(const BenchFile file, read_bench("kernels.json"));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/rig.h"

namespace nibble {

struct BenchFileRow {
  BenchShape shape;  // `tokens` holds one number
  bool cold = true;
  int threads = 1;
  std::string kernel;
  std::optional<double> time_us;  // none: it was not timed, and `error` says why
  std::string error;
};

struct BenchFile {
  std::string path;
  std::string machine;  // the processor's title
  std::string version;  // of the nibble that measured
  std::vector<BenchFileRow> rows;
};

Result<BenchFile> read_bench(const std::string& path);

}  // namespace nibble
