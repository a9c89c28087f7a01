// Workers that are real processes: right, crashing, hanging, and writing rubbish.
#include "tactics/tune/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/testing.h"
#include "base/text.h"
#include "tactics/tune/test_backend.h"
#include "tactics/tune/tuner.h"
#include "tactics/tune/worker_wire.h"

namespace nibble::tune {
namespace {

// A shell that answers as a worker, but for requests that hold `trigger`, where it does `act`.
WorkerSetup shell_worker(const TemporaryFolder& folder, const std::string& trigger,
                         const std::string& act, double answer_seconds = 60) {
  const std::string answers = R"sh(
read job
echo '{"ready": true}'
while read line; do
  case "$line" in
    *TRIGGER*) ACT ;;
    *'"do":"identity"'*) echo '{"site":{"device":"d","units":2,"driver":"none","kernel_version":"v"},"compiler":"none"}' ;;
    *'"do":"check"'*) echo '{"error":0.001,"limit":0.004,"where":"","digests":["0a","0a"]}' ;;
    *'"threads":1'*) echo '{"us":100.5}' ;;
    *) echo '{"us":90.5}' ;;
  esac
done
)sh";
  std::string script = answers;
  script.replace(script.find("TRIGGER"), 7, "'" + trigger + "'");
  script.replace(script.find("ACT"), 3, act);
  EXPECT_TRUE(write_file(folder.path() / "worker.sh", script).ok());
  return {.words = {"/bin/sh", (folder.path() / "worker.sh").string()},
          .job = Json::object().set("on", "test"),
          .answer_seconds = answer_seconds};
}

std::string failure_of(WorkerBackend& worker, int tactic) {
  const Result<double> us = worker.time_us(test_key(), tactic_number(tactic), 0);
  return us.ok() ? "" : us.error().message;
}

// Tactic 6 ("threads": 7) does something bad; those before and after it are answered.
std::string costs_only_itself(const std::string& act, double answer_seconds = 60) {
  const TemporaryFolder folder;
  WorkerBackend worker(shell_worker(folder, R"("threads":7)", act, answer_seconds));
  EXPECT_EQ(failure_of(worker, 0), "");
  const std::string failure = failure_of(worker, 6);
  const Result<double> after = worker.time_us(test_key(), tactic_number(1), 0);
  EXPECT_EQ(after.ok() ? *after : 0, 90.5);
  return failure;
}

TEST(Worker, ACrashCostsItsTacticAlone) {
  EXPECT_EQ(costs_only_itself("echo 'bad tile' >&2; kill -SEGV $$"),
            "the worker was ended by signal 11 (Segmentation fault): bad tile");
}

TEST(Worker, AnExitIsToldWithItsStatus) {
  EXPECT_EQ(costs_only_itself("exit 3"), "the worker ended with status 3");
}

TEST(Worker, AHangIsEnded) {
  const Nanoseconds begin = monotonic_now();
  EXPECT_EQ(costs_only_itself("exec sleep 600", 3), "the worker gave no answer within 3 s");
  EXPECT_LT(seconds(monotonic_now() - begin), 20);
}

// A check of 200 replays has four times as long: this one answers after twice the time of 50.
TEST(Worker, ACheckOfManyReplaysHasMoreTime) {
  const TemporaryFolder folder;
  const std::string answer =
      R"(sleep 4; echo '{"error":0.001,"limit":0.004,"where":"","digests":["0a"]}')";
  WorkerBackend worker(shell_worker(folder, R"("do":"check")", answer, 2));
  EXPECT_TRUE(worker.check(test_key(), tactic_number(0), 64, 200).ok());
  const Result<CheckRun> hung = worker.check(test_key(), tactic_number(0), 64, 50);
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.error().message, "the worker gave no answer within 2 s");
}

TEST(Worker, RubbishIsNoAnswer) {
  EXPECT_EQ(costs_only_itself("echo 'tile 192: ok'"),
            "the worker's answer is no JSON object: \"tile 192: ok\"");
  EXPECT_EQ(costs_only_itself("echo '[1, 2]'"),
            "the worker's answer is no JSON object: \"[1, 2]\"");
  EXPECT_EQ(costs_only_itself(R"(echo '{"microseconds": 4}')"), "the worker's answer has no time");
}

TEST(Worker, AnswersOfOneRequestDoNotReachTheNext) {
  EXPECT_EQ(costs_only_itself(R"(echo nonsense; echo '{"us":1}'; echo '{"us":1}')"),
            "the worker's answer is no JSON object: \"nonsense\"");
}

TEST(Worker, ALostContextStartsAnother) {
  EXPECT_EQ(costs_only_itself(R"(echo '{"failed":"illegal instruction","lost":true}'; exit 1)"),
            "illegal instruction");
}

TEST(Worker, OneThatCannotStartSaysSo) {
  WorkerBackend worker({.words = {"/nonexistent/nibble"}, .job = Json::object()});
  EXPECT_EQ(failure_of(worker, 0), "the worker ended with status 127");
}

