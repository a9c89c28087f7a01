#include "telemetry/sampler.h"

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace nibble::telemetry {
namespace {

using std::chrono::milliseconds;

// A source that does what the test says.
class Scripted : public Source {
 public:
  Scripted(SampleStore& store, SourceInfo info, std::function<Result<>(SignalId)> act)
      : info_(std::move(info)), act_(std::move(act)), id_(store.declare({.name = info_.name})) {}
  SourceInfo info() const override { return info_; }
  std::vector<SignalId> signals() const override { return {id_}; }
  Result<> sample() override { return act_(id_); }

 private:
  SourceInfo info_;
  std::function<Result<>(SignalId)> act_;
  SignalId id_;
};

class SamplerTest : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::string& lane, double period_ms,
           std::function<Result<>(SignalId)> act) {
    sources_.push_back(std::make_unique<Scripted>(
        *store_, SourceInfo{name, lane, from_milliseconds(period_ms)}, std::move(act)));
  }
  // Adds one value at each call.
  std::function<Result<>(SignalId)> good() {
    return [store = store_](SignalId id) -> Result<> {
      store->add(id, monotonic_now(), 1);
      return {};
    };
  }
  SignalState state(std::string_view name) { return store_->state(*store_->find(name)); }

  std::shared_ptr<SampleStore> store_ = std::make_shared<SampleStore>();
  std::vector<std::unique_ptr<Source>> sources_;
};

TEST_F(SamplerTest, EachSourceHasItsOwnPeriod) {
  add("fast", "a", 10, good());
  add("slow", "a", 50, good());
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  std::this_thread::sleep_for(milliseconds(320));
  sampler.stop();
  const std::uint64_t fast = state("fast").kept;
  const std::uint64_t slow = state("slow").kept;
  // 33 and 7 on an idle machine; a busy one loses some and never gains any.
  EXPECT_LE(fast, 35U);
  EXPECT_LE(slow, 8U);
  EXPECT_GE(fast, 10U);
  EXPECT_GE(slow, 3U);
  EXPECT_GT(fast, slow);
  const std::vector<SourceHealth> health = sampler.health();
  EXPECT_EQ(health[0].name, "fast");
  EXPECT_EQ(health[0].samples, fast);
  EXPECT_EQ(health[0].failures, 0U);
  EXPECT_GT(health[0].mean_cost_us, 0);
  EXPECT_GE(health[0].max_cost_us, health[0].mean_cost_us);
}

TEST_F(SamplerTest, CostIsTheTimeOfASample) {
  add("sleeper", "a", 10, [store = store_](SignalId id) -> Result<> {
    std::this_thread::sleep_for(milliseconds(5));
    store->add(id, monotonic_now(), 1);
    return {};
  });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  std::this_thread::sleep_for(milliseconds(100));
  sampler.stop();
  EXPECT_GE(sampler.health()[0].mean_cost_us, 5000);
}

// At 0, 100, 200 and so on: between two of its 60 ms there is time for others.
TEST_F(SamplerTest, ASourceSlowerThanItsPeriodIsNotAskedWithoutAPause) {
  add("slow", "a", 50, [store = store_](SignalId id) -> Result<> {
    std::this_thread::sleep_for(milliseconds(60));
    store->add(id, monotonic_now(), 1);
    return {};
  });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  std::this_thread::sleep_for(milliseconds(380));
  sampler.stop();  // after the fourth, which began at 300
  EXPECT_LE(state("slow").kept, 4U);
  EXPECT_GE(state("slow").kept, 2U);
}

TEST_F(SamplerTest, ASourceThatNeverGaveAnythingSaysWhyAtOnce) {
  add("dead", "a", 1000, [](SignalId) -> Result<> { return run_error("no such host"); });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  for (int wait = 0; wait < 200 && state("dead").signal.available; ++wait) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  sampler.stop();
  EXPECT_EQ(state("dead").signal.reason, "no such host");
  EXPECT_EQ(sampler.health()[0].failures, 1U);
}

TEST_F(SamplerTest, ASourceThatDiesStopsNobodyAndHasAReason) {
  add("good", "a", 10, good());
  add("dead", "a", 10, [](SignalId) -> Result<> { return run_error("GPU is lost"); });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  std::this_thread::sleep_for(milliseconds(300));
  sampler.stop();
  EXPECT_GE(state("good").kept, 8U);
  EXPECT_TRUE(state("good").signal.available);
  EXPECT_FALSE(state("dead").signal.available);
  EXPECT_EQ(state("dead").signal.reason, "GPU is lost");
  const SourceHealth health = sampler.health()[1];
  EXPECT_EQ(health.last_failure, "GPU is lost");
  EXPECT_GE(health.failures, 3U);
  // Asked less often with each failure: at 0, 10, 20, 40, 80, 160 and 320 ms.
  EXPECT_LE(health.failures, 7U);
}

TEST_F(SamplerTest, ASourceThatComesBackIsAvailableAgain) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  add("flaky", "a", 5, [store = store_, calls](SignalId id) -> Result<> {
    if (++*calls <= 4) return run_error("not yet");
    store->add(id, monotonic_now(), 1);
    return {};
  });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  for (int wait = 0; wait < 200 && state("flaky").kept == 0; ++wait) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  sampler.stop();
  EXPECT_TRUE(state("flaky").signal.available);
  EXPECT_EQ(sampler.health()[0].failures, 4U);
}

TEST_F(SamplerTest, ASourceThatHangsDelaysNobodyAndIsLeftBehind) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  auto returned = std::make_shared<std::atomic<bool>>(false);
  add("good", "a", 10, good());
  add("hung", "b", 10, [release, returned](SignalId) -> Result<> {
    while (!*release) std::this_thread::sleep_for(milliseconds(5));
    *returned = true;
    return {};
  });
  auto sampler = std::make_unique<Sampler>(store_, std::move(sources_));
  sampler->start();
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_GE(state("good").kept, 5U);
  EXPECT_EQ(sampler->health()[1].hung_for, 0);  // not for as long as that
  EXPECT_TRUE(state("hung").signal.available);
  EXPECT_GE(sampler->health(from_milliseconds(50))[1].hung_for, from_milliseconds(50));
  EXPECT_EQ(state("hung").signal.reason, "hung does not answer: its last call hangs");
  EXPECT_TRUE(state("good").signal.available);
  const Nanoseconds begin = monotonic_now();
  sampler->stop(milliseconds(50));
  EXPECT_LT(seconds(monotonic_now() - begin), 2.0);
  sampler.reset();  // the thread that hangs outlives it
  *release = true;
  for (int wait = 0; wait < 200 && !*returned; ++wait) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(*returned);
}

TEST_F(SamplerTest, HealthJson) {
  SourceHealth health{.name = "x", .period = 50'000'000, .samples = 2, .failures = 1};
  health.last_failure = "gone";
  health.hung_for = 6'000'000'000;
  EXPECT_EQ(health_json(health).dump(0),
            R"({"name":"x","period_ms":50,"samples":2,"failures":1,"mean_cost_us":0,)"
            R"("max_cost_us":0,"last_failure":"gone","hung_s":6})");
}

TEST_F(SamplerTest, StopsWithoutHavingStarted) {
  add("good", "a", 10, good());
  Sampler never(store_, std::move(sources_));
  never.stop();
  never.stop();
  EXPECT_EQ(state("good").kept, 0U);
}

}  // namespace
}  // namespace nibble::telemetry
