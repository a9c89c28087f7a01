// The ledger's numbers in the form that evidence has them.
//
//   level.floor = floor_parts(step);            // ms
//   read_machine_setting(deployment.machine, evidence.setting);
#pragma once

#include "diagnose/evidence.h"
#include "ledger/step.h"
#include "machine/spec.h"

namespace nibble::diagnose {

FloorParts floor_parts(const Step& step);

// Power, clock: what telemetry has not told already.
void read_machine_setting(const MachineSpec& machine, Setting& setting);

}  // namespace nibble::diagnose
