#include "checkpoint/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace nibble {
namespace {

Error cannot(const char* what, const std::filesystem::path& path, int code) {
  return input_error("cannot {} {}: {}", what, path.string(),
                     std::generic_category().message(code));
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
  if (size == 0) {  // mmap refuses length 0
    ::close(descriptor);
    return MappedFile({});
  }
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int code = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) return cannot("map", path, code);
  return MappedFile(std::span(static_cast<const std::byte*>(address), size));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace nibble
