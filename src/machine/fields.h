// The optional numbers of a MachineSpec by the names they have in JSON and in --set: one table for
// reading, writing and overriding, so that these cannot disagree.
//
//   for (const MachineField& field : kMachineFields) {
//     if (const std::optional<Sourced>& number = machine.*field.member) use(field.key, *number);
//   }
#pragma once

#include <array>
#include <optional>

#include "base/json.h"
#include "machine/spec.h"

namespace nibble {

struct MachineField {
  const char* key;
  std::optional<Sourced> MachineSpec::*member;
  bool whole;  // a count or a number of bytes
};

inline constexpr std::array kMachineFields = {
    MachineField{"l2_mb", &MachineSpec::l2_mb, false},
    MachineField{"shared_per_sm_bytes", &MachineSpec::shared_per_sm_bytes, true},
    MachineField{"shared_per_block_bytes", &MachineSpec::shared_per_block_bytes, true},
    MachineField{"registers_per_sm", &MachineSpec::registers_per_sm, true},
    MachineField{"sms", &MachineSpec::sms, true},
    MachineField{"clock_mhz", &MachineSpec::clock_mhz, false},
    MachineField{"launch_gap_us", &MachineSpec::launch_gap_us, false},
};

struct PowerField {
  const char* key;
  std::optional<Sourced> PowerSpec::*member;
};

inline constexpr std::array kPowerFields = {
    PowerField{"limit_w", &PowerSpec::limit_w},
    PowerField{"copy_w", &PowerSpec::copy_w},
    PowerField{"idle_context_w", &PowerSpec::idle_context_w},
    PowerField{"waiting_w", &PowerSpec::waiting_w},
};

inline constexpr std::array kPrecisions = {Precision::kFp4, Precision::kFp8, Precision::kInt8,
                                           Precision::kBf16, Precision::kFp32};

// No machine is outside these; they keep every quotient of two numbers finite.
inline constexpr NumberRange kPositive{.min = 1e-6, .max = 1e15, .above = 0};
inline constexpr NumberRange kLatency{.min = 0, .max = 1e9};

}  // namespace nibble
