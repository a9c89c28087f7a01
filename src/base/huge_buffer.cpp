#include "base/huge_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

namespace nibble {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t mapped_bytes(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

Result<HugeBuffer> HugeBuffer::allocate(std::size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  // The kernel promises more than it has: a request beyond all memory would fail at first touch.
  if (bytes > page * pages) {
    return run_error(
        "{} bytes of memory are needed, but the machine has {}; choose a smaller shape", bytes,
        page * pages);
  }
  // One huge page more, so that an aligned start lies inside; the rest is given back.
  const std::size_t wanted = mapped_bytes(bytes);
  void* memory = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return run_error("{} bytes of memory could not be had; choose a smaller shape", bytes);
  }
  auto* const begin = static_cast<std::byte*>(memory);
  const std::size_t skip =
      (kHugePage - reinterpret_cast<std::size_t>(begin) % kHugePage) % kHugePage;
  if (skip > 0) ::munmap(begin, skip);
  if (skip < kHugePage) ::munmap(begin + skip + wanted, kHugePage - skip);
  buffer.data_ = begin + skip;
  buffer.size_ = bytes;
  ::madvise(buffer.data_, wanted, MADV_HUGEPAGE);
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes(size_));
}

}  // namespace nibble
