#include "measure/machine_state.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(ProcessorTime, AddsUpTheFirstLine) {
  // user 100, nice 10, system 50, idle 800, iowait 20, irq 5, softirq 5, steal 10 (guest 3 is in
  // user)
  const auto time =
      parse_processor_time("cpu  100 10 50 800 20 5 5 10 3 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n", 100);
  ASSERT_TRUE(time.has_value());
  EXPECT_DOUBLE_EQ(time->total, 10);
  EXPECT_DOUBLE_EQ(time->steal, 0.1);
  EXPECT_NEAR(time->busy, 1.7, 1e-12);
}

TEST(ProcessorTime, WhatIsNoSuchLineGivesNothing) {
  for (const char* text : {"", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"}) {
    EXPECT_FALSE(parse_processor_time(text, 100).has_value()) << text;
  }
  EXPECT_FALSE(parse_processor_time("cpu 1 2 3 4 5 6 7 8", 0).has_value());
}

MachineState state(double total, double busy, double steal, double own) {
  return {.time = ProcessorTime{total, busy, steal}, .own_s = own};
}

TEST(StateChange, SplitsTheTimeThatPassed) {
  // 20 s of two processors: 8 busy, of which 5 ours; 1 stolen.
  const StateChange change = change_between(state(100, 50, 2, 3), state(120, 58, 3, 8));
  EXPECT_DOUBLE_EQ(*change.steal_share, 0.05);
  EXPECT_DOUBLE_EQ(*change.others_share, 0.15);
  EXPECT_FALSE(change_between({}, state(1, 1, 1, 1)).steal_share.has_value());
  EXPECT_FALSE(change_between(state(1, 1, 1, 1), state(1, 1, 1, 1)).others_share.has_value());
}

TEST(StateNotes, SpeakOfWhatDisturbsAndOfNothingElse) {
  EXPECT_TRUE(state_notes(state(100, 50, 2, 3), state(120, 55, 2, 8)).empty());
  const auto notes = state_notes(state(100, 50, 2, 3), state(120, 58, 3, 8));
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0], "the host gave 5.00 % of the processor time to other machines");
  EXPECT_EQ(notes[1], "other processes took 15.0 % of the processor time");
  MachineState fast;
  fast.clock_mhz = 3200;
  MachineState slow;
  slow.clock_mhz = 2500;
  slow.governor = "powersave";
  EXPECT_EQ(state_notes(fast, slow).size(), 2U);
  EXPECT_EQ(state_notes(slow, fast).size(), 0U);
}

TEST(MachineState, CanBeReadHere) {
  const MachineState now = read_machine_state();
  ASSERT_TRUE(now.time.has_value());
  EXPECT_GT(now.time->total, 0);
  EXPECT_TRUE(now.load_average.has_value());
  EXPECT_TRUE(state_json(now, read_machine_state()).is_object());
}

}  // namespace
}  // namespace nibble
