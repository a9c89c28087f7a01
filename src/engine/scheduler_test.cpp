#include "engine/scheduler.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>

#include "engine/fake_model.h"

namespace nibble::engine {
namespace {

struct RigOptions {
  std::int64_t blocks = 64;
  std::int64_t block_tokens = 4;
  SchedulerOptions scheduler = {.max_running_requests = 8, .max_num_batched_tokens = 16};
  bool prefix_caching = true;
  BlockHash hash = hash_block;
};

// A scheduler with a model, stepped by hand.
class Rig {
 public:
  explicit Rig(const RigOptions& options)
      : pool_({.blocks = options.blocks,
               .block_tokens = options.block_tokens,
               .prefix_caching = options.prefix_caching,
               .hash = options.hash}),
        scheduler_(options.scheduler, pool_),
        options_(options) {
    NIBBLE_CHECK(model_
                     .reserve({.blocks = options.blocks,
                               .block_tokens = options.block_tokens,
                               .most_rows = options.scheduler.max_num_batched_tokens,
                               .most_logits = options.scheduler.max_running_requests})
                     .ok());
  }

  std::uint64_t add(EngineRequest request) {
    scheduler_.add(++last_id_, std::move(request));
    return last_id_;
  }

  std::vector<StepResult> step() {
    plan_ = scheduler_.plan();
    std::vector<float> logits(static_cast<std::size_t>(plan_.samples * kFakeVocabulary));
    model_.forward(plan_.batch(), logits);
    std::vector<std::optional<OutputToken>> sampled;
    for (const StepPlan::Part& part : plan_.parts) {
      if (!part.samples) continue;
      const auto row = std::span(logits).subspan(sampled.size() * kFakeVocabulary, kFakeVocabulary);
      sampled.push_back(sampler_.sample({.sampling = part.sequence->request.sampling,
                                         .prompt = part.sequence->prompt(),
                                         .output = part.sequence->output(),
                                         .forbidden = part.sequence->forbidden()},
                                        row));
    }
    std::vector<StepResult> results = scheduler_.complete(plan_, sampled);
    for (const StepResult& result : results) {
      Answer& answer = answers_[result.id];
      for (const OutputToken& token : result.update.tokens) answer.tokens.push_back(token.id);
      answer.finish = result.update.finish;
    }
    return results;
  }

  void run() {
    while (!scheduler_.empty()) step();
  }

  // Of the last step, by request.
  std::map<std::uint64_t, std::int64_t> rows() const {
    std::map<std::uint64_t, std::int64_t> rows;
    for (const StepPlan::Part& part : plan_.parts) rows[part.id] = part.rows;
    return rows;
  }

  BlockPool& pool() { return pool_; }
  Scheduler& scheduler() { return scheduler_; }
  const StepPlan& last_plan() const { return plan_; }
  const Answer& answer(std::uint64_t id) { return answers_[id]; }
  std::int64_t most_tokens() const { return options_.blocks * options_.block_tokens; }

