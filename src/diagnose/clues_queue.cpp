// Classes of requests that do not run: the scheduler's cap, the KV cache, the front end, the
// client.
#include <algorithm>
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

constexpr auto kAboutRunning = {Fact::kRunning, Fact::kInFlight, Fact::kUsers};
constexpr auto kAboutWaiting = {Fact::kWaiting, Fact::kInFlight, Fact::kUsers};
constexpr auto kAboutOutside = {Fact::kWaiting, Fact::kRunning, Fact::kInFlight};
constexpr auto kAboutGrowth = {Fact::kOutputRate, Fact::kInFlight, Fact::kUsers};

// Use of the KV cache with one more request of the mean size.
std::optional<double> kv_with_one_more(const LevelView& view) {
  const std::optional<double> use = view.get(Fact::kKvUsage);
  if (!use) return std::nullopt;
  const std::optional<double> running = view.get(Fact::kRunning);
  return running ? *use * (1 + 1 / std::max(1.0, *running)) : *use;
}

bool kv_is_full(const LevelView& view) {
  if (view.get(Fact::kPreemptions).value_or(0) >= kPreemptedMany) return true;
  return view.get(Fact::kKvUsage).value_or(0) > kKvFull ||
         kv_with_one_more(view).value_or(0) >= kKvOneMoreFull;
}

std::string kv_text(const LevelView& view) {
  const std::optional<double> preempted = view.get(Fact::kPreemptions);
  if (!view.get(Fact::kKvUsage) || preempted.value_or(0) >= kPreemptedMany) {
    return fmt::format("{} preemptions a request", number_text(preempted.value_or(0)));
  }
  return fmt::format("the KV cache is {} full, {} with one more request", view.text(Fact::kKvUsage),
                     fact_text(Fact::kKvUsage, *kv_with_one_more(view)));
}

Heard hear_running_at_cap(const LevelView& view) {
  const std::optional<double> running = view.get(Fact::kRunning);
  if (!running) return unknown();
  if (const auto share = quotient(running, view.setting().max_running)) {
    const std::string text =
        fmt::format("{} requests run and the configured cap is {}", number_text(*running),
                    number_text(*view.setting().max_running));
    if (*share >= kAtCap) return holds(text);
    return *share < kBelowCap ? against(text) : nothing();
  }
  // A machine that is busy with prompts lets requests wait as well, at no cap.
  if (const auto prompts = prompt_time(view); prompts && prompts->share >= kPromptTimeMuch) {
    return against(prompts->text);
  }
  const std::optional<LevelView> below = view.below();
  if (!below) return unknown("the configured cap is not known and no lower level was measured");
  const auto grew = quotient(running, below->get(Fact::kRunning));
  if (!grew) return unknown();
  if (*grew > kSameBatch) {
    // A cap lets a level below grow up to it; one that had a queue already was not at a cap.
    const auto waited = quotient(below->get(Fact::kWaiting), below->in_flight());
    if (*grew < kMoreUsers || !waited || *waited < kWaitMany) return nothing();
    return against(fmt::format("{} requests run, and {} at {}, where a queue had formed already",
                               number_text(*running), below->text(Fact::kRunning),
                               below->level().name));
  }
  return holds(fmt::format("{} requests run, as at {} ({})", number_text(*running),
                           below->level().name, below->text(Fact::kRunning)));
}

Heard hear_kv_has_room(const LevelView& view) {
  if (kv_is_full(view)) return against(kv_text(view));
  const std::optional<double> more = kv_with_one_more(view);
  if (!more) return unknown();
  return *more <= kKvRoom ? holds(kv_text(view)) : nothing();
}

Heard hear_kv_full(const LevelView& view) {
  if (kv_is_full(view)) return holds(kv_text(view));
  const std::optional<double> more = kv_with_one_more(view);
  if (!more) return unknown();
  return *more <= kKvRoom ? against(kv_text(view)) : nothing();
}

Heard hear_below_cap(const LevelView& view) {
  const std::optional<double> cap = view.setting().max_running;
  const auto share = quotient(view.get(Fact::kRunning), cap);
  if (!share) return unknown(cap ? "" : "the server's configured cap is not known");
  const std::string text = fmt::format("{} requests run of the {} that the scheduler may run",
                                       view.text(Fact::kRunning), number_text(*cap));
  if (*share < kBelowCap) return holds(text);
  return *share >= kCapReached ? against(text) : nothing();
}

Heard hear_preempted(const LevelView& view) {
  const std::optional<double> preempted = view.get(Fact::kPreemptions);
  if (!preempted) return unknown();
  if (*preempted < kPreemptedSome) return nothing();
  return holds(fmt::format("{} preemptions a request", number_text(*preempted)));
}

