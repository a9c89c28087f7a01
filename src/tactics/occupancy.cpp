#include "tactics/occupancy.h"

#include <algorithm>

#include "base/check.h"

namespace nibble {
namespace {

constexpr int kLanes = 32;
constexpr int kPartsOfSm = 4;
constexpr std::int64_t kRegisterUnit = 256;

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::int64_t warps_of(int threads) {
  return rounded_up(threads, kLanes) / kLanes;
}

int blocks_by_shared(const BlockLimits& limits, std::int64_t bytes) {
  if (bytes > limits.shared_per_block) return 0;
  return static_cast<int>(limits.shared_per_sm / shared_of_block(bytes));
}

int blocks_by_registers(const BlockLimits& limits, int registers, std::int64_t warps) {
  const std::int64_t each = std::max<std::int64_t>(registers_of_warp(registers), kRegisterUnit);
  if (registers > kMostRegistersOfThread ||
      each * rounded_up(warps, kPartsOfSm) > limits.registers_per_sm) {
    return 0;
  }
  return static_cast<int>(limits.registers_per_sm / kPartsOfSm / each * kPartsOfSm / warps);
}

}  // namespace

std::string_view to_string(SmBound bound) {
  switch (bound) {
    case SmBound::kShared:
      return "shared";
    case SmBound::kRegisters:
      return "registers";
    case SmBound::kThreads:
      return "threads";
    case SmBound::kBlocks:
      return "blocks";
  }
  return "?";
}

int BlocksPerSm::blocks() const {
  return std::min({shared, registers.value_or(slots), threads, slots});
}

SmBound BlocksPerSm::bound() const {
  const int least = blocks();
  if (shared == least) return SmBound::kShared;
  if (registers == least) return SmBound::kRegisters;
  return threads == least ? SmBound::kThreads : SmBound::kBlocks;
}

std::int64_t registers_of_warp(int registers) {
  return rounded_up(std::int64_t{registers} * kLanes, kRegisterUnit);
}

BlocksPerSm blocks_per_sm(const Chip& chip, const BlockNeed& need) {
  NIBBLE_CHECK(need.threads > 0);
  const std::int64_t warps = warps_of(need.threads);
  BlocksPerSm held{.shared = blocks_by_shared(chip.limits, need.shared_bytes),
                   .registers = {},
                   .threads = static_cast<int>(chip.warps_per_sm / warps),
                   .slots = chip.blocks_per_sm};
  if (need.registers) held.registers = blocks_by_registers(chip.limits, *need.registers, warps);
  return held;
}

}  // namespace nibble
