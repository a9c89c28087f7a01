// Experiments that nibble runs itself: one level more with one thing changed, and what that says of
// a verdict.
//
//   if (auto experiment = run_experiment(verdict, diagnosis, live))
//   diagnosis.experiments.push_back(...)
#pragma once

#include <optional>

#include "base/result.h"
#include "cli/diagnose_live.h"
#include "diagnose/diagnosis.h"

namespace nibble::cli {

// What would settle the verdict, done. The outcome says so where it cannot be run here.
diagnose::Experiment run_experiment(const diagnose::Verdict& verdict,
                                    const diagnose::Diagnosis& diagnosis, LiveRun& live);

}  // namespace nibble::cli
