#include "telemetry/line_file.h"

#include <array>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::telemetry {
namespace {

class LineFileTest : public ::testing::Test {
 protected:
  std::shared_ptr<SampleStore> store_ = std::make_shared<SampleStore>();
  LineFile lines_;
  const std::atomic<bool> never_ = false;
};

TEST_F(LineFileTest, AppendsLines) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "lines";
  ASSERT_TRUE(write_file(path, "before\n").ok());
  ASSERT_TRUE(lines_.open(store_, path).ok());
  store_->add(store_->declare({.name = "a"}), 7, 1.5);
  const Result<bool> written = lines_.write(never_);
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(*written);
  const std::string text = *read_file(path, 1 << 20);
  EXPECT_TRUE(text.starts_with("before\n{\"schema\":")) << text;
  EXPECT_TRUE(text.ends_with("{\"t\":7,\"v\":{\"a\":1.5}}\n")) << text;
}

TEST_F(LineFileTest, AFullDiskAndAFolderAreSentences) {
  EXPECT_EQ(lines_.open(store_, "/").error().message,
            "/: Is a directory; give a file that can be written");
  EXPECT_FALSE(lines_.is_open());
  ASSERT_TRUE(lines_.open(store_, "/dev/full").ok());
  EXPECT_EQ(lines_.write(never_).error().message,
            "/dev/full: No space left on device; what came before is kept");
}

TEST_F(LineFileTest, WithoutAPathNothingIsWritten) {
  ASSERT_TRUE(lines_.open(store_, "").ok());
  EXPECT_FALSE(lines_.is_open());
  EXPECT_TRUE(*lines_.write(never_));
}

// One that hangs costs no memory without end, and the loss is told.
TEST_F(LineFileTest, AFileThatTookNothingForLongIsAnError) {
  ASSERT_TRUE(lines_.open(store_, "/dev/null").ok());
  const SignalId id = store_->declare({.name = std::string(400, 'a')});
  for (int at = 0; at < 22'000; ++at) store_->add(id, at, at);  // lines of more than 400 B
  const Result<bool> written = lines_.write(never_);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message,
            "/dev/null: it took nothing for so long that samples are lost");
}

TEST(WriteAll, WaitsForAReaderUntilItIsStopped) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::atomic<bool> stop = false;
  std::thread finger([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    stop = true;
  });
  // More than a pipe holds.
  EXPECT_EQ(write_all(ends[1], std::string(1 << 22, 'x'), stop), ECANCELED);
  EXPECT_TRUE(stop);
  finger.join();
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as the program does
  ::close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "x", stop), EPIPE);
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace nibble::telemetry
