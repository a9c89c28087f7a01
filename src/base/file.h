// Reading and writing whole files: one sentence when it fails, nothing half-written.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, 64 << 20));
//   NIBBLE_RETURN_IF_ERROR(write_file(directory / "report.json", document.dump()));
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace nibble {

// Reads a regular file of at most `max_bytes`; a folder, a missing or larger file is an input
// error.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes);

// Writes beside the target, syncs, then renames: the target holds the old text or the new one.
Result<> write_file(const std::filesystem::path& path, std::string_view text);

// Several files that belong together: all are written aside before the first is renamed, so that a
// full disk leaves the old set whole.
Result<> write_files(std::span<const std::pair<std::filesystem::path, std::string>> files);

// The XDG cache folder of nibble ($XDG_CACHE_HOME/nibble or ~/.cache/nibble); not created here.
std::filesystem::path cache_directory();

}  // namespace nibble
