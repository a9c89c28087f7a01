#include "load/row_file.h"

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <thread>

#include "base/file.h"
#include "base/testing.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

RequestRecord numbered(std::int64_t index) {
  RequestRecord record = make_row({.sent = 5, .events = {1, 2}, .end = 3, .output = 2});
  record.index = index;
  return record;
}

std::vector<std::int64_t> indices(const std::filesystem::path& path, RowsRead* read = nullptr) {
  std::vector<std::int64_t> found;
  const auto result = for_each_row(path, [&](const RequestRecord& record) -> Result<> {
    found.push_back(record.index);
    return {};
  });
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  if (read != nullptr && result.ok()) *read = *result;
  return found;
}

TEST(RowFile, WritesAndReads) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  for (std::int64_t index = 0; index < 3; ++index) ASSERT_TRUE(writer->write(numbered(index)).ok());
  EXPECT_EQ(writer->rows(), 3);
  ASSERT_TRUE(writer->flush().ok());
  EXPECT_EQ(indices(path).size(), 3U);  // on disk before the end
  ASSERT_TRUE(writer->write(numbered(3)).ok());
  ASSERT_TRUE(writer->finish().ok());
  ASSERT_TRUE(writer->finish().ok());  // again is no harm
  RowsRead read;
  EXPECT_EQ(indices(path, &read), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(read.rows, 4);
  EXPECT_FALSE(read.cut);
  EXPECT_EQ(read.note(), "");
}

TEST(RowFile, TwoRunsCannotWriteOneFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(numbered(1)).ok());
  const auto second = RowWriter::create(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kInput);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(indices(path), (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(RowWriter::create(path).ok());  // the first is done: it is replaced
  EXPECT_TRUE(indices(path).empty());
}

TEST(RowFile, ThreadsWriteWholeRows) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int row = 0; row < 500; ++row) {
        EXPECT_TRUE(writer->write(numbered(thread * 1000 + row)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer->finish().ok());
  std::vector<std::int64_t> found = indices(path);
  std::sort(found.begin(), found.end());
  ASSERT_EQ(found.size(), 2000U);
  EXPECT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
}

TEST(RowFile, ACutLastLineIsLeftOutAndSaid) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  for (std::int64_t index = 0; index < 2; ++index) ASSERT_TRUE(writer->write(numbered(index)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const std::string text = *read_file(path, 1 << 20);
  const std::size_t first = text.find('\n') + 1;
  for (std::size_t length = first + 1; length < text.size() - 1; length += 7) {
    ASSERT_TRUE(write_file(path, text.substr(0, length)).ok());
    RowsRead read;
    EXPECT_EQ(indices(path, &read), std::vector<std::int64_t>{0}) << length;
    EXPECT_TRUE(read.cut);
    EXPECT_NE(read.note().find("left out"), std::string::npos);
  }
  // Whole but for its newline: a row.
  ASSERT_TRUE(write_file(path, text.substr(0, text.size() - 1)).ok());
  RowsRead read;
  EXPECT_EQ(indices(path, &read).size(), 2U);
  EXPECT_FALSE(read.cut);
}

TEST(RowFile, ABrokenLineInTheMiddleIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  std::string text;
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer->write(numbered(0)).ok());
  ASSERT_TRUE(writer->finish().ok());
  text = *read_file(path, 1 << 20);
  ASSERT_TRUE(write_file(path, text + "{\"v\":1\n" + text).ok());
  const auto result = for_each_row(path, [](const RequestRecord&) -> Result<> { return {}; });
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("rows.jsonl:2"), std::string::npos);
}

TEST(RowFile, AnErrorOfTheReaderEndsIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer->write(numbered(0)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto result =
      for_each_row(path, [](const RequestRecord&) -> Result<> { return run_error("enough"); });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "enough");
}

TEST(RowFile, FilesThatAreNone) {
  const TemporaryFolder folder;
  const auto nothing = [](const RequestRecord&) -> Result<> { return {}; };
  EXPECT_FALSE(for_each_row(folder.path() / "missing", nothing).ok());
  EXPECT_FALSE(for_each_row(folder.path(), nothing).ok());
  EXPECT_FALSE(RowWriter::create(folder.path() / "no" / "rows.jsonl").ok());
  ASSERT_TRUE(write_file(folder.path() / "empty", "").ok());
  const auto empty = for_each_row(folder.path() / "empty", nothing);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->rows, 0);
}

// A limit on the size of files stands for a full disk: both refuse the write in the middle of a
// row.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(std::signal(SIGXFSZ, handler_));
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = SIG_DFL;
};

TEST(RowFile, AFullDiskKeepsTheRowsThatFitted) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.jsonl";
  auto writer = RowWriter::create(path);
  ASSERT_TRUE(writer.ok());
  Result<> failure;
  {
    const SmallDisk disk(2000);  // a row takes about 700 bytes
    for (std::int64_t index = 0; index < 5; ++index) {
      ASSERT_TRUE(writer->write(numbered(index)).ok());
    }
    failure = writer->flush();
    ASSERT_FALSE(failure.ok());
  }
  EXPECT_EQ(failure.error().kind, ErrorKind::kRun);
  RowsRead read;
  const std::vector<std::int64_t> kept = indices(path, &read);
  EXPECT_GE(kept.size(), 2U);
  EXPECT_FALSE(read.cut);  // the part of a row was taken back
  const std::string said = fmt::format("{} rows are kept", kept.size());
  EXPECT_NE(failure.error().message.find(said), std::string::npos) << failure.error().message;
  const std::string lost = fmt::format("{} after them are lost", 5 - kept.size());
  EXPECT_NE(failure.error().message.find(lost), std::string::npos) << failure.error().message;
  EXPECT_EQ(writer->rows(), static_cast<std::int64_t>(kept.size()));
  // The failure stays, although there would be room again.
  EXPECT_FALSE(writer->write(numbered(9)).ok());
  EXPECT_FALSE(writer->finish().ok());
  EXPECT_EQ(indices(path).size(), kept.size());
}

TEST(RowFile, NoSpaceSaysWhatToDo) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto writer = RowWriter::create("/dev/full");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(numbered(0)).ok());
  const Result<> failure = writer->finish();
  ASSERT_FALSE(failure.ok());
  EXPECT_NE(failure.error().message.find("No space left"), std::string::npos);
  EXPECT_NE(failure.error().message.find("make room"), std::string::npos);
}

}  // namespace
}  // namespace nibble::load
