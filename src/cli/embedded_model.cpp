#include "cli/embedded_model.h"

#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> embedded_model();
}  // namespace nibble::embedded

namespace nibble::cli {
namespace {

// FNV-1a over all names and bytes: programs with different models use different folders.
std::uint64_t fingerprint(std::span<const EmbeddedFile> files) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::string_view text) {
    for (const char byte : text) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
  };
  for (const EmbeddedFile& file : files) {
    add(file.name);
    add(file.text);
  }
  return hash;
}

bool holds(const std::filesystem::path& path, std::string_view text) {
  std::error_code code;
  if (std::filesystem::file_size(path, code) != text.size() || code) return false;
  const auto read = read_file(path, text.size());
  return read.ok() && *read == text;
}

}  // namespace

Result<std::filesystem::path> unpack_embedded_model() {
  const std::span<const EmbeddedFile> files = embedded::embedded_model();
  const std::filesystem::path folder =
      cache_directory() / fmt::format("embedded-model-{:016x}", fingerprint(files)) / "nibble-tiny";
  std::vector<std::pair<std::filesystem::path, std::string>> missing;
  for (const EmbeddedFile& file : files) {
    if (!holds(folder / file.name, file.text)) missing.emplace_back(folder / file.name, file.text);
  }
  if (missing.empty()) return folder;
  const auto failed = [&](std::string_view why) {
    return run_error(
        "the embedded model cannot be unpacked into {}: {}; set XDG_CACHE_HOME to a folder that "
        "can "
        "be written, or give a checkpoint with --model",
        folder.string(), why);
  };
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return failed(code.message());
  if (const Result<> written = write_files(missing); !written) {
    return failed(written.error().message);
  }
  return folder;
}

Result<std::filesystem::path> model_folder(const Arguments& arguments) {
  const auto given = arguments.text("--model");
  if (!given) return unpack_embedded_model();
  std::error_code ignored;
  if (std::filesystem::is_directory(*given, ignored)) return std::filesystem::path(*given);
  return input_error(
      "--model is \"{}\", which is no folder; give a checkpoint's folder, with weights",
      printable(*given));
}

}  // namespace nibble::cli
