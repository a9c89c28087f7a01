#include "machine/spec.h"

namespace nibble {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::kDatasheet:
      return "datasheet";
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
       {Provenance::kDatasheet, Provenance::kMeasured, Provenance::kDerived, Provenance::kAssumed,
        Provenance::kGiven}) {
    if (to_string(provenance) == name) return provenance;
  }
  return std::nullopt;
}

const Peak* MachineSpec::peak(Precision precision) const {
  const auto found = peaks.find(precision);
  return found == peaks.end() ? nullptr : &found->second;
}

Precision compute_precision(const MachineSpec& machine, Format weights, Format activations) {
  const Precision native = native_precision(weights, activations);
  if (machine.peak(native) != nullptr) return native;
  // Narrower formats widen to bf16 exactly (e2m1 x e4m3 has at most 6 significant bits); a machine
  // without a bf16 unit, a CPU, computes in fp32. fp32 operands on a machine that states no fp32
  // rate are held against its bf16 one: the only roof there is.
  return machine.peak(Precision::kBf16) != nullptr ? Precision::kBf16 : Precision::kFp32;
}

}  // namespace nibble
