// A file mapped into memory, read-only: nothing is copied, and only what is read is fetched.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
//   file.bytes();   // std::span<const std::byte>
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "base/result.h"

namespace nibble {

class MappedFile {
 public:
  // A regular file; anything else, or one that cannot be opened, is an input error. The file must
  // not be shortened while it is mapped: the system ends a program that reads beyond the end.
  static Result<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace nibble
