// Gunther's universal scalability law fitted to a sweep: X(N) = lambda N / (1 + sigma (N - 1) +
// kappa N (N - 1)). lambda is the throughput of one request, sigma what is serial, kappa what grows
// with every pair; its peak is a knee that depends on no threshold.
//
//   const UslFit fit = fit_usl(levels);
//   if (fit.valid()) fit.peak->value       // sqrt((1 - sigma) / kappa)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "load/knee.h"

namespace nibble::load {

struct Fitted {
  double value = 0;
  std::optional<Interval> interval;  // 95 %, from fits of redrawn levels
};

struct UslFit {
  std::string reason;  // why there is no fit; empty: there is one
  bool valid() const { return reason.empty(); }
  Fitted lambda;                  // tokens/s of one request
  Fitted sigma;                   // 0: nothing is serial
  Fitted kappa;                   // 0: throughput never falls
  std::optional<Fitted> peak;     // concurrency of most throughput; nullopt: kappa is 0
  std::optional<double> ceiling;  // lambda / sigma, where kappa is 0 and sigma is not
  double residual = 0;            // root mean square, relative
  bool beyond_sweep = false;      // the peak lies above the highest level: extrapolated
  double predict(double concurrency) const;
};

// At least four different concurrencies. Least squares in the logarithm of throughput, weighted by
// the levels' intervals: a start from N / X, which is linear in the coefficients, then
// Gauss-Newton, sigma and kappa never below zero.
UslFit fit_usl(const std::vector<KneeLevel>& levels);

Json to_json(const UslFit& fit);

}  // namespace nibble::load
