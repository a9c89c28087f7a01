#include "base/huge_buffer.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace nibble {
namespace {

TEST(HugeBuffer, IsZeroedAndAligned) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5} << 20}) {
    Result<HugeBuffer> buffer = HugeBuffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % (2 << 20), 0U);
    EXPECT_TRUE(std::all_of(buffer->bytes().begin(), buffer->bytes().end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    buffer->bytes().back() = std::byte{1};
  }
}

TEST(HugeBuffer, MovesItsMemory) {
  HugeBuffer first = std::move(HugeBuffer::allocate(100)).value();
  first.bytes()[7] = std::byte{9};
  HugeBuffer second = std::move(first);
  EXPECT_EQ(second.bytes()[7], std::byte{9});
  EXPECT_EQ(first.size(), 0U);
}

TEST(HugeBuffer, RefusesMoreThanTheMachineHas) {
  const Result<HugeBuffer> buffer =
      HugeBuffer::allocate(std::numeric_limits<std::size_t>::max() / 2);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().kind, ErrorKind::kRun);
}

}  // namespace
}  // namespace nibble
