// The ledger's numbers in the form that evidence has them.
//
//   level.floor = floor_parts(step);            // ms
//   read_machine_setting(deployment.machine, evidence.setting);
#pragma once

#include <optional>

#include "diagnose/evidence.h"
#include "ledger/step.h"
#include "machine/spec.h"

namespace nibble::diagnose {

FloorParts floor_parts(const Step& step);

// Sequences in a step of the level, and tokens in the cache of one: counted, or as many as there
// are and the cap lets through; at least one.
std::optional<double> sequences_of(const LevelEvidence& level, const Setting& setting);
std::optional<double> context_of(const LevelEvidence& level);

// Power, clock: what telemetry has not told already.
void read_machine_setting(const MachineSpec& machine, Setting& setting);

}  // namespace nibble::diagnose
