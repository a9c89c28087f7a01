// Where libraries of the CUDA toolkit are sought: the loader's own path, the toolkit's folders, and
// those of PyPI's packages. No toolkit is needed; whoever finds none is told what it would give.
//
//   const DynamicLibrary nvrtc = open_toolkit_library({"libnvrtc.so.13", "libnvrtc.so.12"});
//   if (!nvrtc) return run_error("NVRTC was not found ({})", nvrtc.reason());
#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/dynamic_library.h"

namespace nibble {

// The folders after the loader's path, best first: $CUDA_HOME and $CUDA_PATH, /usr/local/cuda and
// /usr/local/cuda-*, and nvidia/*/lib below the packages of $VIRTUAL_ENV, $CONDA_PREFIX, the
// python3 of the PATH, the user and the system.
std::vector<std::filesystem::path> toolkit_folders();

// The first of the names (newest first) that the loader has, or else that lies in a folder.
DynamicLibrary open_toolkit_library(std::span<const char* const> names);
inline DynamicLibrary open_toolkit_library(std::initializer_list<const char*> names) {
  return open_toolkit_library(std::span(names.begin(), names.size()));
}

}  // namespace nibble
