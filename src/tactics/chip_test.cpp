#include "tactics/chip.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Chip, OfAnArchitecture) {
  const Result<Chip> chip = chip_of("sm_120a");
  ASSERT_TRUE(chip.ok()) << chip.error().message;
  EXPECT_EQ(chip->arch.name(), "sm_120a");
  EXPECT_EQ(chip->machine, "");
  EXPECT_EQ(chip->limits.shared_per_block, 101376);  // 99 KiB
  EXPECT_EQ(chip->limits.shared_per_sm, 102400);     // 100 KiB
  EXPECT_EQ(chip->warps_per_sm, 48);
  EXPECT_EQ(chip->blocks_per_sm, 24);
}

TEST(Chip, EachArchitectureHasItsOwn) {
  struct Known {
    const char* arch;
    int block;
    int sm;
    int warps;
  };
  for (const Known& known :
       {Known{"sm_80", 166912, 167936, 64}, Known{"sm_86", 101376, 102400, 48},
        Known{"sm_89", 101376, 102400, 48}, Known{"sm_90a", 232448, 233472, 64},
        Known{"sm_100a", 232448, 233472, 64}, Known{"sm_121a", 101376, 102400, 48}}) {
    const Result<Chip> chip = chip_of(known.arch);
    ASSERT_TRUE(chip.ok()) << known.arch;
    EXPECT_EQ(chip->limits.shared_per_block, known.block) << known.arch;
    EXPECT_EQ(chip->limits.shared_per_sm, known.sm) << known.arch;
    EXPECT_EQ(chip->warps_per_sm, known.warps) << known.arch;
  }
}

// What the catalog says, and what its architecture gives, are the same numbers.
TEST(Chip, MachinesOfTheCatalogAgreeWithTheirArchitecture) {
  int gpus = 0;
  for (const MachineSpec& machine : machine_catalog()) {
    const Result<Chip> chip = chip_of(machine);
    if (!machine.arch.starts_with("sm_")) {
      EXPECT_FALSE(chip.ok()) << machine.name;
      continue;
    }
    ++gpus;
    ASSERT_TRUE(chip.ok()) << machine.name << ": " << chip.error().message;
    const Result<Chip> bare = chip_of(chip->arch.name());
    ASSERT_TRUE(bare.ok());
    EXPECT_EQ(chip->limits.shared_per_block, bare->limits.shared_per_block) << machine.name;
    EXPECT_EQ(chip->limits.shared_per_sm, bare->limits.shared_per_sm) << machine.name;
    EXPECT_EQ(chip->limits.registers_per_sm, 65536) << machine.name;
  }
  EXPECT_GE(gpus, 10);
}

TEST(Chip, AMachinesOwnNumbersCount) {
  Result<MachineSpec> machine = load_machine("rtx-pro-6000-server");
  ASSERT_TRUE(machine.ok());
  machine->shared_per_block_bytes->value = 101375;
  const Result<Chip> chip = chip_of(*machine);
  ASSERT_TRUE(chip.ok());
  EXPECT_EQ(chip->arch.name(), "sm_120a");
  EXPECT_EQ(chip->machine, "rtx-pro-6000-server");
  EXPECT_EQ(chip->limits.shared_per_block, 101375);
}

TEST(Chip, AnotherFormOfTheMachinesArchitecture) {
  const Result<MachineSpec> gb10 = load_machine("gb10");
  ASSERT_TRUE(gb10.ok());
  const Result<Chip> family = chip_of(*gb10, "sm_120f");  // runs on every 12.x
  ASSERT_TRUE(family.ok()) << family.error().message;
  EXPECT_EQ(family->arch.name(), "sm_120f");
  const Result<Chip> other = chip_of(*gb10, "sm_120a");  // on 12.0 alone, and GB10 is 12.1
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kUsage);
}

TEST(Chip, WhatIsNone) {
  const auto message = [](std::string_view arch) {
    const Result<Chip> chip = chip_of(arch);
    EXPECT_FALSE(chip.ok()) << arch;
    return chip.ok() ? "" : chip.error().message;
  };
  EXPECT_EQ(message("blackwell"),
            "--arch is \"blackwell\"; give an architecture, as sm_80, sm_90a or sm_120a");
  EXPECT_EQ(message("compute_90a"),
            "--arch is compute_90a: registers of PTX are known only where a driver compiles it; "
            "give sm_90a");
  EXPECT_EQ(message("sm_75"),
            "nothing is known of sm_75; tactics are for sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, "
            "sm_103, sm_110, sm_120, sm_121");
}

TEST(Chip, ContradictionsNameBoth) {
  const Result<MachineSpec> machine = load_machine("rtx-pro-6000-server");
  ASSERT_TRUE(machine.ok());
  const Result<Chip> chip = chip_of(*machine, "sm_90a");
  ASSERT_FALSE(chip.ok());
  EXPECT_EQ(chip.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(chip.error().message,
            "--arch sm_90a and --machine rtx-pro-6000-server contradict each other: that machine "
            "is sm_120, which does not run code for sm_90a; leave one out");
}

TEST(Chip, OtherMakersMachines) {
  const Result<MachineSpec> machine = load_machine("mi300x");
  ASSERT_TRUE(machine.ok());
  const Result<Chip> chip = chip_of(*machine);
  ASSERT_FALSE(chip.ok());
  EXPECT_EQ(chip.error().message,
            "--machine mi300x is gfx942; tactics are compiled for GPUs of NVIDIA: name one, as "
            "--machine rtx-pro-6000-server, or its architecture, as --arch sm_120a; neither has to "
            "be in this computer");
}

}  // namespace
}  // namespace nibble
