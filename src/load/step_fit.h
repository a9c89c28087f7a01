// The physical fit of a sweep: TPOT(B) = t0 + a E[D(B)]/E + b B S + c B, with what the ledger says
// of each term beside it.
//
//   NIBBLE_ASSIGN_OR_RETURN(const StepModel model, step_model(ledger, {8, 32, 128}));
//   const StepFit fit = fit_step(points, model.roofs);
//   fit.terms[1].over_roof      // a / a_roof: how far the experts are from streaming at full speed
//
// t0: launches, host, collectives, dense weights: what a step takes whatever the batch. a: reading
// all routed experts; D(B) is the number of experts that B tokens touch. b: reading the KV cache,
// per sequence and token of context. c: compute, sampling and host work per sequence.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/stats.h"
#include "ledger/step.h"

namespace nibble::load {

struct StepPoint {
  double running = 0;  // B: mean number of sequences that decode together
  double tpot_ms = 0;  // mean
  double context = 0;  // S: mean tokens in the cache of a sequence: prompt + half of the output
  std::optional<double> distinct_share;  // E[D(B)] / E; nullopt: no experts, or no model given
};

enum class StepTerm { kBase, kExperts, kCache, kSequence };
inline constexpr std::size_t kStepTerms = 4;
// "t0", "a", "b", "c".
std::string_view to_string(StepTerm term);

// ms; nullopt: not known.
using StepRoofs = std::array<std::optional<double>, kStepTerms>;

struct StepModel {
  std::vector<std::optional<double>> distinct_shares;  // one a concurrency asked for
  StepRoofs roofs;
  std::string note;  // what the roofs leave out
};
// The ledger's regressors and roofs. Pipelines have no roofs here: their steps overlap.
Result<StepModel> step_model(const Ledger& ledger, const std::vector<double>& concurrencies);

struct FittedTerm {
  StepTerm term = StepTerm::kBase;
  std::optional<double> value;       // nullopt: not identifiable, see reason
  std::optional<Interval> interval;  // 95 %
  std::string reason;                // why there is no value or no interval
  std::optional<double> roof;        // by the ledger
  std::optional<double> over_roof;   // value / roof: above 1 is loss
};

struct StepFit {
  std::string reason;  // why there is no fit; empty: there is one
  bool valid() const { return reason.empty(); }
  std::array<FittedTerm, kStepTerms> terms;
  double residual = 0;                           // root mean square, relative to TPOT
  double predict(const StepPoint& point) const;  // ms
};

// Nonnegative least squares on relative errors. A term that the levels cannot tell from the others
// (context the same at all levels, experts all touched at all of them) is left out with the reason,
// and its share is in the terms that remain.
StepFit fit_step(const std::vector<StepPoint>& points, const StepRoofs& roofs);

Json to_json(const StepFit& fit);

}  // namespace nibble::load
