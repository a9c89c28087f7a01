#include <algorithm>
#include <cmath>
#include <utility>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsInSecond = 1000;

}  // namespace

std::optional<double> quotient(std::optional<double> top, std::optional<double> bottom) {
  if (!top || !bottom || *bottom <= 0) return std::nullopt;
  const double value = *top / *bottom;
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::string number_text(double value) {
  return fact_text(Fact::kUsers, value);
}

Heard holds(std::string sentence) {
  return {Says::kHolds, std::move(sentence)};
}
Heard against(std::string sentence) {
  return {Says::kAgainst, std::move(sentence)};
}
Heard nothing() {
  return {Says::kNothing, {}};
}
Heard unknown(std::string reason) {
  return {Says::kUnknown, std::move(reason)};
}

std::optional<double> LevelView::get(Fact fact) const {
  const std::optional<double> value = level().get(fact);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  if (*value < 0 && fact != Fact::kRateDrift) return std::nullopt;
  return value;
}

std::string LevelView::text(Fact fact) const {
  const std::optional<double> value = get(fact);
  return value ? fact_text(fact, *value) : "an unknown number";
}

std::optional<LevelView> LevelView::below() const {
  const std::optional<double> here = in_flight();
  for (std::size_t index = level_; here && index-- > 0;) {
    const LevelView other(*evidence_, index);
    const std::optional<double> more = quotient(here, other.in_flight());
    if (other.level().counts && more && *more >= kMoreUsers) return other;
  }
  return std::nullopt;
}

std::optional<LevelView> LevelView::lowest() const {
  std::optional<LevelView> found = below();
  for (std::optional<LevelView> next = found; next; next = next->below()) found = next;
  return found;
}

std::optional<double> LevelView::in_flight() const {
  const std::optional<double> counted = get(Fact::kInFlight);
  return counted ? counted : get(Fact::kUsers);
}

std::optional<double> LevelView::outside() const {
  const auto all = in_flight(), running = get(Fact::kRunning), waiting = get(Fact::kWaiting);
  if (!all || !running || !waiting) return std::nullopt;
  return std::max(0.0, *all - *running - *waiting);
}

// A lone user's requests neither queue nor share a batch, so what it sees is the step; of more
// users the client sees it between tokens only.
std::optional<double> LevelView::step() const {
  const std::optional<double> rate = get(Fact::kOutputRate);
  std::optional<double> running = get(Fact::kRunning);
  // Nobody counted them, but more than the configured cap cannot run, and what is below it may.
  if (const auto cap = setting().max_running; cap && !running && in_flight()) {
    running = std::min(*cap, *in_flight());
  }
  if (const auto seconds = quotient(running, rate); seconds && *seconds > 0) {
    return *seconds * kMsInSecond;
  }
  if (const auto tpot = get(Fact::kTpot); tpot && *tpot > 0) return tpot;
  if (const auto gap = get(Fact::kItlP50); gap && *gap > 0) return gap;
  const std::optional<double> users = in_flight();
  if (!users || *users > 1) return std::nullopt;
  const auto seconds = quotient(users, rate);
  return seconds ? std::optional<double>(*seconds * kMsInSecond) : std::nullopt;
}

bool trace_is_of(const LevelView& view) {
  const std::optional<TraceEvidence>& trace = view.evidence().trace;
  const auto times = trace ? quotient(view.step(), trace->step_ms) : std::nullopt;
  return times && *times<kTraceAlike&& * times * kTraceAlike> 1;
}

std::optional<double> LevelView::served_step() const {
  if (const auto own = get(Fact::kServerStep); own && *own > 0) return own;
  const std::optional<double> wall = step();
  const std::optional<double> occupancy = get(Fact::kOccupancy);
  return wall && occupancy ? std::optional<double>(*wall * *occupancy) : wall;
}

std::optional<double> LevelView::floor() const {
  if (const auto floor = get(Fact::kFloor); floor && *floor > 0) return floor;
  if (!level().floor) return std::nullopt;
  const double total = level().floor->total();
  return std::isfinite(total) && total > 0 ? std::optional<double>(total) : std::nullopt;
}

std::optional<double> LevelView::whole_floor() const {
  const std::optional<double> decodes = floor();
  const double prompts = level().prefill_floor.value_or(0);
  return decodes && prompts > 0 && std::isfinite(prompts) ? *decodes + prompts : decodes;
}

std::optional<double> LevelView::kernels() const {
  const std::optional<double> decodes = get(Fact::kKernels);
  if (!decodes) return std::nullopt;
  const auto share = prompt_share(), wall = step();
  return share && wall ? *decodes + std::min(1.0, *share) * *wall : decodes;
}

std::optional<double> LevelView::gpu_busy() const {
  if (setting().is_cpu) return std::nullopt;
  const std::optional<double> active = get(Fact::kSmActive);
  return active ? active : get(Fact::kUtilization);
}

std::optional<double> LevelView::busy() const {
  const std::optional<double> occupancy = get(Fact::kOccupancy);
  return occupancy ? occupancy : gpu_busy();
}

// An engine without requests has nothing to do: with 0.9 of a request running on average it can be
// in steps 0.9 of the time at most.
std::optional<double> LevelView::gap_share() const {
  const std::optional<double> share = busy();
  if (!share) return std::nullopt;
  const double could = std::min(1.0, get(Fact::kRunning).value_or(1.0));
  if (could <= 0) return std::nullopt;
  return std::clamp(1 - *share / could, 0.0, 1.0);
}

std::optional<double> LevelView::gap() const {
  const std::optional<double> share = gap_share();
  if (!share) return std::nullopt;
  if (const auto own = get(Fact::kServerStep); own && *share < 1)
    return *own * *share / (1 - *share);
  const std::optional<double> wall = step();
  return wall ? std::optional<double>(*wall * *share) : std::nullopt;
}

std::optional<double> LevelView::prompt_rate() const {
  if (const auto counted = get(Fact::kPromptRate)) return counted;
  std::optional<double> requests = get(Fact::kRequestRate);
  if (!requests) requests = quotient(get(Fact::kOutputRate), get(Fact::kOutputTokens));
  const std::optional<double> tokens = get(Fact::kPromptTokens);
  if (!requests || !tokens) return std::nullopt;
  const double cached = std::min(1.0, get(Fact::kCachedShare).value_or(0.0));
  return *requests * *tokens * (1 - cached);
}

std::optional<double> LevelView::prompt_share() const {
  const std::optional<double> rate = prompt_rate(), price = get(Fact::kPrefillPerToken);
  if (!rate || !price) return std::nullopt;
  const double share = *rate * *price / kMsInSecond;
  return std::isfinite(share) ? std::optional<double>(share) : std::nullopt;
}

// A client that reads late finds tokens in bunches: their median gap is near 0, the mean is not.
std::optional<double> LevelView::token_gap() const {
  const auto mean = get(Fact::kTpot), median = get(Fact::kItlP50);
  return mean && median ? std::max(mean, median) : mean ? mean : median;
}

std::optional<double> LevelView::gain() const {
  const std::optional<LevelView> other = below();
  return other ? quotient(get(Fact::kOutputRate), other->get(Fact::kOutputRate)) : std::nullopt;
}

std::optional<double> LevelView::predicted_gain() const {
  const std::optional<LevelView> other = below();
  if (!other) return std::nullopt;
  const auto rate = [](const LevelView& view, std::optional<double> step_ms) {
    const std::optional<double> running = view.get(Fact::kRunning);
    return quotient(running ? running : view.in_flight(), step_ms);
  };
  const auto kernels =
      quotient(rate(*this, get(Fact::kKernels)), rate(*other, other->get(Fact::kKernels)));
  return kernels ? kernels : quotient(rate(*this, floor()), rate(*other, other->floor()));
}

std::optional<double> LevelView::more_users() const {
  const std::optional<LevelView> other = below();
  return other ? quotient(in_flight(), other->in_flight()) : std::nullopt;
}

}  // namespace nibble::diagnose
