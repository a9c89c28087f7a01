#include "tactics/occupancy.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

Chip sm120() {
  return chip_of("sm_120a").value();
}

int blocks_of_bytes(const Chip& chip, std::int64_t bytes) {
  return blocks_per_sm(chip, {.threads = 32, .shared_bytes = bytes}).shared;
}

TEST(Occupancy, ABlockAtTheLimit) {
  EXPECT_EQ(blocks_of_bytes(sm120(), 101375), 1);
  EXPECT_EQ(blocks_of_bytes(sm120(), 101376), 1);
  EXPECT_EQ(blocks_of_bytes(sm120(), 101377), 0);
  EXPECT_EQ(blocks_of_bytes(sm120(), 102400), 0);
}

TEST(Occupancy, SharedMemoryComesInUnitsOf128) {
  EXPECT_EQ(shared_of_block(101376), 102400);
  EXPECT_EQ(shared_of_block(101249), 102400);
  EXPECT_EQ(shared_of_block(101248), 102272);
  // Two blocks: 2 x (50,176 + 1,024) = 102,400.
  EXPECT_EQ(blocks_of_bytes(sm120(), 50176), 2);
  EXPECT_EQ(blocks_of_bytes(sm120(), 50177), 1);
  // Three: 33,109 + 1,024 = 34,133 is a third of 102,400, but takes 34,176, and 3 x 34,176 is
  // 102,528. 33,024 + 1,024 = 34,048 = 266 x 128, and 3 x 34,048 = 102,144.
  EXPECT_EQ(blocks_of_bytes(sm120(), 33109), 2);
  EXPECT_EQ(blocks_of_bytes(sm120(), 33025), 2);
  EXPECT_EQ(blocks_of_bytes(sm120(), 33024), 3);
}

TEST(Occupancy, TheSameBytesOnALargerSm) {
  const Chip b200 = chip_of("sm_100a").value();
  EXPECT_EQ(blocks_of_bytes(b200, 102400), 2);  // 2 x 103,424 = 206,848 of 233,472
  EXPECT_EQ(blocks_of_bytes(b200, 232448), 1);
  EXPECT_EQ(blocks_of_bytes(b200, 232449), 0);
}

int blocks_of_registers(int threads, int registers) {
  return *blocks_per_sm(sm120(), {.threads = threads, .shared_bytes = 0, .registers = registers})
              .registers;
}

TEST(Occupancy, Registers) {
  EXPECT_EQ(registers_of_warp(168), 5376);
  EXPECT_EQ(registers_of_warp(97), 3328);  // 3,104, in units of 256
  // A part of an SM has 16,384: three warps of 168 registers, 12 in all, one block of 9 or 12.
  EXPECT_EQ(blocks_of_registers(288, 168), 1);
  EXPECT_EQ(blocks_of_registers(384, 168), 1);
  // Four warps of 128 (4,096) a part, 16 in all: one block of 9, and two of 8.
  EXPECT_EQ(blocks_of_registers(288, 128), 1);
  EXPECT_EQ(blocks_of_registers(256, 128), 2);
  // 288 threads of 224: nine warps of 7,168 are 64,512, but a launch counts them as 12: 86,016.
  EXPECT_EQ(blocks_of_registers(288, 224), 0);
  EXPECT_EQ(blocks_of_registers(256, 255), 1);
  EXPECT_EQ(blocks_of_registers(32, 256), 0);  // no thread has as many
  // Five warps: 18 of 112 registers (3,584) would be in 65,536, four a part are 16, three blocks.
  EXPECT_EQ(blocks_of_registers(160, 112), 3);
}

TEST(Occupancy, Threads) {
  // 48 warps: five blocks of 9 (45), one of 25; a Hopper SM has 64.
  const auto of_warps = [](const Chip& chip, int warps) {
    return blocks_per_sm(chip, {.threads = 32 * warps}).threads;
  };
  EXPECT_EQ(of_warps(sm120(), 9), 5);
  EXPECT_EQ(of_warps(sm120(), 25), 1);
  EXPECT_EQ(of_warps(chip_of("sm_90a").value(), 25), 2);
}

TEST(Occupancy, WhatBounds) {
  const BlocksPerSm by_shared =
      blocks_per_sm(sm120(), {.threads = 160, .shared_bytes = 50176, .registers = 64});
  EXPECT_EQ(by_shared.blocks(), 2);
  EXPECT_EQ(by_shared.bound(), SmBound::kShared);
  const BlocksPerSm by_registers =
      blocks_per_sm(sm120(), {.threads = 288, .shared_bytes = 20000, .registers = 168});
  EXPECT_EQ(by_registers.blocks(), 1);
  EXPECT_EQ(by_registers.bound(), SmBound::kRegisters);
  const BlocksPerSm by_threads =
      blocks_per_sm(sm120(), {.threads = 1024, .shared_bytes = 1000, .registers = 16});
  EXPECT_EQ(by_threads.blocks(), 1);
  EXPECT_EQ(by_threads.bound(), SmBound::kThreads);
  const BlocksPerSm by_slots =
      blocks_per_sm(sm120(), {.threads = 32, .shared_bytes = 0, .registers = 16});
  EXPECT_EQ(by_slots.blocks(), 24);
  EXPECT_EQ(by_slots.bound(), SmBound::kBlocks);
  // Unknown registers bound nothing.
  EXPECT_EQ(blocks_per_sm(sm120(), {.threads = 288, .shared_bytes = 20000}).blocks(), 4);
}

}  // namespace
}  // namespace nibble
