#include "checkpoint/window.h"

#include <algorithm>

#include "base/check.h"

namespace nibble {

Result<std::span<const std::byte>> Window::bytes(std::uint64_t begin, std::size_t count) {
  NIBBLE_CHECK(count <= kBytes && begin <= end_ && count <= end_ - begin);
  if (begin < begin_ || begin + count > begin_ + held_.size()) {
    held_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBytes, end_ - begin)));
    begin_ = begin;
    const Result<> read = checkpoint_.read(tensor_, begin, held_);
    if (!read.ok()) return read.error();
  }
  return std::span<const std::byte>(held_).subspan(static_cast<std::size_t>(begin - begin_), count);
}

}  // namespace nibble
