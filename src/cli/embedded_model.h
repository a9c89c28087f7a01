// The model that is built into the program (data/tiny), as a folder, because checkpoints are mapped
// from files: written into the cache at the first use.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::filesystem::path folder, unpack_embedded_model());
//   Checkpoint::open(folder);
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cli/command.h"

namespace nibble::cli {

// The folder below the cache folder of nibble, with the bytes that this program holds: files that
// are missing or differ are written anew. A run error where they cannot be.
Result<std::filesystem::path> unpack_embedded_model();

// What --model names, or the embedded model. An input error where that is no folder.
Result<std::filesystem::path> model_folder(const Arguments& arguments);

}  // namespace nibble::cli