 private:
  BlockPool pool_;
  Scheduler scheduler_;
  RigOptions options_;
  FakeModel model_;
  Sampler sampler_{kFakeVocabulary};
  StepPlan plan_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Answer> answers_;
};

using Rows = std::map<std::uint64_t, std::int64_t>;

TEST(Scheduler, ComputesAPromptInChunksAndThenATokenAStep) {
  Rig rig({});
  const EngineRequest request{.prompt = prompt_of(37, 1), .max_tokens = 3};
  rig.add(request);
  EXPECT_TRUE(rig.step().empty());
  EXPECT_EQ(rig.rows(), (Rows{{1, 16}}));
  EXPECT_TRUE(rig.step().empty());
  EXPECT_EQ(rig.step().size(), 1U);
  EXPECT_EQ(rig.rows(), (Rows{{1, 5}}));
  rig.step();
  EXPECT_EQ(rig.rows(), (Rows{{1, 1}}));
  rig.step();
  EXPECT_TRUE(rig.scheduler().empty());
  EXPECT_EQ(rig.answer(1), answer_alone(request));
  EXPECT_EQ(rig.pool().in_use(), 0);
}

TEST(Scheduler, DecodesComeBeforePromptsAndOldPromptsBeforeNewOnes) {
  Rig rig({});
  rig.add({.prompt = prompt_of(4, 1), .max_tokens = 9});
  rig.step();
  rig.add({.prompt = prompt_of(20, 2), .max_tokens = 9});
  rig.add({.prompt = prompt_of(20, 3), .max_tokens = 9});
  rig.step();
  EXPECT_EQ(rig.rows(), (Rows{{1, 1}, {2, 15}}));
  rig.step();
  EXPECT_EQ(rig.rows(), (Rows{{1, 1}, {2, 5}, {3, 10}}));
}

TEST(Scheduler, RunsNoMoreRequestsThanAllowed) {
  Rig rig({.scheduler = {.max_running_requests = 2, .max_num_batched_tokens = 16}});
  for (TokenId kind = 1; kind <= 3; ++kind) rig.add({.prompt = {kind}, .max_tokens = 2});
  rig.step();
  EXPECT_EQ(rig.rows(), (Rows{{1, 1}, {2, 1}}));
  EXPECT_EQ(rig.scheduler().waiting(), 1);
  rig.run();
  EXPECT_EQ(rig.answer(3).tokens.size(), 2U);
}

TEST(Scheduler, AShortRequestDoesNotOvertakeALongOneThatWaits) {
  Rig rig({.blocks = 8});  // 32 tokens
  rig.add({.prompt = prompt_of(20, 1), .max_tokens = 12});
  rig.add({.prompt = prompt_of(28, 2), .max_tokens = 4});
  rig.add({.prompt = {9}, .max_tokens = 1});
  rig.step();
  EXPECT_EQ(rig.rows().size(), 1U);
  while (rig.scheduler().waiting() == 2) rig.step();
  EXPECT_TRUE(rig.rows().contains(2));
}

TEST(Scheduler, UsesWhatEarlierRequestsHaveComputedOfThePrompt) {
  Rig rig({});
  const EngineRequest request{.prompt = prompt_of(12, 1), .max_tokens = 2};
  rig.add(request);
  rig.run();
  rig.add(request);
  // 12 tokens are three full blocks; the last token is computed anyway, so two of them serve.
  EXPECT_EQ(rig.step().at(0).update.cached_tokens, 8);
  EXPECT_EQ(rig.rows(), (Rows{{2, 4}}));
  rig.run();
  EXPECT_EQ(rig.answer(2), answer_alone(request));
  EXPECT_EQ(rig.scheduler().counts().prompt_tokens, 24);
  EXPECT_EQ(rig.scheduler().counts().cached_prompt_tokens, 8);
  EXPECT_EQ(rig.scheduler().counts().generation_tokens, 4);
}

TEST(Scheduler, AnAnswerIsThePrefixOfTheNextTurn) {
  Rig rig({});
  const EngineRequest first{.prompt = prompt_of(6, 1), .max_tokens = 7};
  rig.add(first);
  rig.run();
  EngineRequest second{.prompt = first.prompt, .max_tokens = 2};
  for (const TokenId token : rig.answer(1).tokens) second.prompt.push_back(token);
  second.prompt.push_back(11);
  rig.add(second);
  // 6 + 7 tokens, the last of which was never computed: three full blocks.
  EXPECT_EQ(rig.step().at(0).update.cached_tokens, 12);
  rig.run();
  EXPECT_EQ(rig.answer(2), answer_alone(second));
}

TEST(Scheduler, TheNewestGivesUpItsBlocksAndGoesOnAlike) {
  Rig rig({.blocks = 6, .scheduler = {.max_running_requests = 2, .max_num_batched_tokens = 16}});
  std::vector<EngineRequest> requests;
  for (TokenId kind = 1; kind <= 2; ++kind) {
    requests.push_back({.prompt = prompt_of(7, kind),
                        .sampling = {.temperature = 0.9, .seed = 5},
                        .max_tokens = 17});
    rig.add(requests.back());
  }
  bool oldest_ran_always = true;
  while (rig.scheduler().running() + rig.scheduler().waiting() == 2) {
    rig.step();
    oldest_ran_always = oldest_ran_always && rig.rows().contains(1);
  }
  EXPECT_GT(rig.scheduler().counts().preemptions, 0);
  EXPECT_TRUE(oldest_ran_always);
  rig.run();
  EXPECT_EQ(rig.answer(1), answer_alone(requests[0]));
  EXPECT_EQ(rig.answer(2), answer_alone(requests[1]));
  EXPECT_EQ(rig.pool().in_use(), 0);
}

TEST(Scheduler, CancelledInEveryPhaseReturnsEveryBlock) {
  const EngineRequest request{.prompt = prompt_of(40, 1), .max_tokens = 4};
  for (int steps = 0; steps <= 6;
       ++steps) {  // queued; in the prompt: 1, 2; decoding: 3 to 5; ended
    Rig rig({});
    rig.add(request);
    for (int step = 0; step < steps; ++step) rig.step();
    const std::optional<StepResult> result = rig.scheduler().cancel(1);
    EXPECT_EQ(result.has_value(), steps < 6) << steps;
    EXPECT_EQ(result.value_or(StepResult{.update = {.finish = Finish::kCancelled}}).update.finish,
              Finish::kCancelled);
    EXPECT_FALSE(rig.scheduler().cancel(1).has_value());
    EXPECT_EQ(rig.pool().in_use(), 0) << steps;
    EXPECT_EQ(rig.scheduler().check_integrity(), "") << steps;

    rig.add(request);  // what the cancelled one left in the prefix cache is complete
    rig.run();
    EXPECT_EQ(rig.answer(2), answer_alone(request)) << steps;
  }
}

TEST(Scheduler, BadLogitsEndTheirRequestAloneAndLeaveNothingInTheCache) {
  Rig rig({});
  EngineRequest bad{.prompt = prompt_of(12, 1), .max_tokens = 4};
  bad.prompt.push_back(kBadToken);
  const EngineRequest good{.prompt = prompt_of(9, 2), .max_tokens = 9};
  rig.add(good);
  rig.add(bad);
  rig.run();
  EXPECT_EQ(rig.answer(1), answer_alone(good));
  EXPECT_EQ(rig.answer(2), (Answer{{}, Finish::kFailed}));
  EXPECT_TRUE(rig.pool().find(bad.prompt).ids.empty());
  EXPECT_EQ(rig.scheduler().check_integrity(), "");
}

TEST(Scheduler, StopIdsEndTheAnswerAndAreNotPartOfIt) {
  Rig rig({});
  EngineRequest request{.prompt = prompt_of(5, 1), .sampling = {.temperature = 0}, .max_tokens = 9};
  const std::vector<TokenId> all = answer_alone(request).tokens;
  ASSERT_EQ(all.size(), 9U);
  request.stop_ids = {all[3]};
  const auto first = std::find(all.begin(), all.end(), all[3]);
  rig.add(request);
  rig.run();
  EXPECT_EQ(rig.answer(1), (Answer{{all.begin(), first}, Finish::kStop}));
  request.min_tokens = 9;
  rig.add(request);
  rig.run();
  EXPECT_EQ(rig.answer(2).tokens.size(), 9U);
  EXPECT_EQ(rig.answer(2).finish, Finish::kLength);
  for (const TokenId token : rig.answer(2).tokens) EXPECT_NE(token, all[3]);
}

// A random crowd on a tiny pool.
class Crowd {
 public:
  Crowd(const RigOptions& options, std::uint64_t seed) : rig_(options), random_(seed) {}

