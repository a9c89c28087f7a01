#include "cli/mock.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::cli {
namespace {

Result<mock::MockScript> script_of(std::vector<std::string> words) {
  const CommandDef command = mock_command();
  NIBBLE_ASSIGN_OR_RETURN(const Arguments arguments, parse_arguments(command, words));
  return script_from_arguments(arguments);
}

TEST(MockCommand, FlagsMakeAScript) {
  const auto script = script_of({"--ttft-ms", "5", "--itl-ms", "gamma:2,1", "--tokens-per-chunk=3",
                                 "--capacity", "4", "--seed", "9", "--metrics-style", "sglang"});
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->ttft_ms, mock::Distribution::constant(5));
  EXPECT_EQ(script->itl_ms.kind, mock::DistributionKind::kGamma);
  EXPECT_EQ(script->tokens_per_chunk, mock::Distribution::constant(3));
  EXPECT_EQ(script->capacity, 4);
  EXPECT_EQ(script->seed, 9U);
  EXPECT_EQ(script->metrics_style, mock::MetricsStyle::kSglang);
}

TEST(MockCommand, FlagsWinOverTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "script.json";
  ASSERT_TRUE(write_file(path, R"({"ttft_ms": 7, "itl_ms": 8, "capacity": 3})").ok());
  const auto script = script_of({"--script", path.string(), "--itl-ms", "1"});
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->ttft_ms, mock::Distribution::constant(7));
  EXPECT_EQ(script->itl_ms, mock::Distribution::constant(1));
  EXPECT_EQ(script->capacity, 3);
}

TEST(MockCommand, FaultsNameTheFlagAndWhatWouldBeRight) {
  const auto times = script_of({"--ttft-ms", "fast"});
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(times.error().message,
            "--ttft-ms is \"fast\"; give a number, uniform:LOW..HIGH, normal:MEAN,STDDEV, "
            "lognormal:MEAN,STDDEV, gamma:MEAN,STDDEV, exponential:MEAN or list:A,B,C");
  const auto range = script_of({"--itl-ms", "-1"});
  ASSERT_FALSE(range.ok());
  EXPECT_EQ(range.error().message, "--itl-ms is -1; it must be from 0 to 3600000");
  EXPECT_FALSE(script_of({"--tokens-per-chunk", "0"}).ok());
  EXPECT_FALSE(script_of({"--model", ""}).ok());
}

TEST(MockCommand, TimesOfRequestsContradictSteps) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "script.json";
  ASSERT_TRUE(write_file(path, R"({"steps": {"weights_ms": 5}})").ok());
  const auto script = script_of({"--script", path.string(), "--capacity", "3"});
  ASSERT_TRUE(script.ok()) << script.error().message;
  EXPECT_EQ(script->steps->weights_ms, 5);
  EXPECT_EQ(script->capacity, 3);
  for (const char* flag : {"--itl-ms", "--ttft-ms", "--tokens-per-chunk"}) {
    const auto refused = script_of({"--script", path.string(), flag, "1"});
    ASSERT_FALSE(refused.ok()) << flag;
    EXPECT_NE(refused.error().message.find(flag), std::string::npos);
  }
}

}  // namespace
}  // namespace nibble::cli
