// What was not seen beside the load, and why: GPUs, hosts, the server's page.
//
//   tell_signals(report, list);    // "no GPU signals: libnvidia-ml.so.1 is not there"
#pragma once

#include <string>
#include <vector>

#include "load/run_report.h"

namespace nibble::load {

// A sentence a reason, each with the levels that it holds for.
void tell_signals(const RunReport& report, std::vector<std::string>& list);

}  // namespace nibble::load
