// What tests of several rooms share: a folder, an environment variable and a terminal that go away.
//
//   const TemporaryFolder folder;
//   ASSERT_TRUE(write_file(folder.path() / "config.json", text).ok());
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <stdlib.h>
#include <string>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/check.h"

namespace nibble {

// A fresh folder, removed with all that it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "nibble-test-XXXXXX").string();
    NIBBLE_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Sets (or with nullptr unsets) a variable and restores it at the end of the scope.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~ScopedEnvironment() { set(before_ ? before_->c_str() : nullptr); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      ::setenv(name_.c_str(), value, 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> before_;
};

// A terminal of a given width without anybody in front of it. open() is false where the machine has
// none to give.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    descriptor_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    winsize size = {};
    size.ws_row = 24;
    size.ws_col = columns;
    if (descriptor_ >= 0) static_cast<void>(::ioctl(descriptor_, TIOCSWINSZ, &size));
  }
  ~PseudoTerminal() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (master_ >= 0) ::close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  bool open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }  // the program's end
  // What has been written to it so far; empty when nothing was.
  std::string written() const {
    std::string text(65536, '\0');
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
    const ssize_t count = ::read(master_, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

 private:
  int master_ = -1;
  int descriptor_ = -1;
};

}  // namespace nibble
