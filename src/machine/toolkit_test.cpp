#include "machine/toolkit.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

bool has(const std::vector<fs::path>& folders, const fs::path& folder) {
  return std::find(folders.begin(), folders.end(), folder) != folders.end();
}

TEST(Toolkit, FoldersOfTheEnvironmentComeFirst) {
  const ScopedEnvironment home("CUDA_HOME", "/opt/cuda-a");
  const ScopedEnvironment path("CUDA_PATH", "/opt/cuda-b");
  const std::vector<fs::path> folders = toolkit_folders();
  ASSERT_GE(folders.size(), 9U);
  EXPECT_EQ(folders[0], "/opt/cuda-a/lib64");
  EXPECT_EQ(folders[4], "/opt/cuda-b/lib64");
  EXPECT_TRUE(has(folders, "/usr/local/cuda/lib64"));
}

TEST(Toolkit, PackagesOfAVirtualEnvironment) {
  const TemporaryFolder folder;
  const fs::path packages = folder.path() / "lib/python3.99/site-packages/nvidia";
  fs::create_directories(packages / "cuda_nvrtc/lib");
  fs::create_directories(packages / "cu13/lib");
  const ScopedEnvironment environment("VIRTUAL_ENV", folder.path().c_str());
  const std::vector<fs::path> folders = toolkit_folders();
  EXPECT_TRUE(has(folders, packages / "cu13/lib"));
  EXPECT_TRUE(has(folders, packages / "cuda_nvrtc/lib"));
}

TEST(Toolkit, PackagesOfThePythonOnThePath) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "bin");
  fs::create_directories(folder.path() / "lib/python3.99/site-packages/nvidia/cu13/lib");
  const fs::path python = folder.path() / "bin/python3";
  ASSERT_TRUE(write_file(python, "#!/bin/sh\n").ok());
  fs::permissions(python, fs::perms::owner_all);
  const ScopedEnvironment path("PATH", (folder.path() / "bin").c_str());
  EXPECT_TRUE(
      has(toolkit_folders(), folder.path() / "lib/python3.99/site-packages/nvidia/cu13/lib"));
}

TEST(Toolkit, PyenvKeepsItsPythonsBesideItsShims) {
  const TemporaryFolder folder;
  const fs::path packages =
      folder.path() / "versions/3.99.1/lib/python3.99/site-packages/nvidia/cu13/lib";
  fs::create_directories(folder.path() / "shims");
  fs::create_directories(packages);
  const fs::path python = folder.path() / "shims/python3";
  ASSERT_TRUE(write_file(python, "#!/bin/sh\n").ok());
  fs::permissions(python, fs::perms::owner_all);
  const ScopedEnvironment path("PATH", (folder.path() / "shims").c_str());
  EXPECT_TRUE(has(toolkit_folders(), packages));
}

TEST(Toolkit, AnAbsentLibrarySaysSo) {
  const DynamicLibrary library = open_toolkit_library({"libnibble-has-none.so.1"});
  EXPECT_FALSE(library);
  EXPECT_NE(library.reason().find("libnibble-has-none.so.1"), std::string::npos);
}

}  // namespace
}  // namespace nibble
