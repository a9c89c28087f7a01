// `nibble diagnose --on cuda:N`: roofs and kernels of a rank's step, measured on a GPU beside a
// recorded load, a case or a server, or alone.
//
//   NIBBLE_ASSIGN_OR_RETURN(GpuRun gpu, GpuRun::prepare(arguments, analysis, evidence));
//   NIBBLE_RETURN_IF_ERROR(gpu.measure(users, evidence));      // after the levels, if recorded
//   NIBBLE_RETURN_IF_ERROR(fill_from_gpu(arguments, analysis, evidence));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/route_draw.h"
#include "cli/command.h"
#include "diagnose/evidence.h"
#include "explain/explain.h"
#include "ledger/step.h"

namespace nibble::cli {

class GpuRun {
 public:
  // Faults of the command line first, then the GPU: one sentence without it. Nothing is measured.
  // `evidence`: what documents told already.
  static Result<GpuRun> prepare(const Arguments& arguments,
                                const std::optional<CaseAnalysis>& analysis,
                                const diagnose::Evidence& evidence);

  // At the steps of the evidence's levels, or of so many sequences where it has none yet.
  Result<> measure(const std::vector<double>& sequences, diagnose::Evidence& evidence);

  // As the GPU names itself: what --gpu would have said.
  const std::string& title() const { return title_; }

 private:
  GpuRun(int ordinal, Deployment deployment)
      : ordinal_(ordinal), deployment_(std::move(deployment)) {}

  int ordinal_;
  Deployment deployment_;
  RouteDraw routing_;
  std::string title_;
};

// Floors and covers from what the evidence knows of a GPU (evidence.gpu, measured or recorded) and
// the deployment that flags or the case describe; nothing where neither does. A case that ran on
// such a GPU is explained anew, with its roofs as measured.
Result<> fill_from_gpu(const Arguments& arguments, std::optional<CaseAnalysis>& analysis,
                       diagnose::Evidence& evidence);

}  // namespace nibble::cli
