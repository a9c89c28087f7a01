#include "cuda/cubin_cache.h"

#include <chrono>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "cuda/compile.h"
#include "cuda/sha256.h"

namespace nibble::cuda {
namespace {

namespace fs = std::filesystem;

CacheEntry entry_of(const std::string& name, std::size_t bytes) {
  CacheEntry entry{
      .program = name, .arch = "sm_90a", .compiler = "NVRTC 13.0", .log = "the log of " + name};
  for (std::size_t i = 0; i < bytes; ++i) {
    entry.image.push_back(static_cast<std::byte>((i * 7 + name.size()) & 0xff));
  }
  return entry;
}

void expect_same(const CacheFound& found, const CacheEntry& entry) {
  ASSERT_TRUE(found.entry.has_value()) << found.note;
  EXPECT_EQ(found.entry->program, entry.program);
  EXPECT_EQ(found.entry->arch, entry.arch);
  EXPECT_EQ(found.entry->compiler, entry.compiler);
  EXPECT_EQ(found.entry->log, entry.log);
  EXPECT_EQ(found.entry->image, entry.image);
  EXPECT_EQ(found.note, "");
}

fs::path only_file(const fs::path& folder) {
  fs::path path;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) path = entry.path();
  return path;
}

void overwrite(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST(CubinCache, GivesBackWhatItKept) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path() / "deep/er");
  EXPECT_FALSE(cache.find("key", "13.0-1").entry.has_value());
  const CacheEntry entry = entry_of("add", 1000);
  ASSERT_TRUE(cache.keep("key", "13.0-1", entry).ok());
  expect_same(cache.find("key", "13.0-1"), entry);
  EXPECT_FALSE(cache.find("key", "13.0-2").entry.has_value());
  EXPECT_FALSE(cache.find("kex", "13.0-1").entry.has_value());
  EXPECT_FALSE(cache.find("ke", "").entry.has_value());
  // An empty program is an entry too.
  ASSERT_TRUE(cache.keep("empty", "13.0-1", CacheEntry()).ok());
  expect_same(cache.find("empty", "13.0-1"), CacheEntry());
}

TEST(CubinCache, WithoutACompilerTakesWhatAnyMade) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  const CacheEntry older = entry_of("older", 10);
  const CacheEntry newer = entry_of("newer", 10);
  ASSERT_TRUE(cache.keep("key", "12.8-1", older).ok());
  ASSERT_TRUE(cache.keep("key", "13.0-1", newer).ok());
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(folder.path() / "key-12.8-1.cubin", now - std::chrono::hours(2));
  fs::last_write_time(folder.path() / "key-13.0-1.cubin", now - std::chrono::hours(1));
  expect_same(cache.find("key", ""), newer);
  // The damaged one is passed over for the sound one.
  overwrite(folder.path() / "key-13.0-1.cubin", "nothing");
  expect_same(cache.find("key", ""), older);
}

TEST(CubinCache, AnyDamagedByteIsAMiss) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  const CacheEntry entry = entry_of("add", 40);
  ASSERT_TRUE(cache.keep("key", "13.0", entry).ok());
  const fs::path path = only_file(folder.path());
  const std::string whole = *read_file(path, 1 << 20);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    overwrite(path, damaged);
    const CacheFound found = cache.find("key", "13.0");
    ASSERT_FALSE(found.entry.has_value()) << at;
    ASSERT_EQ(found.note, path.string() + " was damaged");
  }
  ASSERT_TRUE(cache.keep("key", "13.0", entry).ok());
  expect_same(cache.find("key", "13.0"), entry);
}

TEST(CubinCache, AnyTruncationAndAnyTailIsAMiss) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  ASSERT_TRUE(cache.keep("key", "13.0", entry_of("add", 40)).ok());
  const fs::path path = only_file(folder.path());
  const std::string whole = *read_file(path, 1 << 20);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    overwrite(path, whole.substr(0, size));
    ASSERT_FALSE(cache.find("key", "13.0").entry.has_value()) << size;
  }
  overwrite(path, whole + "x");
  EXPECT_FALSE(cache.find("key", "13.0").entry.has_value());
}

// A checksum that is right does not make the lengths of the fields right.
TEST(CubinCache, FieldsThatLieAboutTheirLengthAreAMiss) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  const fs::path path = folder.path() / "key-13.0.cubin";
  for (const std::string& body :
       {std::string(8, '\xff'), std::string(8, '\0'), std::string(7, '\0'), std::string(48, '\0'),
        std::string("\xf8\xff\xff\xff\xff\xff\xff\xff", 8) + std::string(64, '\0')}) {
    overwrite(path, "nibble.cubin/1\n" + sha256_hex(body) + body);
    EXPECT_FALSE(cache.find("key", "13.0").entry.has_value());
  }
}

TEST(CubinCache, ARenamedFileIsAMiss) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  ASSERT_TRUE(cache.keep("key", "13.0", entry_of("add", 10)).ok());
  fs::rename(folder.path() / "key-13.0.cubin", folder.path() / "other-13.0.cubin");
  EXPECT_FALSE(cache.find("other", "13.0").entry.has_value());
}

TEST(CubinCache, AFolderInAnEntrysPlaceIsAMissAndANote) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  fs::create_directory(folder.path() / "key-13.0.cubin");
  const CacheFound found = cache.find("key", "13.0");
  EXPECT_FALSE(found.entry.has_value());
  EXPECT_NE(found.note.find("is a folder"), std::string::npos);
  EXPECT_FALSE(cache.keep("key", "13.0", entry_of("add", 10)).ok());
}

