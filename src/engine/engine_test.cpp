#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <latch>
#include <mutex>
#include <string>
#include <thread>

#include "base/eventually.h"
#include "engine/fake_model.h"

namespace nibble::engine {
namespace {

// Where the updates of one request go; its sink may outlive it.
class Listener {
 public:
  Sink sink() {
    return [state = state_](Update update) {
      const std::lock_guard lock(state->mutex);
      EXPECT_FALSE(state->answer.finish.has_value()) << "an update after the last one";
      for (const OutputToken& token : update.tokens) state->answer.tokens.push_back(token.id);
      state->answer.finish = update.finish;
      state->cached_tokens = update.cached_tokens;
      state->changed.notify_all();
    };
  }
  Answer wait() const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->answer.finish.has_value(); });
    return state_->answer;
  }
  void wait_for_tokens(std::size_t count) const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] {
      return state_->answer.tokens.size() >= count || state_->answer.finish.has_value();
    });
  }
  std::int64_t cached_tokens() const {
    const std::lock_guard lock(state_->mutex);
    return state_->cached_tokens;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Answer answer;
    std::int64_t cached_tokens = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

EngineOptions small_options() {
  return {.max_running_requests = 8,
          .max_num_batched_tokens = 16,
          .max_queued_requests = 2000,
          .kv_blocks = 32,
          .block_tokens = 4,
          .threads = 2};
}

std::unique_ptr<Engine> start(EngineOptions options, FakeOptions fake = {}) {
  auto engine = Engine::start(std::make_unique<FakeModel>(std::move(fake)), options);
  NIBBLE_CHECK(engine.ok());
  return std::move(engine).value();
}

Answer ask(Engine& engine, const EngineRequest& request) {
  Listener listener;
  auto ticket = engine.submit(request, listener.sink());
  EXPECT_TRUE(ticket.ok());
  return ticket.ok() ? listener.wait() : Answer{};
}

// Ends the engine, after what it has been given: it checks its integrity once more.
void expect_clean(Engine& engine) {
  engine.stop(60'000'000'000);
  const EngineState state = engine.state();
  EXPECT_EQ(state.blocks_in_use, 0);
  EXPECT_EQ(state.running + state.waiting, 0);
  EXPECT_EQ(state.fault, "");
}

std::string refusal(Engine& engine, EngineRequest request) {
  const auto ticket = engine.submit(std::move(request), [](Update) { ADD_FAILURE(); });
  if (ticket.ok()) return "taken";
  EXPECT_EQ(ticket.error().kind, ErrorKind::kInput);
  return ticket.error().message;
}

TEST(Engine, AnswersLikeTheModelAlone) {
  const auto engine = start(small_options());
  const EngineRequest request{.prompt = prompt_of(10), .max_tokens = 20};
  EXPECT_EQ(ask(*engine, request), answer_alone(request));
  const EngineState state = engine->state();  // already as of the last update
  EXPECT_EQ(state.prompt_tokens, 10);
  EXPECT_EQ(state.generation_tokens, 20);
  EXPECT_EQ(state.finished[static_cast<int>(Finish::kLength)], 1);
  EXPECT_EQ(state.steps, 20);
  EXPECT_EQ(state.blocks, 32);
  expect_clean(*engine);
}

TEST(Engine, AloneAndAmong31OthersGivesTheSameTokens) {
  EngineOptions options = small_options();
  options.max_running_requests = 32;
  options.max_num_batched_tokens = 48;
  options.kv_blocks = 600;  // all of them stay in the cache
  const auto engine = start(options);
  std::vector<EngineRequest> requests;
  for (TokenId kind = 0; kind < 32; ++kind) {
    requests.push_back({.prompt = prompt_of(5 + kind, kind),
                        .sampling = {.temperature = kind % 3 * 0.6,
                                     .top_k = kind % 4 * 5,
                                     .top_p = kind % 2 == 0 ? 1 : 0.8,
                                     .frequency_penalty = kind % 5 * 0.2,
                                     .seed = static_cast<std::uint64_t>(kind)},
                        .max_tokens = 30});
  }
  std::vector<Listener> listeners(requests.size());
  std::vector<Ticket> tickets;
  for (std::size_t index = 0; index < requests.size(); ++index) {
    auto ticket = engine->submit(requests[index], listeners[index].sink());
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(std::move(ticket).value());
  }
  for (std::size_t index = 0; index < requests.size(); ++index) {
    EXPECT_EQ(listeners[index].wait(), answer_alone(requests[index])) << index;
  }
  for (const EngineRequest& request : requests) {
    EXPECT_EQ(ask(*engine, request), answer_alone(request));
  }
  EXPECT_GT(engine->state().cached_prompt_tokens, 0);
  expect_clean(*engine);
}

TEST(Engine, AskedTwiceUsesTheCacheAndSaysSo) {
  const auto engine = start(small_options());
  Listener first;
  Listener second;
  const EngineRequest request{.prompt = prompt_of(13), .max_tokens = 3};
  const auto ticket = engine->submit(request, first.sink());
  const Answer answer = first.wait();
  const auto again = engine->submit(request, second.sink());
  EXPECT_EQ(second.wait(), answer);
  EXPECT_EQ(first.cached_tokens(), 0);
  EXPECT_EQ(second.cached_tokens(), 12);
}

TEST(Engine, PromptsAtAndBeyondTheLimits) {
  EngineOptions options = small_options();
  options.max_model_len = 64;  // the pool holds 128
  const auto engine = start(options);
  const EngineRequest longest{.prompt = prompt_of(63), .max_tokens = 1'000'000'000'000};
  EXPECT_EQ(ask(*engine, longest).tokens.size(), 1U);  // cut to what the limit leaves
  EXPECT_EQ(ask(*engine, {.prompt = prompt_of(54), .max_tokens = 50}).tokens.size(), 10U);
  for (const int length : {64, 65, 5000}) {
    const std::string message = refusal(*engine, {.prompt = prompt_of(length)});
    EXPECT_TRUE(message.starts_with("prompt has " + std::to_string(length) + " tokens")) << message;
    EXPECT_NE(message.find("is 64 tokens"), std::string::npos) << message;
  }
  expect_clean(*engine);
}

TEST(Engine, PromptsAtAndBeyondThePool) {
  const auto engine = start(small_options());  // a pool of 128 tokens, a model of 1000
  const EngineRequest longest{.prompt = prompt_of(127), .max_tokens = 5};
  EngineRequest cut = longest;
  cut.max_tokens = 1;
  EXPECT_EQ(ask(*engine, longest), answer_alone(cut));
  const EngineRequest fills{.prompt = prompt_of(60), .max_tokens = 1000};
  EXPECT_EQ(ask(*engine, fills).tokens.size(), 68U);
  for (const int length : {128, 129}) {
    const std::string message = refusal(*engine, {.prompt = prompt_of(length)});
    EXPECT_NE(message.find("holds 128 tokens (32 blocks of 4)"), std::string::npos) << message;
  }
  expect_clean(*engine);
}

struct BadRequest {
  const char* begins;
  EngineRequest request;
};

TEST(Engine, EveryBadParameterIsRefusedByNameAndTheNextRequestIsServed) {
  const std::vector<TokenId> good = {1, 2, 3};
  std::vector<TokenId> all(kFakeVocabulary);
  for (std::size_t id = 0; id < all.size(); ++id) all[id] = static_cast<TokenId>(id);
  const BadRequest cases[] = {
      {"prompt is empty", {.prompt = {}}},
      {"prompt has token 50;", {.prompt = {1, 50}}},
      {"prompt has token -1;", {.prompt = {-1}}},
      {"max_tokens is 0", {.prompt = good, .max_tokens = 0}},
      {"max_tokens is -3", {.prompt = good, .max_tokens = -3}},
      {"min_tokens is -1", {.prompt = good, .min_tokens = -1}},
      {"min_tokens is 17", {.prompt = good, .max_tokens = 16, .min_tokens = 17}},
      {"stop_token_ids has token 50;", {.prompt = good, .stop_ids = {3, 50}}},
      {"stop_token_ids has token -7;", {.prompt = good, .stop_ids = {-7}}},
      {"stop_token_ids names all 50", {.prompt = good, .min_tokens = 1, .stop_ids = all}},
      {"temperature is -1", {.prompt = good, .sampling = {.temperature = -1}}},
      {"top_p is 2", {.prompt = good, .sampling = {.top_p = 2}}},
      {"logit_bias names token 99", {.prompt = good, .sampling = {.logit_bias = {{99, 1.0F}}}}},
      {"logprobs is 21", {.prompt = good, .sampling = {.logprobs = 21}}},
  };
  const auto engine = start(small_options());
  const EngineRequest request{.prompt = good, .max_tokens = 3};
  for (const BadRequest& bad : cases) {
    const std::string message = refusal(*engine, bad.request);
    EXPECT_TRUE(message.starts_with(bad.begins)) << message;
    EXPECT_EQ(ask(*engine, request), answer_alone(request));
  }
  expect_clean(*engine);
}

TEST(Engine, BadLogitsFailTheirRequestAndAreCounted) {
  const auto engine = start(small_options());
  const EngineRequest bad{.prompt = {1, 2, kBadToken}};
  EXPECT_EQ(ask(*engine, bad), (Answer{{}, Finish::kFailed}));
  const EngineRequest good{.prompt = {1, 2}, .max_tokens = 3};
  EXPECT_EQ(ask(*engine, good), answer_alone(good));
  EXPECT_EQ(engine->state().nonfinite_logits, 1);
  expect_clean(*engine);
}

TEST(Engine, ADroppedTicketCancelsAndReturnsEveryBlock) {
  const EngineRequest request{.prompt = prompt_of(40), .max_tokens = 80};
  for (const std::size_t tokens : {0, 1, 5, 30}) {
    const auto engine = start(small_options());
    Listener listener;
    {
      auto ticket = engine->submit(request, listener.sink());
      ASSERT_TRUE(ticket.ok());
      listener.wait_for_tokens(tokens);
    }
    const Answer answer = listener.wait();
    EXPECT_TRUE(answer.finish == Finish::kCancelled || answer.tokens.size() == 80U);
    EXPECT_EQ(engine->state().blocks_in_use, 0);
    EXPECT_EQ(ask(*engine, request), answer_alone(request));
    expect_clean(*engine);
  }
}

TEST(Engine, AMovedTicketKeepsItsRequest) {
  const auto engine = start(small_options());
  const EngineRequest request{.prompt = prompt_of(4), .max_tokens = 40};
  Listener listener;
  Ticket kept;
  {
    auto ticket = engine->submit(request, listener.sink());
    kept = std::move(ticket).value();
  }
  EXPECT_EQ(listener.wait(), answer_alone(request));
  kept = {};
  expect_clean(*engine);
}

TEST(Engine, AThousandCancelsFromOtherThreads) {
  const auto engine = start(small_options());
  constexpr int kThreads = 4;
  std::atomic<int> complete = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < kThreads; ++client) {
    clients.emplace_back([&engine, &complete, client] {
      Random random(static_cast<std::uint64_t>(client));
      for (int round = 0; round < 250; ++round) {
        const EngineRequest request{
            .prompt = prompt_of(1 + static_cast<std::int64_t>(random.below(60)),
                                static_cast<TokenId>(random.below(4))),
            .sampling = {.seed = random.next()},
            .max_tokens = 1 + static_cast<std::int64_t>(random.below(40))};
        Listener listener;
        auto ticket = engine->submit(request, listener.sink());
        ASSERT_TRUE(ticket.ok());
        listener.wait_for_tokens(random.below(20));
        if (random.below(3) == 0) {
          ASSERT_EQ(listener.wait(), answer_alone(request));
          ++complete;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  expect_clean(*engine);
  const EngineState state = engine->state();
  EXPECT_GT(complete, 200);
  EXPECT_GT(state.finished[static_cast<int>(Finish::kCancelled)], 100);
  EXPECT_EQ(state.finished[0] + state.finished[1] + state.finished[2] + state.finished[3], 1000);
}

// Holds the model in its forward pass until it is let go.
class Gate {
 public:
  FakeOptions options() {
    return {.before_forward = [this](const ForwardBatch&) {
      std::unique_lock lock(mutex_);
      arrived_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    }};
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false;
  bool open_ = false;
};

TEST(Engine, AFrozenModelShowsInTheSignOfLife) {
  Gate gate;
  const auto engine = start(small_options(), gate.options());
  const Nanoseconds before = engine->state().last_sign_of_life;
  EXPECT_TRUE(eventually([&] { return engine->state().last_sign_of_life > before; }))
      << "an idle engine gives signs of life";
  Listener listener;
  const auto ticket = engine->submit({.prompt = {1}, .max_tokens = 1}, listener.sink());
  gate.wait_for_arrival();
  const Nanoseconds frozen = engine->state().last_sign_of_life;
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(engine->state().last_sign_of_life, frozen);
  gate.open();
  listener.wait();
  EXPECT_GT(engine->state().last_sign_of_life, frozen);
}

TEST(Engine, AFullQueueIsBusyAndRecovers) {
  Gate gate;
  EngineOptions options = small_options();
  options.max_running_requests = 1;
  options.max_queued_requests = 2;
  const auto engine = start(options, gate.options());
  std::vector<Listener> listeners(4);
  std::vector<Ticket> tickets;
  const EngineRequest request{.prompt = {1}, .max_tokens = 2};
  for (int index = 0; index < 3; ++index) {
    auto ticket = engine->submit(request, listeners[static_cast<std::size_t>(index)].sink());
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(std::move(ticket).value());
  }
  gate.wait_for_arrival();
  const auto refused = engine->submit(request, listeners[3].sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kRun);
  EXPECT_NE(refused.error().message.find("max_queued_requests is 2"), std::string::npos);
  gate.open();
  for (int index = 0; index < 3; ++index) listeners[static_cast<std::size_t>(index)].wait();
  EXPECT_TRUE(engine->submit(request, listeners[3].sink()).ok());
}

TEST(Engine, StopWithGraceLetsWhatRunsEndAndTakesNothingMore) {
  const auto engine = start(small_options());
  const EngineRequest request{.prompt = prompt_of(8), .max_tokens = 100};
  std::vector<Listener> listeners(20);  // more than run at a time
  std::vector<Ticket> tickets;
  for (Listener& listener : listeners) {
    auto ticket = engine->submit(request, listener.sink());
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(std::move(ticket).value());
  }
  engine->stop(60'000'000'000);
  const Answer expected = answer_alone(request);
  for (const Listener& listener : listeners) EXPECT_EQ(listener.wait(), expected);
  const auto late = engine->submit(request, [](Update) { ADD_FAILURE(); });
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kRun);
  EXPECT_EQ(engine->state().fault, "");
  engine->stop();
}

TEST(Engine, StopWithoutGraceCancelsWhatRunsAndWaits) {
  Gate gate;
  auto engine = start(small_options(), gate.options());
  std::vector<Listener> listeners(20);
  std::vector<Ticket> tickets;
  for (Listener& listener : listeners) {
    auto ticket = engine->submit({.prompt = prompt_of(8), .max_tokens = 100}, listener.sink());
    tickets.push_back(std::move(ticket).value());
  }
  gate.wait_for_arrival();
  std::thread stopper([&] { engine->stop(3'600'000'000'000); });
  std::thread impatient([&] { engine->stop(0); });  // cuts the other's hour short
  gate.open();
  stopper.join();
  impatient.join();
  for (const Listener& listener : listeners) {
    EXPECT_EQ(listener.wait().finish, Finish::kCancelled);
  }
  EXPECT_EQ(engine->state().blocks_in_use, 0);
  EXPECT_EQ(engine->state().fault, "");
  engine.reset();
  tickets.clear();  // they may outlive it
}

TEST(Engine, ATicketMayBeDroppedWithinASink) {
  const auto engine = start(small_options());
  std::latch given(1);
  auto ticket = std::make_shared<Ticket>();
  Listener listener;
  auto submitted = engine->submit({.prompt = {1, 2}, .max_tokens = 120},
                                  [&given, ticket, sink = listener.sink()](Update update) {
                                    given.wait();
                                    *ticket = {};
                                    sink(std::move(update));
                                  });
  *ticket = std::move(submitted).value();
  given.count_down();
  EXPECT_EQ(listener.wait().finish, Finish::kCancelled);
  expect_clean(*engine);
}

}  // namespace
}  // namespace nibble::engine
