#include "cli/hub_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostReference = 200;  // bytes of a commit's name

// Letters, digits and -_. as the Hub allows; a name that begins with a dot is a path.
bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

fs::path of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);  // follows links: snapshots consist of them
}

std::vector<fs::path> snapshots_with(const fs::path& folder, std::string_view file) {
  std::vector<fs::path> found;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    if (is_file(at->path() / file)) found.push_back(at->path() / file);
  }
  return found;
}

}  // namespace

bool is_hub_id(std::string_view name) {
  const std::vector<std::string> parts = split(name, '/');
  if (parts.size() != 2 || !is_part(parts[0]) || !is_part(parts[1])) return false;
  std::error_code ignored;
  return !parts[1].ends_with(".json") && !fs::exists(parts[0], ignored);
}

fs::path hub_cache() {
  if (const fs::path hub = of_variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const fs::path home = of_variable("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = of_variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "huggingface" / "hub";
  }
  const fs::path home = of_variable("HOME");
  return home.empty() ? home : home / ".cache" / "huggingface" / "hub";
}

std::optional<fs::path> find_in_hub_cache(std::string_view id, std::string_view file) {
  const fs::path cache = hub_cache();
  if (cache.empty() || !is_hub_id(id)) return std::nullopt;
  const fs::path model = cache / ("models--" + join(split(id, '/'), "--"));
  const Result<std::string> main = read_file(model / "refs" / "main", kMostReference);
  if (main.ok() && is_part(trim(*main))) {
    const fs::path path = model / "snapshots" / std::string(trim(*main)) / file;
    if (is_file(path)) return path;
  }
  const std::vector<fs::path> found = snapshots_with(model / "snapshots", file);
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

}  // namespace nibble::cli