TEST(CubinCache, WhereNothingCanBeWrittenSaysSo) {
  const TemporaryFolder folder;
  overwrite(folder.path() / "file", "in the way");
  const CubinCache cache(folder.path() / "file/cubins");
  EXPECT_FALSE(cache.find("key", "13.0").entry.has_value());
  EXPECT_FALSE(cache.find("key", "").entry.has_value());
  const Result<> kept = cache.keep("key", "13.0", entry_of("add", 10));
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.error().message.find("NIBBLE_CUBIN_CACHE"), std::string::npos);
}

TEST(CubinCache, ThrowsOutWhatWasUsedTheLongestAgo) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path(), 4000);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 3; ++i) {
    const std::string key = fmt::format("key{}", i);
    ASSERT_TRUE(cache.keep(key, "13.0", entry_of(key, 1000)).ok());
    fs::last_write_time(folder.path() / (key + "-13.0.cubin"), now - std::chrono::hours(9 - i));
  }
  // Using the oldest makes it the newest.
  ASSERT_TRUE(cache.find("key0", "13.0").entry.has_value());
  ASSERT_TRUE(cache.keep("key3", "13.0", entry_of("key3", 1000)).ok());
  EXPECT_TRUE(cache.find("key0", "13.0").entry.has_value());
  EXPECT_FALSE(cache.find("key1", "13.0").entry.has_value());
  EXPECT_TRUE(cache.find("key2", "13.0").entry.has_value());
  EXPECT_TRUE(cache.find("key3", "13.0").entry.has_value());
}

TEST(CubinCache, RemovesWhatWasLeftHalfWritten) {
  const TemporaryFolder folder;
  const CubinCache cache(folder.path());
  const fs::path old = folder.path() / ".nibble-1-1.tmp";
  const fs::path fresh = folder.path() / ".nibble-2-1.tmp";
  const fs::path foreign = folder.path() / "notes.txt";
  for (const fs::path& path : {old, fresh, foreign}) overwrite(path, "half");
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(old, now - std::chrono::hours(2));
  fs::last_write_time(foreign, now - std::chrono::hours(2));
  ASSERT_TRUE(cache.keep("key", "13.0", entry_of("add", 10)).ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

// Each writer writes its own entry and one that all share, and reads all the time: what is found is
// whole, and is the entry that was asked for.
int write_and_read(const fs::path& folder, int writer, std::uint64_t most_bytes) {
  const CubinCache cache(folder, most_bytes);
  const std::string own = fmt::format("own{}", writer);
  for (int round = 0; round < 6; ++round) {
    for (const std::string& key : {own, std::string("shared")}) {
      const CacheEntry entry = entry_of(key, 20000);
      if (!cache.keep(key, "13.0", entry).ok()) return 1;
      const CacheFound found = cache.find(key, round % 2 == 0 ? "13.0" : "");
      if (!found.note.empty()) return 2;
      if (found.entry && found.entry->image != entry.image) return 3;
      if (!found.entry && most_bytes == CubinCache::kMostBytes) return 4;
    }
  }
  return 0;
}

TEST(CubinCache, ManyThreads) {
  const TemporaryFolder folder;
  std::vector<int> results(8, -1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      results[static_cast<std::size_t>(i)] =
          write_and_read(folder.path(), i, CubinCache::kMostBytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, std::vector<int>(8, 0));
}

TEST(CubinCache, ManyProcessesThatAlsoThrowOut) {
  for (const std::uint64_t most_bytes : {CubinCache::kMostBytes, std::uint64_t{60000}}) {
    const TemporaryFolder folder;
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) ::_exit(write_and_read(folder.path(), i, most_bytes));
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
      EXPECT_TRUE(entry.path().filename().string().ends_with(".cubin")) << entry.path();
    }
  }
}

TEST(CubinCache, LiesWhereItIsToldTo) {
  const TemporaryFolder folder;
  const ScopedEnvironment xdg("XDG_CACHE_HOME", folder.path().c_str());
  {
    const ScopedEnvironment none("NIBBLE_CUBIN_CACHE", nullptr);
    EXPECT_EQ(cubin_cache_folder(), folder.path() / "nibble/cubins");
  }
  {
    const ScopedEnvironment empty("NIBBLE_CUBIN_CACHE", "");
    EXPECT_EQ(cubin_cache_folder(), folder.path() / "nibble/cubins");
  }
  const ScopedEnvironment chosen("NIBBLE_CUBIN_CACHE", "/somewhere/else");
  EXPECT_EQ(cubin_cache_folder(), "/somewhere/else");
}

// Whoever can write there decides what runs on the GPU.
TEST(CubinCache, AFolderThatOthersCanWriteIsNotUsed) {
  const TemporaryFolder folder;
  const ScopedEnvironment xdg("XDG_CACHE_HOME", folder.path().c_str());
  const ScopedEnvironment none("NIBBLE_CUBIN_CACHE", nullptr);
  ASSERT_TRUE(CubinCache::of_user().keep("key", "13.0", entry_of("add", 10)).ok());
  ASSERT_TRUE(CubinCache::of_user().find("key", "13.0").entry.has_value());
  fs::permissions(folder.path() / "nibble/cubins", fs::perms::all);
  const CacheFound found = CubinCache::of_user().find("key", "13.0");
  EXPECT_FALSE(found.entry.has_value());
  EXPECT_NE(found.note.find("can be written by other users"), std::string::npos);
  EXPECT_FALSE(CubinCache::of_user().keep("key", "13.0", entry_of("add", 10)).ok());
}

}  // namespace
}  // namespace nibble::cuda
