// Part of a tensor, read forwards. Copied and not mapped: a file that becomes shorter while it is
// looked at is then an error, and no end of the program.
//
//   Window codes(checkpoint, tensor, tensor.info->bytes());
//   NIBBLE_ASSIGN_OR_RETURN(const std::span<const std::byte> row, codes.bytes(begin, row_bytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace nibble {

class Window {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // stays in L2, and few system calls

  // Up to `end`, in bytes of the tensor; nothing beyond is fetched.
  Window(const Checkpoint& checkpoint, const StoredTensor& tensor, std::uint64_t end)
      : checkpoint_(checkpoint), tensor_(tensor), end_(end) {}

  // `count` is at most kBytes, and the part ends at `end` or before; valid until the next call.
  Result<std::span<const std::byte>> bytes(std::uint64_t begin, std::size_t count);

 private:
  const Checkpoint& checkpoint_;
  const StoredTensor& tensor_;
  std::uint64_t end_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> held_;
};

}  // namespace nibble
