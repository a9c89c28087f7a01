#include "cuda/arch.h"

#include <gtest/gtest.h>

namespace nibble::cuda {
namespace {

TEST(Arch, IsReadAndWritten) {
  EXPECT_EQ(*parse_arch("sm_80"), (Arch{.major = 8}));
  EXPECT_EQ(*parse_arch("sm_90a"), (Arch{.major = 9, .suffix = 'a'}));
  EXPECT_EQ(*parse_arch("sm_103f"), (Arch{.major = 10, .minor = 3, .suffix = 'f'}));
  EXPECT_EQ(*parse_arch("compute_80"), (Arch{.major = 8, .ptx = true}));
  for (const char* text : {"sm_89", "sm_90a", "sm_120f", "compute_80", "compute_100a"}) {
    EXPECT_EQ(parse_arch(text)->name(), text);
  }
  EXPECT_EQ(parse_arch("compute_90a")->target(), "sm_90a");
  for (const char* text :
       {"", "sm_", "sm_9", "sm_9000", "sm_90b", "sm_a", "sm_-90", "sm_+9", "sm_09", "compute_",
        "compute_8", "compute_80 ", "compute80", "SM_90", "90a", "sm_90aa"}) {
    EXPECT_FALSE(parse_arch(text).has_value()) << text;
  }
}

// CUDA C++ programming guide, "Binary Compatibility", "PTX Compatibility" and "Family-Specific
// Features": a cubin runs within its major version, PTX on all that is later, an "a" on its own.
TEST(Arch, WhatRunsWhere) {
  const auto runs = [](const char* text, int major, int minor) {
    return runs_on(*parse_arch(text), major, minor);
  };
  EXPECT_TRUE(runs("sm_80", 8, 0));
  EXPECT_TRUE(runs("sm_80", 8, 9));
  EXPECT_FALSE(runs("sm_89", 8, 0));
  EXPECT_FALSE(runs("sm_80", 9, 0));
  EXPECT_TRUE(runs("compute_80", 8, 0));
  EXPECT_TRUE(runs("compute_80", 9, 0));
  EXPECT_TRUE(runs("compute_89", 12, 0));
  EXPECT_FALSE(runs("compute_89", 8, 6));
  EXPECT_FALSE(runs("compute_90", 8, 9));
  EXPECT_TRUE(runs("sm_90a", 9, 0));
  EXPECT_TRUE(runs("compute_90a", 9, 0));
  EXPECT_FALSE(runs("compute_90a", 10, 0));
  EXPECT_FALSE(runs("sm_100a", 10, 3));
  EXPECT_TRUE(runs("sm_100f", 10, 3));
  EXPECT_TRUE(runs("compute_100f", 10, 3));
  EXPECT_FALSE(runs("compute_100f", 12, 0));
}

}  // namespace
}  // namespace nibble::cuda
