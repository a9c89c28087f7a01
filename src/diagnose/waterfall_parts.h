// Parts of build_waterfall() that stand by themselves. Not for other rooms.
//
//   const InSystem counts = in_system(evidence.setting, level, in_flight);
//   put_energy(evidence.setting, level, counts.running, diagnosis);
#pragma once

#include <optional>
#include <string>

#include "diagnose/diagnosis.h"

namespace nibble::diagnose {

// The counts that share out a level's time, requests.
struct InSystem {
  double in_flight = 0;
  double running = 0;
  bool running_known = false;
  std::optional<double> waiting;
  std::string note;
};

// What was counted; where the engine does not tell, no more run than its cap lets through.
InSystem in_system(const Setting& setting, const LevelEvidence& level, double in_flight);

// Joules a token: measured, and the least that the floor takes at the power of a copying GPU.
void put_energy(const Setting& setting, const LevelEvidence& level, double running,
                LevelDiagnosis& diagnosis);

}  // namespace nibble::diagnose