  void step() {
    if (random_.below(100) < load_) add();
    if (random_.below(200) == 0) load_ = random_.below(60);  // busy hours and quiet ones
    if (!alive_.empty() && random_.below(12) == 0) cancel();
    if (rig_.scheduler().empty()) {
      ASSERT_EQ(rig_.pool().in_use(), 0);
      return;
    }
    const std::uint64_t oldest = alive_.begin()->first;
    const std::vector<StepResult> results = rig_.step();
    ASSERT_TRUE(rig_.rows().contains(oldest)) << "the oldest request did not advance";
    ++steps_;
    for (const StepResult& result : results) {
      if (!result.update.finish) continue;
      ASSERT_EQ(rig_.answer(result.id), answer_alone(alive_.at(result.id))) << result.id;
      alive_.erase(result.id);
      ++finished_;
    }
    ASSERT_EQ(rig_.scheduler().check_integrity(), "");
    ASSERT_EQ(rig_.scheduler().running() + rig_.scheduler().waiting(), std::ssize(alive_));
  }

  std::int64_t steps() const { return steps_; }
  std::int64_t finished() const { return finished_; }
  std::int64_t cancelled() const { return cancelled_; }
  const Scheduler::Counts& counts() { return rig_.scheduler().counts(); }

 private:
  void add() {
    EngineRequest request;
    const std::int64_t most = rig_.most_tokens();
    const auto length =
        1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most - 1)));
    request.prompt = prompt_of(length, static_cast<TokenId>(random_.below(3)));
    if (random_.below(2) == 0) request.prompt.back() = static_cast<TokenId>(random_.below(50));
    const auto left = static_cast<std::uint64_t>(most - length);
    request.max_tokens =
        1 + static_cast<std::int64_t>(random_.below(std::min<std::uint64_t>(left, 30)));
    request.min_tokens = static_cast<std::int64_t>(random_.below(3)) % (request.max_tokens + 1);
    if (random_.below(2) == 0) request.stop_ids = {kFakeStop, 12};
    request.sampling.temperature = random_.below(2) == 0 ? 0 : 0.8;
    request.sampling.seed = random_.next();
    request.sampling.repetition_penalty = random_.below(2) == 0 ? 1 : 1.2;
    alive_.emplace(rig_.add(request), request);
  }

  void cancel() {
    const auto at =
        std::next(alive_.begin(), static_cast<std::ptrdiff_t>(random_.below(alive_.size())));
    ASSERT_TRUE(rig_.scheduler().cancel(at->first).has_value());
    alive_.erase(at);
    ++cancelled_;
  }

  Rig rig_;
  Random random_;
  std::uint64_t load_ = 30;
  std::map<std::uint64_t, EngineRequest> alive_;
  std::int64_t steps_ = 0;
  std::int64_t finished_ = 0;
  std::int64_t cancelled_ = 0;
};

