// A file mapped into memory, read-only: nothing is copied, and only what is read is fetched. The
// system ends a program that touches mapped bytes of a file that has become shorter meanwhile; what
// looks at files that others may still write goes through read(), which notices.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
//   file.bytes();           // std::span<const std::byte>, mapped
//   file.read(8, buffer);   // copied; fewer bytes than asked for when the file has become shorter
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "base/result.h"

namespace nibble {

class MappedFile {
 public:
  // A regular file; anything else, or one that cannot be opened, is an input error. It stays open,
  // so that read() sees the file that is mapped, whatever has taken its name since.
  static Result<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  // How many bytes from `offset` on it has put into `out`: fewer than that holds at the file's end
  // alone. A device that fails is a run error.
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const;
  // What the file has now, if it can be asked.
  std::uint64_t bytes_now() const;

 private:
  MappedFile(std::span<const std::byte> bytes, int descriptor)
      : bytes_(bytes), descriptor_(descriptor) {}

  std::span<const std::byte> bytes_;
  int descriptor_ = -1;
};

}  // namespace nibble
