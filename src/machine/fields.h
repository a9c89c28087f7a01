// The numbers of a MachineSpec by the names they have in JSON and in --set, and what each may be:
// one table for reading, writing and overriding, so that these cannot disagree.
//
//   for (const MachineField& field : kMachineFields) {
//     if (const std::optional<Sourced>& number = machine.*field.member) use(field.key, *number);
//   }
//   number_fault(1.5, rules::kSms);   // "is 1.5; it must be a whole number"
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/json.h"
#include "machine/spec.h"

namespace nibble {

// What a number may be, both ends included. No machine is outside these ranges; they keep every
// quotient of two numbers finite and catch a wrong unit.
struct NumberRule {
  double min = 0;
  double max = 0;
  const char* unit = "";  // " GB/s", for messages
  bool whole = false;     // a count or a number of bytes
};

namespace rules {
inline constexpr NumberRule kBandwidth{1e-3, 1e6, " GB/s"};
inline constexpr NumberRule kMemory{0.1, 1e6, " GB"};
inline constexpr NumberRule kPeak{1e-6, 1e6, " TFLOPS"};
inline constexpr NumberRule kCache{1e-3, 1e6, " MB"};
inline constexpr NumberRule kSharedBytes{1, 1e9, " bytes", true};
inline constexpr NumberRule kRegisters{1, 1e9, "", true};
inline constexpr NumberRule kSms{1, 1e5, "", true};
inline constexpr NumberRule kClock{1, 1e5, " MHz"};
inline constexpr NumberRule kMicroseconds{0, 1e6, " us"};
inline constexpr NumberRule kWatts{1, 1e5, " W"};
}  // namespace rules

struct MachineField {
  const char* key;
  std::optional<Sourced> MachineSpec::*member;
  NumberRule rule;
};

inline constexpr std::array kMachineFields = {
    MachineField{"l2_mb", &MachineSpec::l2_mb, rules::kCache},
    MachineField{"shared_per_sm_bytes", &MachineSpec::shared_per_sm_bytes, rules::kSharedBytes},
    MachineField{"shared_per_block_bytes", &MachineSpec::shared_per_block_bytes,
                 rules::kSharedBytes},
    MachineField{"registers_per_sm", &MachineSpec::registers_per_sm, rules::kRegisters},
    MachineField{"sms", &MachineSpec::sms, rules::kSms},
    MachineField{"clock_mhz", &MachineSpec::clock_mhz, rules::kClock},
    MachineField{"launch_gap_us", &MachineSpec::launch_gap_us, rules::kMicroseconds},
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

// The clause that follows a number's name when the number breaks its rule; "" when it does not.
std::string number_fault(double value, const NumberRule& rule);

// The same for numbers that contradict each other: shared memory of a block and of its SM, the
// sparse and the dense rate of one peak.
std::string shared_memory_fault(const MachineSpec& machine);  // of shared_per_block_bytes
std::string sparse_fault(const Peak& peak);                   // of sparse_tflops

}  // namespace nibble
