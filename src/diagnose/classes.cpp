// The classes: what each is called, means and asks for.
#include <array>

#include "base/check.h"
#include "base/names.h"
#include "diagnose/classify.h"

namespace nibble::diagnose {
namespace {

constexpr std::array<ClassInfo, kClasses> kClassInfos = {{
    {Class::kHealthy, "healthy", "healthy", "healthy", "Nothing that can be named holds it back."},
    {Class::kAtTheRoof, "at_the_roof", "at the roof", "memory",
     "A step takes what the machine needs to read the weights or to do the arithmetic: only less "
     "work or a faster machine makes it faster."},
    {Class::kSchedulerCap, "scheduler_cap", "scheduler cap", "queue",
     "The scheduler runs no more requests at once, although the KV cache has room for more; the "
     "others wait."},
    {Class::kKvCapacity, "kv_capacity", "KV capacity", "queue",
     "The KV cache is full: requests wait until others leave it, or lose their blocks and are "
     "computed anew."},
    {Class::kKernelInefficiency, "kernel_inefficiency", "kernel inefficiency", "compute",
     "The kernels take well longer than memory and arithmetic ask for, and a step is little else."},
    {Class::kWrongTactic, "wrong_tactic", "wrong or untuned tactic", "compute",
     "The server runs a variant of a kernel that is not the fastest one of this machine."},
    {Class::kCollectives, "collectives", "collectives", "link",
     "The GPUs spend their time waiting for each other: a kernel is resident, but little is read "
     "or "
     "computed."},
    {Class::kLaunchHost, "launch_host", "launches and host", "latency",
     "Between steps nothing runs: the host schedules, samples or launches, and the machine waits."},
    {Class::kFrontEnd, "front_end", "front end", "queue",
     "Requests are stuck in the server in front of its engine, or behind it: in parsing, "
     "tokenizing or sending."},
    {Class::kPrefillInterference, "prefill_interference", "prefill interference", "latency",
     "Prompts are computed in the same steps as answers, which wait for them."},
    {Class::kPowerCap, "power_cap", "power cap", "machine", "A power limit holds the clock down."},
    {Class::kThermal, "thermal", "heat", "machine",
     "The machine is at its temperature limit and lowers its clock."},
    {Class::kLinkDegraded, "link_degraded", "degraded link", "link",
     "A link between GPUs runs with fewer lanes or at a lower generation than it should."},
    {Class::kExpertImbalance, "expert_imbalance", "expert imbalance", "compute",
     "Few experts, or the GPU that holds them, have most of the work; the others wait."},
    {Class::kClientLimited, "client_limited", "client-limited", "load",
     "The load generator cannot keep up: the numbers are its own, not the server's."},
    {Class::kDegenerateOutput, "degenerate_output", "degenerate output", "load",
     "Answers repeat one thing over and over: experts, caches and speculation see what no user "
     "sends."},
    {Class::kPrefixCacheInflation, "prefix_cache_inflation", "prefix-cache inflation", "load",
     "Prompts were computed before and come from a cache: the numbers are better than for new "
     "prompts."},
    {Class::kUnexplained, "unexplained", "unexplained", "unknown",
     "Something holds it back, and nothing that is known says what."},
}};

constexpr Named<Certainty> kCertainties[] = {{"none", Certainty::kNone},
                                             {"possible", Certainty::kPossible},
                                             {"likely", Certainty::kLikely},
                                             {"certain", Certainty::kCertain}};

// What is said of each class where it is named, and how it is settled.
constexpr std::array<ClassWords, kClasses> kClassWords = {{
    {Class::kHealthy, "nothing that can be named holds it back",
     "More users, until throughput stops growing: what stops it then is the next limit.",
     "more_users"},
    {Class::kAtTheRoof, "it is at the roof of the machine: do not optimise",
     "None: a faster machine, smaller weights or more sequences a step change it, nothing else.",
     ""},
    {Class::kSchedulerCap, "the scheduler's cap holds requests back",
     "More users: the running requests do not change. Then restart with a higher cap.",
     "more_users"},
    {Class::kKvCapacity, "the KV cache is full and requests wait for it",
     "Shorter requests at the same users: more of them run.", "shorter_requests"},
    {Class::kKernelInefficiency, "the kernels themselves are slow",
     "Time the model's kernels alone at this batch: they show the same loss.", ""},
    {Class::kWrongTactic, "the server runs a tactic that is not the best one here",
     "Restart with the best tactic and run this level again.", ""},
    {Class::kCollectives, "the GPUs wait for each other",
     "Time an all-reduce of rows x hidden x 2 bytes alone and multiply by those of a step, or run "
     "with half the GPUs: steps get shorter than the halved bandwidth allows.",
     ""},
    {Class::kLaunchHost, "the machine waits for the host between steps",
     "Run a level with CUDA graphs (or asynchronous scheduling) on and off, or trace ten steps.",
     ""},
    {Class::kFrontEnd, "requests are stuck in the server outside of its engine",
     "A second client on another core, its own mock audited: if nothing changes, add a front-end "
     "process.",
     "fresh_client_audit"},
    {Class::kPrefillInterference, "prompts hold up the answers that are under way",
     "One-token prompts at the same users: the long gaps between tokens go.", "decode_only"},
    {Class::kPowerCap, "a power limit holds the clock down",
     "Raise the power limit, or divide throughput by the clock: it is the same at each load.", ""},
    {Class::kThermal, "heat holds the clock down",
     "Let it cool and run this level at once: the first seconds are faster.", ""},
    {Class::kLinkDegraded, "a link between the GPUs is not what it should be",
     "Copy between two GPUs under load and read the link's generation and width meanwhile.", ""},
    {Class::kExpertImbalance, "few experts have most of the work",
     "Other prompts: another expert is the busiest one, or none.", "unique_prompts"},
    {Class::kClientLimited, "the client cannot keep up, and the numbers are its own",
     "Audit a fresh client against a mock at this load.", "fresh_client_audit"},
    {Class::kDegenerateOutput, "answers repeat themselves, and no user's load looks like that",
     "Another sampling temperature: the answers become text.", "other_temperature"},
    {Class::kPrefixCacheInflation, "prompts come from the prefix cache, and users' would not",
     "Unique prompts at the same users: time to the first token grows.", "unique_prompts"},
    {Class::kUnexplained, "something holds it back that no known signal names",
     "A trace of ten steps: which operations take the time.", ""},
}};

}  // namespace

std::span<const ClassInfo> class_infos() {
  return kClassInfos;
}

const ClassInfo& info_of(Class cls) {
  const auto index = static_cast<std::size_t>(cls);
  NIBBLE_CHECK(index < kClasses && kClassInfos[index].cls == cls);
  return kClassInfos[index];
}

const ClassWords& words_of(Class cls) {
  const auto index = static_cast<std::size_t>(cls);
  NIBBLE_CHECK(index < kClasses && kClassWords[index].cls == cls);
  return kClassWords[index];
}

std::optional<Class> class_from_name(std::string_view name) {
  for (const ClassInfo& info : kClassInfos) {
    if (info.name == name) return info.cls;
  }
  return std::nullopt;
}

std::string_view to_string(Certainty certainty) {
  return name_of(kCertainties, certainty);
}

bool is_fault(Class cls) {
  return cls != Class::kHealthy && cls != Class::kAtTheRoof && cls != Class::kUnexplained;
}

bool invalidates(Class cls) {
  return info_of(cls).regime == "load";
}

std::span<const ClueDef> clues_of(Class cls) {
  switch (cls) {
    case Class::kHealthy:
      return healthy_clues();
    case Class::kAtTheRoof:
      return at_the_roof_clues();
    case Class::kSchedulerCap:
      return scheduler_cap_clues();
    case Class::kKvCapacity:
      return kv_capacity_clues();
    case Class::kKernelInefficiency:
      return kernel_inefficiency_clues();
    case Class::kWrongTactic:
      return wrong_tactic_clues();
    case Class::kCollectives:
      return collectives_clues();
    case Class::kLaunchHost:
      return launch_host_clues();
    case Class::kFrontEnd:
      return front_end_clues();
    case Class::kPrefillInterference:
      return prefill_interference_clues();
    case Class::kPowerCap:
      return power_cap_clues();
    case Class::kThermal:
      return thermal_clues();
    case Class::kLinkDegraded:
      return link_degraded_clues();
    case Class::kExpertImbalance:
      return expert_imbalance_clues();
    case Class::kClientLimited:
      return client_limited_clues();
    case Class::kDegenerateOutput:
      return degenerate_output_clues();
    case Class::kPrefixCacheInflation:
      return prefix_cache_clues();
    case Class::kUnexplained:
      return unexplained_clues();
  }
  return {};
}

}  // namespace nibble::diagnose
