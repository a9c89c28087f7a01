#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_model.h"

namespace nibble::engine {
namespace {

// What an engine says of itself while its model computes.
class Watcher {
 public:
  FakeOptions options() {
    return {.before_forward = [this](const ForwardBatch&) {
      if (const Engine* engine = engine_.load()) seen_.push_back(engine->state());
    }};
  }
  void watch(const Engine& engine) { engine_ = &engine; }
  // After the engine has ended.
  const std::vector<EngineState>& seen() const { return seen_; }

 private:
  std::atomic<const Engine*> engine_ = nullptr;
  std::vector<EngineState> seen_;
};

TEST(EngineState, WhatIsComputedRunsAlsoInItsFirstStep) {
  Watcher watcher;
  {
    auto engine =
        Engine::start(std::make_unique<FakeModel>(watcher.options()), {.max_running_requests = 2,
                                                                       .max_num_batched_tokens = 16,
                                                                       .kv_blocks = 32,
                                                                       .block_tokens = 4,
                                                                       .threads = 1});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    watcher.watch(**engine);
    std::promise<void> ended;
    auto ticket = (*engine)->submit({.prompt = prompt_of(20), .max_tokens = 2}, [&](Update update) {
      if (update.finish) ended.set_value();
    });
    ASSERT_TRUE(ticket.ok()) << ticket.error().message;
    ended.get_future().wait();
  }
  // 20 tokens of prompt in steps of 16, and a token each: 16, 4, 1 rows.
  ASSERT_EQ(watcher.seen().size(), 3U);
  for (const EngineState& state : watcher.seen()) {
    EXPECT_EQ(state.running, 1);
    EXPECT_EQ(state.waiting, 0);
    EXPECT_GT(state.blocks_in_use, 0);
  }
}

}  // namespace
}  // namespace nibble::engine