TEST(Worker, ChildrenAreNotStartedForEver) {
  WorkerBackend worker({.words = {"/bin/false"}, .job = Json::object(), .most_starts = 3});
  for (int at = 0; at < 3; ++at) EXPECT_NE(failure_of(worker, 0), "");
  EXPECT_EQ(failure_of(worker, 0),
            "3 workers have ended before their work was done: no more are started");
}

// The whole of it: tactic 2 crashes when it is checked, tactic 3 answers other bits.
TEST(Worker, TheTunerGoesOnAfterACrash) {
  const TemporaryFolder folder;
  WorkerBackend worker(shell_worker(folder, R"("do":"check")", R"sh(case "$line" in
      *'"threads":3'*) kill -ABRT $$ ;;
      *'"threads":4'*) echo '{"error":0.001,"limit":0.004,"where":"","digests":["0a","0b"]}' ;;
      *) echo '{"error":0.001,"limit":0.004,"where":"","digests":["0a","0a"]}' ;;
    esac)sh"));
  class WithCandidates : public InjectedBackend {
   public:
    explicit WithCandidates(WorkerBackend& worker) : InjectedBackend(4), worker_(worker) {}
    Result<CheckRun> check(const TuningKey& key, const AnyTactic& tactic, std::int64_t tokens,
                           int repeats) override {
      return worker_.check(key, tactic, tokens, repeats);
    }
    Result<double> time_us(const TuningKey& key, const AnyTactic& tactic,
                           std::size_t round) override {
      return worker_.time_us(key, tactic, round);
    }

   private:
    WorkerBackend& worker_;
  };
  WithCandidates backend(worker);
  const TuningEntry entry = tune_key(backend, test_key(), {.replays = 2, .seconds = 60}, steady_now,
                                     [](std::string_view) {});
  ASSERT_TRUE(entry.choice) << entry.note;
  EXPECT_EQ(*entry.choice, tactic_number(1));  // 90.5 us against 100.5
  ASSERT_EQ(entry.rejected.size(), 2U);
  EXPECT_EQ(entry.rejected[0].why,
            "at 64 tokens: faulted: the worker was ended by signal 6 (Aborted)");
  EXPECT_EQ(entry.rejected[1].why, "at 64 tokens: replay 2 of 2 gave other bits than the first");
}

// Our own worker's end over real descriptors: what a backend says arrives as it was said.
TEST(Worker, ServesABackend) {
  int to_worker[2] = {-1, -1};
  int from_worker[2] = {-1, -1};
  ASSERT_EQ(::pipe(to_worker), 0);
  ASSERT_EQ(::pipe(from_worker), 0);
  const TuningKey key = test_key();
  const std::string lines =
      Json::object().set("job", 1).dump(0) + "\n" +
      to_json(WireRequest{.what = WireRequest::What::kIdentity}).dump(0) + "\n" +
      to_json(WireRequest{.what = WireRequest::What::kCandidates, .key = key}).dump(0) + "\n" +
      to_json(WireRequest{.what = WireRequest::What::kCheck,
                          .key = key,
                          .tactic = tactic_number(1),
                          .tokens = 64,
                          .repeats = 3})
          .dump(0) +
      "\n" + "no json\n" +
      to_json(WireRequest{.what = WireRequest::What::kTime, .key = key, .tactic = tactic_number(2)})
          .dump(0) +
      "\n";
  ASSERT_EQ(::write(to_worker[1], lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  ::close(to_worker[1]);
  const auto make = [](const Json& job) -> Result<WorkerService> {
    EXPECT_EQ(job.find("job")->as_integer(), 1);
    auto backend = std::make_unique<InjectedBackend>(3);
    backend->found.infeasible = {{tactic_number(9), "too large"}};
    backend->time = [](int tactic, std::size_t) { return tactic == 2 ? -1.0 : 5.0; };
    return WorkerService{.backend = std::move(backend), .lost = [] { return true; }};
  };
  // A line that is no request fails, and this backend is lost after any failure: it ends with 1.
  EXPECT_EQ(serve_worker(make, to_worker[0], from_worker[1]), 1);
  ::close(from_worker[1]);
  std::string said(65536, '\0');
  said.resize(static_cast<std::size_t>(::read(from_worker[0], said.data(), said.size())));
  const std::vector<std::string> answers = split(said, '\n');
  ASSERT_EQ(answers.size(), 6U);  // the last is empty: what is no request ended it
  EXPECT_EQ(answers[0], R"({"ready":true})");
  const auto answer = [&](std::size_t at) { return *Json::parse(answers[at], "test"); };
  EXPECT_EQ(parse_identity(answer(1))->site, test_site());
  const Result<Candidates> found = parse_candidates(answer(2), key.shape.op);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->feasible.size(), 3U);
  EXPECT_EQ(found->infeasible[0].why, "too large");
  const Result<CheckRun> run = parse_check(answer(3));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->digests, (std::vector<std::uint64_t>{77, 77, 77}));
  EXPECT_NE(answer(4).find("lost"), nullptr);
}

}  // namespace
}  // namespace nibble::tune
