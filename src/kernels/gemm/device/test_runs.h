// A product run several times on the same input: what it gave the first time, if all gave the same.
//
//   const std::vector<std::byte> bytes = same_bytes_of(3, [&] { return run_once(kernel, stream);
//   }); compare(bytes);
#pragma once

#include <cstddef>
#include <gtest/gtest.h>
#include <vector>

namespace nibble {

template <class Run>
std::vector<std::byte> same_bytes_of(int runs, const Run& run) {
  const std::vector<std::byte> first = run();
  for (int again = 1; again < runs; ++again) {
    EXPECT_TRUE(run() == first) << "run " << again << " has other bits than the first";
  }
  return first;
}

}  // namespace nibble
