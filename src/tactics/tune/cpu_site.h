// This processor as a tuning file names it.
//
//   const TuningTable table = TuningTable::load("cpu.json", cpu_tuning_site());
#pragma once

#include "tactics/tune/key.h"

namespace nibble::tune {

// What choices of this processor hold for.
TuningSite cpu_tuning_site();

}  // namespace nibble::tune
