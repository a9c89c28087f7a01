#include "base/file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/testing.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

mode_t mode_of(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
}

TEST(ReadFile, ReadsEveryByte) {
  const TemporaryFolder folder;
  const std::string text("a\0b\r\n\xFF", 6);
  std::ofstream(folder.path() / "file", std::ios::binary) << text;
  const Result<std::string> read = read_file(folder.path() / "file", 100);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, text);
}

TEST(ReadFile, TheLimitItselfIsAllowed) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0U, 1U, 4096U, 10000U}) {
    std::ofstream(folder.path() / "file", std::ios::binary) << std::string(size, 'x');
    const Result<std::string> read = read_file(folder.path() / "file", size);
    ASSERT_TRUE(read.ok()) << size;
    EXPECT_EQ(read->size(), size);
  }
}

TEST(ReadFile, RefusesLargerFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << std::string(5000, 'x');
  const Result<std::string> read = read_file(folder.path() / "file", 4999);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kInput);
  EXPECT_NE(read.error().message.find("file holds 5.000 kB or more, above the limit of 4.999 kB"),
            std::string::npos)
      << read.error().message;
}

TEST(ReadFile, LimitsFilesWhoseSizeSaysNothing) {
  // Files of /proc claim to hold 0 bytes; this one holds this program's name and more.
  ASSERT_TRUE(read_file("/proc/self/status", 1 << 20).ok());
  EXPECT_FALSE(read_file("/proc/self/status", 10).ok());
}

TEST(ReadFile, NamesThePathAndTheReason) {
  const Result<std::string> missing = read_file("/no/such/file", 10);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kInput);
  EXPECT_EQ(missing.error().message, "cannot read /no/such/file: No such file or directory");
}

TEST(ReadFile, RefusesFoldersPipesAndDevices) {
  const TemporaryFolder folder;
  const Result<std::string> directory = read_file(folder.path(), 10);
  ASSERT_FALSE(directory.ok());
  EXPECT_NE(directory.error().message.find("is a folder"), std::string::npos);

  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_file(pipe, 10).ok());  // and does not wait for a writer
  EXPECT_FALSE(read_file("/dev/zero", 10).ok());
}

TEST(WriteFile, CreatesAndReplaces) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  ASSERT_TRUE(write_file(path, "first, and longer").ok());
  EXPECT_EQ(contents(path), "first, and longer");
  ASSERT_TRUE(write_file(path, std::string_view("se\0cond", 7)).ok());
  EXPECT_EQ(contents(path), std::string("se\0cond", 7));
  EXPECT_EQ(entries(folder.path()), 1U) << "a temporary file was left behind";
}

TEST(WriteFile, WorksForAPathWithoutAFolder) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const Result<> written = write_file("plain.txt", "text");
  fs::current_path(before);
  EXPECT_TRUE(written.ok());
  EXPECT_EQ(contents(folder.path() / "plain.txt"), "text");
}

TEST(WriteFile, FollowsTheUmaskAndKeepsTheModeOfWhatItReplaces) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file(path, "a").ok());
  ::umask(before);
  EXPECT_EQ(mode_of(path), 0640U);  // 0666 without 027
  ASSERT_EQ(::chmod(path.c_str(), 0604), 0);
  ASSERT_TRUE(write_file(path, "b").ok());
  EXPECT_EQ(mode_of(path), 0604U);
}

TEST(WriteFile, WritesThroughSymbolicLinks) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "target") << "old";
  fs::create_symlink("target", folder.path() / "link");
  ASSERT_TRUE(write_file(folder.path() / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(contents(folder.path() / "target"), "new");
}

TEST(WriteFile, LeavesDevicesInPlace) {
  ASSERT_TRUE(write_file("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(WriteFile, AWrongPlaceIsAnInputError) {
  const TemporaryFolder folder;
  const Result<> missing = write_file(folder.path() / "no" / "file", "text");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kInput);
  EXPECT_EQ(missing.error().message, "cannot write " + (folder.path() / "no" / "file").string() +
                                         ": No such file or directory");
  const Result<> directory = write_file(folder.path(), "text");
  ASSERT_FALSE(directory.ok());
  EXPECT_NE(directory.error().message.find("Is a directory"), std::string::npos);
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(WriteFile, AFailedWriteIsARunErrorAndRemovesTheTemporaryFile) {
  // /dev/full refuses every byte: the disk is full.
  const Result<> full = write_file("/dev/full", "text");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::kRun);
  EXPECT_EQ(full.error().message, "cannot write /dev/full: No space left on device");
  // A name of 256 bytes can be held by no folder, but the temporary file's shorter one can.
  const TemporaryFolder folder;
  EXPECT_FALSE(write_file(folder.path() / std::string(256, 'n'), "text").ok());
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(CacheDirectory, FollowsXdg) {
  const ScopedEnvironment home("HOME", "/home/somebody");
  {
    const ScopedEnvironment xdg("XDG_CACHE_HOME", "/var/cache/somebody");
    EXPECT_EQ(cache_directory(), "/var/cache/somebody/nibble");
  }
  for (const char* ignored : {static_cast<const char*>(nullptr), "", "relative/path"}) {
    const ScopedEnvironment xdg("XDG_CACHE_HOME", ignored);
    EXPECT_EQ(cache_directory(), "/home/somebody/.cache/nibble");
  }
  const ScopedEnvironment xdg("XDG_CACHE_HOME", nullptr);
  const ScopedEnvironment homeless("HOME", nullptr);
  EXPECT_TRUE(cache_directory().is_absolute());
}

TEST(WriteFiles, WritesAllOrLeavesAllAsTheyWere) {
  const TemporaryFolder folder;
  const fs::path first = folder.path() / "first";
  std::ofstream(first) << "old";
  const std::pair<fs::path, std::string> good[] = {{first, "new"}, {folder.path() / "second", "2"}};
  ASSERT_TRUE(write_files(good).ok());
  EXPECT_EQ(contents(first), "new");
  EXPECT_EQ(contents(folder.path() / "second"), "2");
  // The second cannot be written: the first keeps its text, and nothing is left beside it.
  const std::pair<fs::path, std::string> bad[] = {{first, "newer"},
                                                  {folder.path() / "no" / "third", "3"}};
  EXPECT_FALSE(write_files(bad).ok());
  EXPECT_EQ(contents(first), "new");
  EXPECT_EQ(entries(folder.path()), 2u);
}

}  // namespace
}  // namespace nibble
