#include "machine/toolkit.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>

#include "base/text.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

using Folders = std::vector<fs::path>;

std::optional<fs::path> folder_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

// The entries of a folder whose name begins so, the last of the alphabet (the newest) first.
Folders entries_with_prefix(const fs::path& folder, std::string_view prefix) {
  Folders found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void add_toolkit(const fs::path& root, Folders& folders) {
  folders.push_back(root / "lib64");
  folders.push_back(root / "targets/x86_64-linux/lib");
  folders.push_back(root / "targets/sbsa-linux/lib");
  folders.push_back(root / "extras/CUPTI/lib64");
}

// Folders below `base` like "python3*/<packages>/nvidia/*/lib": where PyPI's CUDA packages put
// their libraries.
void add_python(const fs::path& base, Folders& folders) {
  for (const fs::path& python : entries_with_prefix(base, "python3")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& package : entries_with_prefix(python / packages / "nvidia", "")) {
        folders.push_back(package / "lib");
      }
    }
  }
}

void add_prefix(const fs::path& prefix, Folders& folders) {
  add_python(prefix / "lib", folders);
  add_python(prefix / "lib64", folders);
}

// The prefix of the first python3 of the PATH, as its link is named (a virtual environment) and as
// it is resolved. pyenv's "python3" is a script in shims/, its Pythons lie in versions/.
void add_python_of_path(Folders& folders) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "", ':')) {
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || ::access(python.c_str(), X_OK) != 0) continue;
    const fs::path prefix = python.parent_path().parent_path();
    add_prefix(prefix, folders);
    if (python.parent_path().filename() == "shims") {
      for (const fs::path& version : entries_with_prefix(prefix / "versions", "")) {
        add_prefix(version, folders);
      }
    }
    std::error_code error;
    const fs::path resolved = fs::canonical(python, error);
    if (!error) add_prefix(resolved.parent_path().parent_path(), folders);
    return;
  }
}

}  // namespace

Folders toolkit_folders() {
  Folders folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto root = folder_variable(variable)) add_toolkit(*root, folders);
  }
  add_toolkit("/usr/local/cuda", folders);
  for (const fs::path& root : entries_with_prefix("/usr/local", "cuda-")) {
    add_toolkit(root, folders);
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto prefix = folder_variable(variable)) add_prefix(*prefix, folders);
  }
  add_python_of_path(folders);
  if (const auto home = folder_variable("HOME")) add_prefix(*home / ".local", folders);
  for (const char* prefix : {"/usr/local", "/usr", "/opt/conda"}) add_prefix(prefix, folders);
  return folders;
}

DynamicLibrary open_toolkit_library(std::span<const char* const> names) {
  DynamicLibrary library;
  for (const char* name : names) {
    library = DynamicLibrary::open({name});
    if (library) return library;
  }
  const Folders folders = toolkit_folders();
  for (const char* name : names) {
    for (const fs::path& folder : folders) {
      const std::string path = (folder / name).string();
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      library = DynamicLibrary::open({path.c_str()});
      if (library) return library;
    }
  }
  return library;
}

}  // namespace nibble
