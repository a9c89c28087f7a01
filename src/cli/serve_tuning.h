// `nibble serve --tuning FILE`: the choices of a tuning file for the model's experts.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::string> said, take_tuning(request, options));
//   // said[0]: "tuning file cpu.json: 6 of 8 keys hit"; then what each key got, and why
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/models/load.h"

namespace nibble::cli {

struct ServeTuning {
  std::filesystem::path file;
  std::filesystem::path model;   // the folder of the checkpoint
  std::optional<Isa> isa;        // named on the command line
  int threads = 1;               // of the engine
  std::int64_t most_tokens = 1;  // of a step
};

// As `nibble bench moe --tuning` has it: an input error where there is no such file, it is damaged
// or another device's. One of other kernels, and a model whose experts are none that a tuner tries,
// leave the defaults, and the lines say so.
Result<std::vector<std::string>> take_tuning(const ServeTuning& request,
                                             engine::ModelOptions& options);

}  // namespace nibble::cli
