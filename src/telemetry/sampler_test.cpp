#include "telemetry/sampler.h"

#include <atomic>
#include <bit>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "base/eventually.h"

namespace nibble::telemetry {
namespace {

using std::chrono::milliseconds;

std::uint64_t milliseconds_since(Nanoseconds begin) {
  return static_cast<std::uint64_t>((monotonic_now() - begin) / 1'000'000);
}

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
  const Nanoseconds begin = monotonic_now();
  sampler.start();
  EXPECT_TRUE(eventually([&] { return state("slow").kept >= 4 && state("fast").kept >= 10; }));
  sampler.stop();
  const std::uint64_t spent = milliseconds_since(begin);
  const std::uint64_t fast = state("fast").kept;
  const std::uint64_t slow = state("slow").kept;
  // On the grid of their periods from the start: a busy machine loses some and never gains any.
  EXPECT_LE(fast, spent / 10 + 1);
  EXPECT_LE(slow, spent / 50 + 1);
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
  EXPECT_TRUE(eventually([&] { return sampler.health()[0].samples >= 2; }));
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
  const Nanoseconds begin = monotonic_now();
  sampler.start();
  EXPECT_TRUE(eventually([&] { return state("slow").kept >= 4; }));
  sampler.stop();
  EXPECT_LE(state("slow").kept, milliseconds_since(begin) / 100 + 1);
}

TEST_F(SamplerTest, ASourceThatNeverGaveAnythingSaysWhyAtOnce) {
  add("dead", "a", 3'600'000, [](SignalId) -> Result<> { return run_error("no such host"); });
  Sampler sampler(store_, std::move(sources_));
  sampler.start();
  EXPECT_TRUE(eventually([&] { return !state("dead").signal.available; }));
  sampler.stop();
  EXPECT_EQ(state("dead").signal.reason, "no such host");
  EXPECT_EQ(sampler.health()[0].failures, 1U);
}

TEST_F(SamplerTest, ASourceThatDiesStopsNobodyAndHasAReason) {
  add("good", "a", 10, good());
  add("dead", "a", 10, [](SignalId) -> Result<> { return run_error("GPU is lost"); });
  Sampler sampler(store_, std::move(sources_));
  const Nanoseconds begin = monotonic_now();
  sampler.start();
  EXPECT_TRUE(
      eventually([&] { return state("good").kept >= 8 && sampler.health()[1].failures >= 5; }));
  sampler.stop();
  const std::uint64_t spent = milliseconds_since(begin);
  EXPECT_TRUE(state("good").signal.available);
  EXPECT_FALSE(state("dead").signal.available);
  EXPECT_EQ(state("dead").signal.reason, "GPU is lost");
  const SourceHealth health = sampler.health()[1];
  EXPECT_EQ(health.last_failure, "GPU is lost");
  // Asked less often with each failure: at 0, 10, 20, 40, 80, 160 and 320 ms, or later.
  EXPECT_LE(health.failures, 3U + std::bit_width(spent / 20));
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
  EXPECT_TRUE(eventually([&] { return state("flaky").kept > 0; }));
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
  EXPECT_TRUE(eventually([&] { return state("good").kept >= 5; }));
  EXPECT_EQ(sampler->health(from_milliseconds(1e6))[1].hung_for, 0);  // not for as long as that
  EXPECT_TRUE(state("hung").signal.available);
  EXPECT_TRUE(eventually(
      [&] { return sampler->health(from_milliseconds(50))[1].hung_for >= from_milliseconds(50); }));
  EXPECT_EQ(state("hung").signal.reason, "hung does not answer: its last call hangs");
  EXPECT_TRUE(state("good").signal.available);
  const Nanoseconds begin = monotonic_now();
  sampler->stop(milliseconds(50));  // does not wait for it, or it would not end
  EXPECT_GE(monotonic_now() - begin, from_milliseconds(50));
  EXPECT_FALSE(*returned);
  sampler.reset();  // the thread that hangs outlives it
  *release = true;
  EXPECT_TRUE(eventually([&] { return returned->load(); }));
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
