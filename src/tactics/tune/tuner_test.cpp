// The tuner with injected times and faults.
#include "tactics/tune/tuner.h"

#include <atomic>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <thread>

#include "base/eventually.h"
#include "base/file.h"
#include "base/testing.h"
#include "tactics/tune/store.h"
#include "tactics/tune/test_backend.h"

namespace nibble::tune {
namespace {

constexpr double kAnySeconds = 1e9;

TuningEntry tune_one(InjectedBackend& backend, const TuningKey& key, TuneOptions options = {}) {
  options.seconds = kAnySeconds;
  return tune_key(backend, key, options, steady_now, [](std::string_view) {});
}

// Different bits in replay 37 of 50, and the fastest by far.
TEST(Tuner, ATacticWrongInOneOfFiftyReplaysIsNamedAndNeverTimed) {
  InjectedBackend backend(3);
  backend.time = [](int tactic, std::size_t) { return tactic == 1 ? 10.0 : 100.0; };
  backend.checked = [](int tactic, std::int64_t, int repeats) -> Result<CheckRun> {
    CheckRun run = InjectedBackend::right(repeats);
    if (tactic == 1) run.digests[36] ^= 1;
    return run;
  };
  const TuningEntry entry = tune_one(backend, test_key());
  ASSERT_EQ(entry.rejected.size(), 1U);
  EXPECT_EQ(entry.rejected[0].tactic, tactic_number(1));
  EXPECT_EQ(entry.rejected[0].why, "at 64 tokens: replay 37 of 50 gave other bits than the first");
  EXPECT_EQ(std::count(backend.timed.begin(), backend.timed.end(), 1), 0);
  ASSERT_TRUE(entry.choice);
  EXPECT_EQ(*entry.choice, tactic_number(0));
}

// Right up to 4,096 tokens and NaN at 6,144, as FlashInfer's tile of 192: the choice for 2,049 to
// 4,096 tokens may take it, the one for 4,097 to 6,144 must not.
TEST(Tuner, ATacticThatGivesNanFromSomeTokensOnIsCaughtWhereTheyAreReached) {
  InjectedBackend backend(2);
  backend.time = [](int tactic, std::size_t) { return tactic == 1 ? 50.0 : 100.0; };
  backend.checked = [](int tactic, std::int64_t tokens, int repeats) -> Result<CheckRun> {
    CheckRun run = InjectedBackend::right(repeats);
    if (tactic == 1 && tokens > 4096) run.error = std::numeric_limits<double>::quiet_NaN();
    return run;
  };
  const std::vector<TuningKey> keys = keys_of(test_shape(), {2048, 4096, 6144});
  ASSERT_EQ(keys.size(), 3U);
  const TuningEntry below = tune_one(backend, keys[1]);
  EXPECT_EQ(*below.choice, tactic_number(1));
  EXPECT_EQ(below.checked_tokens, (std::vector<std::int64_t>{2049, 4096}));
  const TuningEntry above = tune_one(backend, keys[2]);
  EXPECT_EQ(*above.choice, tactic_number(0));
  ASSERT_EQ(above.rejected.size(), 1U);
  EXPECT_EQ(above.rejected[0].why, "at 4097 tokens: an output is no number at token 0");
}

TEST(Tuner, ATacticThatIsWrongAtTheUpperEndOnlyIsCaught) {
  InjectedBackend backend(2);
  backend.checked = [](int tactic, std::int64_t tokens, int repeats) -> Result<CheckRun> {
    CheckRun run = InjectedBackend::right(repeats);
    if (tactic == 1 && tokens == 64) run.error = 0.25;
    return run;
  };
  const TuningEntry entry = tune_one(backend, {test_shape(), 64, 33});
  ASSERT_EQ(entry.rejected.size(), 1U);
  EXPECT_EQ(entry.rejected[0].why,
            "at 64 tokens: relative error 0.2500 at token 0; at most 0.004000 is right");
}

TEST(Tuner, FewerReplaysThanAskedForAreNoPass) {
  InjectedBackend backend(1);
  backend.checked = [](int, std::int64_t, int) -> Result<CheckRun> {
    return InjectedBackend::right(49);
  };
  const TuningEntry entry = tune_one(backend, test_key());
  ASSERT_EQ(entry.rejected.size(), 1U);
  EXPECT_EQ(entry.rejected[0].why, "at 64 tokens: 50 replays were asked for and 49 came");
  EXPECT_FALSE(entry.choice);
  EXPECT_EQ(entry.note, "no correct kernel: all 1 feasible tactics are wrong or faulted");
}

TEST(Tuner, TheEmptySetHasItsSentence) {
  InjectedBackend backend(0);
  backend.found.infeasible = {{tactic_number(0), "102400 bytes of shared memory; 101376 are there"},
                              {tactic_number(1), "the same"}};
  const TuningEntry entry = tune_one(backend, test_key());
  EXPECT_FALSE(entry.choice);
  EXPECT_EQ(entry.note, "no feasible kernel: of 2 tactics none fits this shape and device");
  EXPECT_EQ(entry.infeasible.size(), 2U);
  EXPECT_TRUE(backend.timed.empty());
}

TEST(Tuner, TheSingleCandidateIsUntuned) {
  InjectedBackend backend(1);
  const TuningEntry entry = tune_one(backend, test_key());
  EXPECT_EQ(*entry.choice, tactic_number(0));
  EXPECT_EQ(entry.note, "untuned: single candidate");
  ASSERT_EQ(entry.times.size(), 1U);
  EXPECT_EQ(entry.times[0].times.median_us, 100);
}

TEST(Tuner, AFaultWhileTimedIsWrittenDownAndNotTriedAgain) {
  InjectedBackend backend(3);
  backend.time = [](int tactic, std::size_t round) {
    return tactic == 2 && round == 5 ? -1.0 : tactic == 2 ? 10.0 : 100.0;
  };
  const TuningEntry entry = tune_one(backend, test_key());
  EXPECT_EQ(*entry.choice, tactic_number(0));
  ASSERT_EQ(entry.rejected.size(), 1U);
  EXPECT_EQ(entry.rejected[0].why, "while it was timed: faulted: CUDA_ERROR_ILLEGAL_INSTRUCTION");
  EXPECT_EQ(std::count(backend.timed.begin(), backend.timed.end(), 2), 6);
  EXPECT_EQ(entry.times.size(), 2U);
}

TEST(Tuner, AFaultingDefaultLeavesTheOthersAChoice) {
  InjectedBackend backend(3);
  backend.time = [](int tactic, std::size_t round) {
    return tactic == 0 && round == 5 ? -1.0 : tactic == 2 ? 80.0 : 100.0;
  };
  const TuningEntry entry = tune_one(backend, test_key());
  EXPECT_EQ(*entry.choice, tactic_number(2));
  EXPECT_EQ(entry.note,
            "the default cpu avx2 1 thread cannot be used; cpu avx2 2 threads stood in for it");
}

// What drifts must meet all alike: A B C, then B C A, never A A A.
TEST(Tuner, CandidatesAreTimedInTurns) {
  InjectedBackend backend(3);
  tune_one(backend, test_key(), {.rules = {.least_rounds = 40, .most_rounds = 40}});
  ASSERT_EQ(backend.timed.size(), 120U);
  std::set<std::vector<int>> orders;
  for (auto at = backend.timed.begin(); at != backend.timed.end(); at += 3) {
    std::vector<int> round(at, at + 3);
    orders.insert(round);
    std::sort(round.begin(), round.end());
    ASSERT_EQ(round, (std::vector<int>{0, 1, 2}));
  }
  // Of the six orders; that forty rounds show two alone has a probability of 15 x 3^-40.
  EXPECT_GE(orders.size(), 3U);
}

TEST(Tuner, TheTimeOfAKeyIsBounded) {
  InjectedBackend backend(2);
  double now = 0;
  backend.time = [&](int, std::size_t) {
    now += 1;
    return 100.0;
  };
  const TuningEntry entry = tune_key(
      backend, test_key(), {.seconds = 7}, [&] { return now; }, [](std::string_view) {});
  EXPECT_EQ(entry.rounds, 4U);  // the fourth has begun when the seventh second ends
  EXPECT_EQ(backend.timed.size(), 8U);
}

TuneRequest request_for(const std::filesystem::path& path) {
  TuneRequest request{.keys = keys_of(test_shape(), {16, 64}), .output = path};
  request.options.seconds = kAnySeconds;
  return request;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<TuneReport> tune_into(InjectedBackend& backend, const TuneRequest& request) {
  return tune_keys(backend, request, steady_now, unix_seconds, [](std::string_view) {});
}

// Two ranks see opposite truths: tactic 1 fast on one, tactic 2 on the other. Whoever is first
// decides, and the other, which has come meanwhile, has the same choice without timing anything.
void two_ranks_agree(bool again) {
  const TemporaryFolder folder;
  TuneRequest request = request_for(folder.path() / "tuning.json");
  request.again = again;
  std::vector<std::optional<TuneReport>> reports(2);
  std::vector<InjectedBackend> backends(2, InjectedBackend(3));
  std::atomic<bool> waits = false;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    InjectedBackend& backend = backends[static_cast<std::size_t>(rank)];
    backend.time = [rank, &waits](int tactic, std::size_t) {
      EXPECT_TRUE(eventually([&] { return waits.load(); }));
      return tactic == rank + 1 ? 80.0 : 100.0;
    };
    ranks.emplace_back([&, rank] {
      Result<TuneReport> report =
          tune_keys(backends[static_cast<std::size_t>(rank)], request, steady_now, unix_seconds,
                    [&](std::string_view what) { waits = waits || what.starts_with("waiting"); });
      ASSERT_TRUE(report.ok()) << report.error().message;
      reports[static_cast<std::size_t>(rank)] = std::move(*report);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  ASSERT_TRUE(reports[0] && reports[1]);
  EXPECT_EQ(to_json(reports[0]->file).dump(), to_json(reports[1]->file).dump());
  EXPECT_EQ(reports[0]->reused.size() + reports[1]->reused.size(), 2U);
  EXPECT_TRUE(backends[0].timed.empty() != backends[1].timed.empty());
  for (const TuningEntry& entry : reports[0]->file.entries) {
    EXPECT_EQ(*entry.choice, *reports[0]->file.entries[0].choice);
    EXPECT_NE(*entry.choice, tactic_number(0));
  }
}

TEST(Tuner, TwoRanksWithOppositeNoiseComeToOneChoice) {
  two_ranks_agree(false);
}

TEST(Tuner, TwoRanksAgreeWhenBothMeasureAnew) {
  two_ranks_agree(true);
}

TEST(Tuner, WhatTheFileHasIsKeptUntilAskedForAgain) {
  const TemporaryFolder folder;
  TuneRequest request = request_for(folder.path() / "deep" / "tuning.json");
  InjectedBackend backend(2);
  const Result<TuneReport> first = tune_into(backend, request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(first->reused.empty());
  EXPECT_FALSE(first->failed());
  backend.timed.clear();
  const Result<TuneReport> second = tune_into(backend, request);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->reused.size(), 2U);
  EXPECT_TRUE(backend.timed.empty());
  request.keys.push_back(test_key(128));
  const Result<TuneReport> third = tune_into(backend, request);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->file.entries.size(), 3U);
  request.again = true;
  const Result<TuneReport> fourth = tune_into(backend, request);
  ASSERT_TRUE(fourth.ok());
  EXPECT_TRUE(fourth->reused.empty());
  EXPECT_EQ(fourth->file.entries.size(), 3U);
}

TEST(Tuner, AnotherDriversFileIsMeasuredAnewAndAnotherDevicesIsRefused) {
  const TemporaryFolder folder;
  const TuneRequest request = request_for(folder.path() / "tuning.json");
  InjectedBackend backend(2);
  TuningFile old{.site = test_site(), .compiler = "NVRTC", .version = "0", .command = "nibble"};
  old.site.driver = "CUDA 12.8";
  old.put(untuned_entry(test_key(512), tactic_number(1)));
  ASSERT_TRUE(write_file(request.output, to_json(old).dump()).ok());
  const Result<TuneReport> report = tune_into(backend, request);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->notes.size(), 1U);
  EXPECT_EQ(report->notes[0], request.output.string() +
                                  " is measured anew: it was made with driver CUDA 12.8, and this "
                                  "is CUDA 13.0");
  EXPECT_EQ(report->file.entries.size(), 2U);
  old.site = test_site();
  old.site.units = 114;
  ASSERT_TRUE(write_file(request.output, to_json(old).dump()).ok());
  const Result<TuneReport> refused = tune_into(backend, request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInput);
  EXPECT_NE(refused.error().message.find("is of another device"), std::string::npos);
}

TEST(Tuner, NothingIsLeftBesideTheFile) {
  const TemporaryFolder folder;
  const TuneRequest request = request_for(folder.path() / "tuning.json");
  const std::string lock = request.output.string() + ".lock";
  InjectedBackend backend(2);
  ASSERT_TRUE(tune_into(backend, request).ok());
  EXPECT_TRUE(std::filesystem::exists(request.output));
  EXPECT_FALSE(std::filesystem::exists(lock));
  for (const char* text : {"{\"schema\": \"nibble.tuning/2\"}", "{\"schema\": "}) {
    ASSERT_TRUE(write_file(request.output, text).ok());
    const Result<TuneReport> refused = tune_into(backend, request);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kInput);
    EXPECT_TRUE(refused.error().message.ends_with("; give another --output, or move the file away"))
        << refused.error().message;
    EXPECT_FALSE(std::filesystem::exists(lock));
  }
  std::filesystem::remove(request.output);
  std::filesystem::create_directory(request.output);
  const Result<TuneReport> refused = tune_into(backend, request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            request.output.string() + " is no regular file; give another --output");
  EXPECT_FALSE(std::filesystem::exists(lock));
}

// Whoever waits for a lock that is removed meanwhile must not hold the removed one.
TEST(TuningLock, IsHeldByOneAtATimeThoughEachRemovesIt) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "t.json";
  constexpr int kThreads = 4;
  constexpr int kTurns = 200;
  std::atomic<int> inside = 0;
  std::atomic<int> together = 0;
  std::vector<std::thread> threads;
  for (int at = 0; at < kThreads; ++at) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const Result<TuningLock> lock = TuningLock::take(path, [] {});
        ASSERT_TRUE(lock.ok()) << lock.error().message;
        if (++inside > 1) ++together;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, 0);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".lock"));
}

TEST(TuningLock, AFileOfSomebodysThatHasItsNameStays) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "package.json";
  ASSERT_TRUE(write_file(path.string() + ".lock", "mine").ok());
  {
    ASSERT_TRUE(TuningLock::take(path, [] {}).ok());
  }
  EXPECT_EQ(read_file(path.string() + ".lock", 100).value(), "mine");
}

TEST(Tuner, AKeyWithoutAnyCandidateFailsTheRun) {
  const TemporaryFolder folder;
  InjectedBackend backend(0);
  const TuneRequest request = request_for(folder.path() / "tuning.json");
  const Result<TuneReport> report = tune_into(backend, request);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->failed());
  // A default that nobody named is not written down as one.
  EXPECT_FALSE(std::filesystem::exists(request.output));
  EXPECT_TRUE(report->file.entries.empty());
  ASSERT_EQ(report->without_candidates.size(), 2U);
  ASSERT_EQ(report->notes.size(), 2U);
  EXPECT_EQ(report->notes[0],
            "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 16 tokens is not in the file: no "
            "feasible kernel: of 0 tactics none fits this shape and device");
}

}  // namespace
}  // namespace nibble::tune