struct CrowdCase {
  const char* name;
  RigOptions options;
};

std::uint64_t one_hash(std::int32_t, std::span<const TokenId>) {
  return 1;
}

const CrowdCase kCrowds[] = {
    {"Usual", {.blocks = 12, .scheduler = {8, 16}}},
    {"OneAtATime", {.blocks = 5, .scheduler = {1, 3}}},
    {"BlocksOfOneToken", {.blocks = 30, .block_tokens = 1, .scheduler = {6, 6}}},
    {"OneBlock", {.blocks = 1, .block_tokens = 20, .scheduler = {4, 4}}},
    {"Roomy", {.blocks = 40, .block_tokens = 3, .scheduler = {16, 40}}},
    {"NoCache", {.blocks = 12, .scheduler = {8, 16}, .prefix_caching = false}},
    {"EqualHashes", {.blocks = 12, .scheduler = {8, 16}, .hash = one_hash}},
};

class SchedulerCrowd : public testing::TestWithParam<CrowdCase> {};

TEST_P(SchedulerCrowd, AlwaysAdvancesAndEveryAnswerIsThatOfTheRequestAlone) {
  constexpr std::int64_t kSteps = 15'000;  // of each case: 105 000 steps
  Crowd crowd(GetParam().options, 11);
  while (crowd.steps() < kSteps && !HasFatalFailure()) crowd.step();
  const RigOptions& options = GetParam().options;
  EXPECT_GT(crowd.finished(), 200);
  EXPECT_GT(crowd.cancelled(), 200);
  if (options.blocks > 1 && options.scheduler.max_running_requests > 1) {
    EXPECT_GT(crowd.counts().preemptions, 100);
  }
  if (options.prefix_caching && options.blocks > 1) {
    EXPECT_GT(crowd.counts().cached_prompt_tokens, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SchedulerCrowd, testing::ValuesIn(kCrowds),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nibble::engine
