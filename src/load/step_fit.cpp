#include "load/step_fit.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"
#include "load/least_squares.h"

namespace nibble::load {
namespace {

constexpr std::array<std::string_view, kStepTerms> kNames = {"t0", "a", "b", "c"};
// A column of which less than this is its own: its coefficient would be thirty times as uncertain
// as the times themselves, which are known to a percent or so.
constexpr double kOwn = 0.03;

std::array<double, kStepTerms> regressors(const StepPoint& point) {
  return {1, point.distinct_share.value_or(0), point.running * point.context, point.running};
}

std::string why_not(StepTerm term, bool any_experts) {
  switch (term) {
    case StepTerm::kExperts:
      return any_experts
                 ? "about as many experts are touched at every level: a cannot be told from "
                   "t0; add smaller levels"
                 : "the number of experts that a step touches is not known";
    case StepTerm::kCache:
      return "the cache read does not change apart from the other terms";
    case StepTerm::kSequence:
      return "the context is about the same at every level: c cannot be told from b, which holds "
             "b + c / context";
    case StepTerm::kBase:
      break;
  }
  return "no level has a time";
}

// The terms that the levels can tell apart, in the order of what matters most.
std::vector<StepTerm> identifiable(const std::vector<StepPoint>& points,
                                   std::array<FittedTerm, kStepTerms>& terms) {
  const bool experts = std::all_of(points.begin(), points.end(),
                                   [](const StepPoint& p) { return p.distinct_share.has_value(); });
  std::vector<StepTerm> kept;
  for (std::size_t index = 0; index < kStepTerms; ++index) {
    const auto term = static_cast<StepTerm>(index);
    Rows rows;
    for (const StepPoint& point : points) {
      std::vector<double> row;
      for (const StepTerm one : kept) {
        row.push_back(regressors(point)[static_cast<std::size_t>(one)] / point.tpot_ms);
      }
      row.push_back(regressors(point)[index] / point.tpot_ms);
      rows.push_back(std::move(row));
    }
    const bool known = term != StepTerm::kExperts || experts;
    if (known && independence(rows).back() >= kOwn && kept.size() + 1 < points.size()) {
      kept.push_back(term);
    } else {
      terms[index].reason = kept.size() + 1 >= points.size()
                                ? "too few levels for another coefficient"
                                : why_not(term, experts);
    }
  }
  return kept;
}

void fill_terms(StepFit& fit, const std::vector<StepTerm>& kept, const LeastSquares& solved,
                std::size_t points) {
  const double freedom = static_cast<double>(points) - static_cast<double>(kept.size());
  const double variance = solved.squares / freedom;
  const double t = student_t_quantile(0.975, freedom);
  for (std::size_t column = 0; column < kept.size(); ++column) {
    FittedTerm& term = fit.terms[static_cast<std::size_t>(kept[column])];
    term.value = solved.coefficients[column];
    if (!solved.active[column]) {
      term.reason = "held at zero: the times would make it negative";
    } else if (const auto own = solved.variances[column]) {
      const double half = t * std::sqrt(variance * *own);
      term.interval = Interval{std::max(0.0, *term.value - half), *term.value + half};
    } else {
      term.reason = "cannot be told from the other terms";
    }
    if (term.roof && *term.roof > 0) term.over_roof = *term.value / *term.roof;
  }
}

double milliseconds_of(double bytes, double bytes_per_s) {
  return bytes / bytes_per_s * 1e3;
}

}  // namespace

std::string_view to_string(StepTerm term) {
  return kNames[static_cast<std::size_t>(term)];
}

double StepFit::predict(const StepPoint& point) const {
  double sum = 0;
  for (std::size_t index = 0; index < kStepTerms; ++index) {
    sum += terms[index].value.value_or(0) * regressors(point)[index];
  }
  return sum;
}

StepFit fit_step(const std::vector<StepPoint>& given, const StepRoofs& roofs) {
  StepFit fit;
  for (std::size_t index = 0; index < kStepTerms; ++index) {
    fit.terms[index].term = static_cast<StepTerm>(index);
    fit.terms[index].roof = roofs[index];
  }
  std::vector<StepPoint> points;
  for (const StepPoint& point : given) {
    const bool usable = std::isfinite(point.tpot_ms) && point.tpot_ms > 0 &&
                        std::isfinite(point.running) && point.running > 0 &&
                        std::isfinite(point.context) && point.context >= 0 &&
                        std::isfinite(point.distinct_share.value_or(0));
    if (usable) points.push_back(point);
  }
  constexpr std::size_t kLeast = 3;
  if (points.size() < kLeast) {
    fit.reason =
        fmt::format("{} levels with a TPOT; the fit takes at least {}", points.size(), kLeast);
    return fit;
  }
  const std::vector<StepTerm> kept = identifiable(points, fit.terms);
  Rows rows;
  std::vector<double> values(points.size(), 1);  // each equation divided by its TPOT
  for (const StepPoint& point : points) {
    std::vector<double> row;
    for (const StepTerm term : kept) {
      row.push_back(regressors(point)[static_cast<std::size_t>(term)] / point.tpot_ms);
    }
    rows.push_back(std::move(row));
  }
  const LeastSquares solved =
      solve_least_squares(rows, values, std::vector<bool>(kept.size(), true));
  fit.residual = std::sqrt(solved.squares / static_cast<double>(points.size()));
  fill_terms(fit, kept, solved, points.size());
  return fit;
}

Result<StepModel> step_model(const Ledger& ledger, const std::vector<double>& concurrencies) {
  StepModel model;
  const Deployment& deployment = ledger.deployment();
  const auto& moe = deployment.model.moe;
  for (const double concurrency : concurrencies) {
    if (!moe) {
      model.distinct_shares.emplace_back();
      continue;
    }
    NIBBLE_ASSIGN_OR_RETURN(const Step step, ledger.decode(concurrency));
    model.distinct_shares.emplace_back(
        step.routing ? std::optional(step.routing->distinct / static_cast<double>(moe->experts))
                     : std::nullopt);
  }
  if (deployment.layout.pp > 1) {
    model.note = "no roofs for a pipeline: its stages overlap";
    return model;
  }
  // One sequence in each attention group.
  const auto groups = static_cast<double>(deployment.layout.attention_dp());
  NIBBLE_ASSIGN_OR_RETURN(const Step one, ledger.decode(groups));
  // What the ledger's own step takes for the weights and the cache: bytes over time gives its roof.
  const double bandwidth = (one.weight_bytes + one.kv_bytes) / (one.weights_and_kv_us * 1e-6);
  double touched = 0;  // expert bytes of this step
  double all = 0;      // of every expert on the GPU
  for (const Op& op : one.ops) {
    if (op.name != "moe.gate_up" && op.name != "moe.down") continue;
    const double bytes = op.count * op.bytes.weight_bytes;
    const double local =
        static_cast<double>(moe->experts) / static_cast<double>(deployment.layout.moe_ep());
    touched += bytes;
    if (op.shape.groups > 0) all += bytes / op.shape.groups * local;
  }
  const double dense_ms = milliseconds_of(one.weight_bytes - touched, bandwidth);
  model.roofs[0] = dense_ms + one.launch_us * 1e-3 + one.link_us * 1e-3;
  if (all > 0) model.roofs[1] = milliseconds_of(all, bandwidth);
  // Per sequence of the deployment: the busiest GPU reads its share of them.
  model.roofs[2] = milliseconds_of(one.kv_bytes / groups / deployment.context, bandwidth);
  model.note = "t0: dense weights, launches and links of the smallest batch; c has no roof";
  return model;
}

Json to_json(const StepFit& fit) {
  Json json = Json::object();
  json.set("formula", "TPOT = t0 + a E[D(B)]/E + b B S + c B (ms)");
  json.set("reason", fit.valid() ? Json() : Json(fit.reason));
  Json terms = Json::object();
  for (const FittedTerm& term : fit.terms) {
    const auto& i = term.interval;
    terms.set(to_string(term.term),
              Json::object()
                  .set("value_ms", term.value)
                  .set("interval_ms", i ? Json::array({i->low, i->high}) : Json())
                  .set("roof_ms", term.roof)
                  .set("over_roof", term.over_roof)
                  .set("reason", term.reason.empty() ? Json() : Json(term.reason)));
  }
  json.set("terms", std::move(terms));
  json.set("relative_residual", fit.valid() ? Json(fit.residual) : Json());
  return json;
}

}  // namespace nibble::load
