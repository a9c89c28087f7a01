// The levels of load that flags ask for.
#include <cmath>

#include "base/file.h"
#include "cli/load_flags_fixture.h"

namespace nibble::cli {
namespace {

TEST_F(LoadFlagsTest, AListOfConcurrenciesIsASweepInItsOrder) {
  const auto flags = flags_of({"--max-concurrency", "8,1,4..16,4", "--num-prompts", "100"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  std::vector<std::int64_t> users;
  for (const auto& level : flags->run.levels) {
    users.push_back(level.users.value());
    EXPECT_EQ(level.requests, 100);
    EXPECT_FALSE(level.arrivals.has_value());
  }
  EXPECT_EQ(users, (std::vector<std::int64_t>{8, 1, 4, 8, 16, 4}));
}

TEST_F(LoadFlagsTest, NumbersOfPromptsFollowTheLevels) {
  const auto flags = flags_of({"--max-concurrency", "1,8", "--num-prompts", "10,80"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_EQ(flags->run.levels[0].requests, 10);
  EXPECT_EQ(flags->run.levels[1].requests, 80);
  EXPECT_EQ(fault_of({"--max-concurrency", "1,8", "--num-prompts", "1,2,3"}),
            "--num-prompts lists 3 numbers for 2 levels; give one, or one for each");
  EXPECT_EQ(fault_of({"--num-prompts", "1,2"}),
            "--num-prompts lists 2 numbers for 1 level; give one, or one for each");
}

TEST_F(LoadFlagsTest, WithoutNumbersALevelEndsByItsRate) {
  const auto flags = flags_of({"--max-concurrency", "4", "--longest-level", "20"});
  ASSERT_TRUE(flags.ok());
  const auto& level = flags->run.levels[0];
  EXPECT_EQ(level.requests, 0);
  EXPECT_EQ(level.duration, 0);
  EXPECT_EQ(level.longest, 20'000'000'000);
  EXPECT_TRUE(
      contains(fault_of({"--max-concurrency", "4", "--longest-level", "20", "--duration", "5"}),
               "--longest-level is for levels that end by their token rate"));
}

TEST_F(LoadFlagsTest, TimesAreInSeconds) {
  const auto flags = flags_of({"--max-concurrency", "4", "--num-prompts", "7", "--duration", "2.5",
                               "--ramp", "0.5", "--grace", "0", "--warmup-requests", "3"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  const auto& level = flags->run.levels[0];
  EXPECT_EQ(level.requests, 7);
  EXPECT_EQ(level.duration, 2'500'000'000);
  EXPECT_EQ(level.ramp, 500'000'000);
  EXPECT_EQ(level.grace, 0);
  EXPECT_EQ(level.warmups, 3);
  for (const char* text : {"0", "-1", "nan", "inf", "1e99", "x"}) {
    EXPECT_FALSE(flags_of({"--max-concurrency", "4", std::string("--duration=") + text}).ok());
  }
}

TEST_F(LoadFlagsTest, PromptsAloneAreSentAtOnceAsInVllm) {
  const auto flags = flags_of({"--num-prompts", "50"});
  ASSERT_TRUE(flags.ok());
  const auto& level = flags->run.levels.at(0);
  EXPECT_FALSE(level.users.has_value());
  EXPECT_TRUE(std::isinf(level.arrivals.value().request_rate));
  EXPECT_EQ(level.arrivals->requests, 50);
}

TEST_F(LoadFlagsTest, NoLoadIsAFaultThatProposesOne) {
  EXPECT_EQ(fault_of({}),
            "nothing says how much load to make; sweep with --max-concurrency 1,2,4,8,16, or give "
            "--request-rate or --num-prompts");
  EXPECT_TRUE(contains(fault_of({"--duration", "5"}), "nothing says how much load"));
  EXPECT_TRUE(contains(fault_of({"--request-rate", "inf", "--duration", "5"}),
                       "--request-rate inf sends everything at once"));
}

TEST_F(LoadFlagsTest, RatesAreOpenLoops) {
  const auto flags = flags_of({"--request-rate", "2.5,inf,10", "--num-prompts", "30", "--seed", "7",
                               "--burstiness", "0.5"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  ASSERT_EQ(flags->run.levels.size(), 3u);
  EXPECT_EQ(flags->run.levels[0].arrivals->request_rate, 2.5);
  EXPECT_TRUE(std::isinf(flags->run.levels[1].arrivals->request_rate));
  EXPECT_EQ(flags->run.levels[2].arrivals->request_rate, 10);
  EXPECT_EQ(flags->run.levels[2].arrivals->burstiness, 0.5);
  // Levels of one seed would see the same gaps.
  EXPECT_NE(flags->run.levels[0].arrivals->seed, flags->run.levels[2].arrivals->seed);
  for (const char* text : {"0", "-1", "1,,2", "fast", "nan", "1e99", "-inf"}) {
    const std::string fault = fault_of({std::string("--request-rate=") + text});
    EXPECT_TRUE(contains(fault, "--request-rate has \"")) << text << ": " << fault;
  }
}

TEST_F(LoadFlagsTest, ALimitBesideARateIsOne) {
  const auto flags = flags_of({"--request-rate", "1,2", "--max-concurrency", "16"});
  ASSERT_TRUE(flags.ok());
  for (const auto& level : flags->run.levels) {
    EXPECT_EQ(level.users, 16);
    EXPECT_TRUE(level.arrivals.has_value());
  }
  EXPECT_TRUE(contains(fault_of({"--request-rate", "1,2", "--max-concurrency", "1,2"}),
                       "--max-concurrency is a list of 2 beside --request-rate"));
  // vLLM's "inf" behind a limit is a closed loop.
  const auto closed = flags_of({"--request-rate", "inf", "--max-concurrency", "16"});
  ASSERT_TRUE(closed.ok());
  EXPECT_FALSE(closed->run.levels[0].arrivals.has_value());
}

TEST_F(LoadFlagsTest, EvenGapsAndRamps) {
  const auto even = flags_of({"--request-rate", "4", "--constant-rate", "--duration", "5"});
  ASSERT_TRUE(even.ok());
  EXPECT_TRUE(std::isinf(even->run.levels[0].arrivals->burstiness));
  EXPECT_FALSE(flags_of({"--request-rate", "4", "--constant-rate", "--burstiness", "1"}).ok());
  EXPECT_FALSE(flags_with({"--constant-rate"}).ok());
  const Words ramp = {"--ramp-up-strategy", "exponential", "--ramp-up-start-rps", "1",
                      "--ramp-up-end-rps",  "16",          "--num-prompts",       "100"};
  const auto flags = flags_of(ramp);
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  const auto& arrivals = flags->run.levels[0].arrivals.value();
  EXPECT_EQ(arrivals.ramp_up->strategy, load::RampStrategy::kExponential);
  EXPECT_EQ(arrivals.ramp_up->end_rps, 16);
  EXPECT_TRUE(contains(fault_of({"--ramp-up-start-rps", "1"}), "stand together"));
  Words timed(ramp.begin(), ramp.end() - 2);
  timed.insert(timed.end(), {"--duration", "5"});
  EXPECT_TRUE(contains(fault_of(timed), "--ramp-up-strategy needs --num-prompts"));
}

TEST_F(LoadFlagsTest, ATraceSaysWhenAndHowMany) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "trace").string();
  ASSERT_TRUE(write_file(path, "0\n1\n3\n").ok());
  const auto flags = flags_of({"--trace", path, "--trace-speed", "2"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_EQ(flags->run.levels.at(0).trace,
            (std::vector<Nanoseconds>{0, 500'000'000, 1'500'000'000}));
  EXPECT_EQ(flags->run.levels[0].requests, 3);
  EXPECT_EQ(flags_of({"--trace", path, "--num-prompts", "2"})->run.levels[0].trace.size(), 2u);
  const auto longer = flags_of({"--trace", path, "--num-prompts", "50"});
  EXPECT_EQ(longer->run.levels[0].requests, 3);
  EXPECT_TRUE(has_note(*longer, "the trace has 3 arrivals, fewer than the 50"));
  EXPECT_FALSE(has_note(*flags, "the trace has"));
  EXPECT_TRUE(contains(fault_of({"--trace", path, "--request-rate", "1"}), "give one"));
  EXPECT_FALSE(flags_of({"--trace", path + "x"}).ok());
  EXPECT_FALSE(flags_with({"--trace-speed", "2"}).ok());
}

}  // namespace
}  // namespace nibble::cli
