// Classes of a load that measures something else: answers that repeat, prompts that are cached.
#include <fmt/format.h>

#include "diagnose/clues.h"
#include "diagnose/thresholds.h"

namespace nibble::diagnose {
namespace {

// --- Degenerate output.

Heard hear_repeats(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kDegenerateShare);
  if (!share) return unknown();
  const std::string text = fmt::format("{} of the answers repeat one thing over and over",
                                       view.text(Fact::kDegenerateShare));
  if (*share > kDegenerateSome) return holds(text);
  return *share < kDegenerateFew ? against(text) : nothing();
}

Heard hear_many_repeat(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kDegenerateShare);
  if (!share) return unknown();
  if (*share < kDegenerateMany) return nothing();
  return holds("these are more than a sampler's accidents");
}

Heard hear_repeats_at_lowest(const LevelView& view) {
  const std::optional<LevelView> lowest = view.lowest();
  if (!lowest) return unknown("no lower level was measured");
  const std::optional<double> share = lowest->get(Fact::kDegenerateShare);
  if (!share) return unknown();
  if (*share <= kDegenerateSome) return nothing();
  return holds(fmt::format("at {} it is {} of them: the load has no part in it",
                           lowest->level().name, lowest->text(Fact::kDegenerateShare)));
}

// --- Prefix cache.

// Prompt tokens/s that were sent.
std::optional<double> sent_prompt_rate(const LevelView& view) {
  const auto requests = view.get(Fact::kRequestRate), tokens = view.get(Fact::kPromptTokens);
  return requests && tokens ? std::optional<double>(*requests * *tokens) : std::nullopt;
}

std::optional<double> computed_share(const LevelView& view) {
  return quotient(view.get(Fact::kPromptRate), sent_prompt_rate(view));
}

Heard hear_prompts_computed_less(const LevelView& view) {
  const std::optional<double> share = computed_share(view);
  if (!share) return unknown();
  const std::string text =
      fmt::format("the server computes {} of the prompt tokens that it is sent",
                  fact_text(Fact::kCachedShare, *share));
  if (*share <= 1 - kCachedMuch) return holds(text);
  return *share >= 1 - kCachedLittle ? against(text) : nothing();
}

Heard hear_cached(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kCachedShare);
  if (!share) return hear_prompts_computed_less(view);
  const std::string text = fmt::format("{} of the prompt tokens come from the prefix cache",
                                       view.text(Fact::kCachedShare));
  if (*share > kCachedMuch) return holds(text);
  return *share < kCachedLittle ? against(text) : nothing();
}

Heard hear_repeated(const LevelView& view) {
  const std::optional<double> share = view.get(Fact::kRepeatedShare);
  const bool meant_unique = view.setting().prompts_unique.value_or(false);
  if (share && *share > kRepeatedMuch) {
    return holds(fmt::format("{} of the prompts were sent before in this level",
                             view.text(Fact::kRepeatedShare)));
  }
  // No prompt of this level twice, and yet most is cached: earlier levels or runs had the same
  // ones.
  if (meant_unique && view.get(Fact::kCachedShare).value_or(0) > kCachedMost) {
    return holds("the load's prompts were meant to be unique");
  }
  if (!share) return unknown();
  if (*share > kRepeatedLittle) return nothing();
  return against(fmt::format("{} of the prompts were sent before in this level",
                             view.text(Fact::kRepeatedShare)));
}

}  // namespace

std::span<const ClueDef> degenerate_output_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "answers_repeat",
       .weight = 4,
       .role = Role::kNeeded,
       .facts = {Fact::kDegenerateShare},
       .settles = "whether the answers are text that users would get",
       .hear = hear_repeats},
      {.id = "many_repeat",
       .weight = 1,
       .facts = {Fact::kDegenerateShare},
       .settles = "how many answers repeat",
       .hear = hear_many_repeat},
      {.id = "repeat_at_lowest",
       .weight = 1,
       .facts = {Fact::kDegenerateShare},
       .settles = "whether they do so at each load",
       .hear = hear_repeats_at_lowest}};
  return clues;
}

std::span<const ClueDef> prefix_cache_clues() {
  static const std::vector<ClueDef> clues = {
      {.id = "prompts_cached",
       .weight = 3,
       .role = Role::kNeeded,
       .facts = {Fact::kCachedShare, Fact::kPromptRate},
       .settles = "whether prompts come from the prefix cache",
       .hear = hear_cached},
      {.id = "prompts_repeated",
       .weight = 3,
       .role = Role::kNeeded,
       .facts = {Fact::kRepeatedShare},
       .settles = "whether the load sent the same prompts again",
       .hear = hear_repeated},
      {.id = "computed_less",
       .weight = 1,
       .facts = {Fact::kPromptRate, Fact::kRequestRate, Fact::kPromptTokens},
       .settles = "whether the server computes fewer prompt tokens than it is sent",
       .hear = hear_prompts_computed_less}};
  return clues;
}

}  // namespace nibble::diagnose
