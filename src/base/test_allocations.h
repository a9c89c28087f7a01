// For tests: counts what a program allocates, by an operator new of its own. In one file of a
// program only, and not with AddressSanitizer, which has its own.
//
//   const std::int64_t before = allocations;
//   work();
//   EXPECT_EQ(allocations, before);
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

inline std::atomic<std::int64_t> allocations = 0;

// Definitions, not inline: the language wants these so.
void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
