#include "checkpoint/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

namespace nibble {
namespace {

Error cannot(const char* what, const std::filesystem::path& path, int code) {
  return input_error("cannot {} {}: {}", what, path.string(), errno_text(code));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe without a writer must not make us wait before it is refused.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return cannot("open", path, errno);
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return input_error("{} is not a regular file; give a safetensors file", path.string());
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile({}, descriptor);  // mmap refuses length 0
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    const int code = errno;
    ::close(descriptor);
    return cannot("map", path, code);
  }
  return MappedFile(std::span(static_cast<const std::byte*>(address), size), descriptor);
}

Result<std::size_t> MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return run_error("cannot be read: {}", errno_text(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::uint64_t MappedFile::bytes_now() const {
  struct stat status = {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace nibble
