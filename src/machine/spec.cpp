#include "machine/spec.h"

#include <fmt/core.h>

namespace nibble {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::kDatasheet:
      return "datasheet";
    case Provenance::kReported:
      return "reported";
    case Provenance::kMeasured:
      return "measured";
    case Provenance::kDerived:
      return "derived";
    case Provenance::kAssumed:
      return "assumed";
    case Provenance::kGiven:
      return "given";
  }
  NIBBLE_CHECK(false);
}

std::optional<Provenance> provenance_from_string(std::string_view name) {
  for (const Provenance provenance :
       {Provenance::kDatasheet, Provenance::kReported, Provenance::kMeasured, Provenance::kDerived,
        Provenance::kAssumed, Provenance::kGiven}) {
    if (to_string(provenance) == name) return provenance;
  }
  return std::nullopt;
}

const Peak* MachineSpec::peak(Precision precision) const {
  const auto found = peaks.find(precision);
  return found == peaks.end() ? nullptr : &found->second;
}

namespace {

// 4-bit weights beside 4-bit or 8-bit integer activations on a CPU with a measured int8 rate.
bool is_integer_pair_of_cpu(const MachineSpec& machine, Format weights, Format activations) {
  const auto is_4_bit = [](Format format) {
    return format == Format::kNvfp4 || format == Format::kMxfp4;
  };
  return machine.is_cpu && machine.peak(Precision::kInt8) != nullptr && is_4_bit(weights) &&
         (is_4_bit(activations) || activations == Format::kInt8);
}

}  // namespace

bool multiplies_as_is(const MachineSpec& machine, Format weights, Format activations) {
  return is_integer_pair_of_cpu(machine, weights, activations) ||
         machine.peak(native_precision(weights, activations)) != nullptr;
}

Precision compute_precision(const MachineSpec& machine, Format weights, Format activations) {
  const Precision native = native_precision(weights, activations);
  if (is_integer_pair_of_cpu(machine, weights, activations)) return Precision::kInt8;
  if (machine.peak(native) != nullptr) return native;
  // Narrower formats widen to bf16 exactly (e2m1 x e4m3 has at most 6 significant bits); a machine
  // without a bf16 unit, a CPU, computes in fp32. fp32 operands on a machine that states no fp32
  // rate are held against its bf16 one: the only roof there is.
  return machine.peak(Precision::kBf16) != nullptr ? Precision::kBf16 : Precision::kFp32;
}

std::string widening_note(const MachineSpec& machine, Format weights, Format activations) {
  if (is_integer_pair_of_cpu(machine, weights, activations)) return "";
  const Precision native = native_precision(weights, activations);
  const Precision used = compute_precision(machine, weights, activations);
  const auto is_16_bit = [](Format format) {
    return format == Format::kBf16 || format == Format::kFp16;
  };
  // The pairs of different kinds, which no machine multiplies as they are (NVFP4 x int8).
  const bool odd_pair =
      (native == Precision::kBf16 && !(is_16_bit(weights) && is_16_bit(activations))) ||
      (native == Precision::kFp32 && weights != activations);
  if (odd_pair) {
    return fmt::format("no {} x {} unit: multiplied in {}", to_string(weights),
                       to_string(activations), to_string(used));
  }
  if (used == native) return "";
  return fmt::format("no {} unit: multiplied in {}", to_string(native), to_string(used));
}

}  // namespace nibble