Heard hear_fewer_run_counted(const LevelView& view) {
  return view.get(Fact::kRunning) ? hear_fewer_run(view) : unknown();
}

Heard hear_client_late(const LevelView& view) {
  const Heard on_time = hear_client_on_time(view);
  if (on_time.says == Says::kAgainst) return holds(on_time.sentence);
  return on_time.says == Says::kHolds ? against(on_time.sentence) : on_time;
}

const ClueDef kFlatClue{.id = "throughput_flat",
                        .weight = 1,
                        .facts = kAboutGrowth,
                        .settles = "whether more load brings more throughput",
                        .hear = hear_throughput_flat};
const ClueDef kTtftClue{.id = "ttft_grew",
                        .weight = 1,
                        .facts = {Fact::kTtft},
                        .settles = "whether requests wait before they begin",
                        .hear = hear_ttft_grew};
const ClueDef kWaitClue{
    .id = "requests_wait",
    .weight = 2,
    .role = Role::kVeto,
    .facts = kAboutWaiting,
    .settles = "whether the requests that do not run wait in the server's queue",
    .hear = hear_requests_wait};
const ClueDef kEmptyQueueClue{.id = "queue_empty",
                              .weight = 2,
                              .role = Role::kVeto,
                              .facts = kAboutOutside,
                              .settles = "whether requests wait in the engine or in front of it",
                              .hear = hear_queue_empty};
const ClueDef kHasTimeClue{.id = "engine_has_time",
                           .weight = 1,
                           .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
                           .settles = "whether the engine could do more",
                           .hear = hear_engine_has_time};

}  // namespace

std::span<const ClueDef> scheduler_cap_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "running_below_users",
       .weight = 3,
       .role = Role::kNeeded,
       .facts = kAboutRunning,
       .settles = "whether all requests in flight run",
       .hear = hear_fewer_run},
      kWaitClue,
      {.id = "running_at_cap",
       .weight = 2,
       .role = Role::kVeto,
       .facts = {Fact::kRunning},
       .settles = "whether as many run as the scheduler allows",
       .hear = hear_running_at_cap},
      {.id = "kv_has_room",
       .weight = 2,
       .role = Role::kVeto,
       .facts = {Fact::kKvUsage, Fact::kPreemptions},
       .settles = "whether the KV cache is what requests wait for",
       .hear = hear_kv_has_room},
      kFlatClue,
      kTtftClue};
  return clues;
}

std::span<const ClueDef> kv_capacity_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "running_below_users",
       .weight = 2,
       .role = Role::kNeeded,
       .facts = kAboutRunning,
       .settles = "whether all requests in flight run",
       .hear = hear_fewer_run_counted},
      {.id = "kv_full",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kKvUsage, Fact::kPreemptions},
       .settles = "whether another request would fit into the KV cache",
       .hear = hear_kv_full},
      kWaitClue,
      {.id = "below_cap",
       .weight = 1,
       .facts = {Fact::kRunning},
       .settles = "whether the scheduler's cap is reached as well",
       .hear = hear_below_cap},
      {.id = "preempted",
       .weight = 1,
       .facts = {Fact::kPreemptions},
       .settles = "whether requests lose their blocks to others",
       .hear = hear_preempted},
      kFlatClue,
      kTtftClue};
  return clues;
}

std::span<const ClueDef> front_end_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "outside_the_engine",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = kAboutOutside,
       .settles = "whether requests are stuck in front of the engine",
       .hear = hear_outside},
      {.id = "client_on_time",
       .weight = 2,
       .role = Role::kNeeded,
       .facts = {Fact::kClientLag, Fact::kItlP50, Fact::kClientCpu},
       .settles = "whether it is the client that holds them",
       .hear = hear_client_on_time},
      kEmptyQueueClue,
      kHasTimeClue,
      kFlatClue,
      kTtftClue};
  return clues;
}

std::span<const ClueDef> client_limited_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "client_late",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kClientLag, Fact::kClientCpu, Fact::kItlP50},
       .settles = "whether the client keeps up",
       .hear = hear_client_late},
      // By the client's own sampling, which stands still when the client does: of less weight than
      // what the server counts by itself.
      {.id = "outside_the_engine",
       .weight = 2,
       .facts = kAboutOutside,
       .settles = "whether requests are out of the server while the client counts them",
       .hear = hear_outside},
      {.id = "engine_has_time",
       .weight = 3,
       .facts = {Fact::kOccupancy, Fact::kSmActive, Fact::kUtilization},
       .settles = "whether the server waits for its client",
       .hear = hear_engine_has_time},
      kEmptyQueueClue,
      kFlatClue};
  return clues;
}

}  // namespace nibble::diagnose
