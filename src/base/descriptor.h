// A file descriptor that closes itself, and what the system says of an error.
//
//   Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
//   if (file.get() < 0) return input_error("cannot read {}: {}", path, errno_text(errno));
#pragma once

#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace nibble {

// Closes on destruction; close() tells whether the last bytes were accepted.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

// "No space left on device". Unlike strerror() safe with many threads.
inline std::string errno_text(int code) {
  return std::generic_category().message(code);
}

}  // namespace nibble
