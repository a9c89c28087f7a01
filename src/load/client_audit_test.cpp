#include "load/client_audit.h"

#include <gtest/gtest.h>
#include <limits>

#include "load/joined.h"
#include "load/test_report.h"

namespace nibble::load {
namespace {

ClientAudit audit_of(double lag_p99_ms, double cpu_share) {
  // The second loop is idle: the worse one counts.
  return {.loops = {{.lag_p50_ms = 0.1, .lag_p99_ms = lag_p99_ms, .cpu_share = cpu_share},
                    {.lag_p99_ms = 0.01, .cpu_share = 0.02}}};
}

// 10 % of a gap of 10 ms is 1 ms; 80 % of a core.
TEST(ClientAudit, LimitsAreTenPercentOfAGapAndEightyOfACore) {
  const auto found = [](double lag, double cpu, std::optional<double> itl) -> std::string {
    ClientAudit audit = audit_of(lag, cpu);
    judge(audit, itl);
    EXPECT_EQ(audit.verdict.starts_with("client-limited: "), audit.client_limited())
        << audit.verdict;
    EXPECT_EQ(audit.in_doubt.empty(), !audit.client_limited());
    if (audit.cpu_limited) return audit.late ? "both" : "cpu";
    return audit.late ? "late" : "none";
  };
  EXPECT_EQ(found(1.0, 0.80, 10), "none");
  EXPECT_EQ(found(1.001, 0.1, 10), "late");
  EXPECT_EQ(found(0.1, 0.801, 10), "cpu");
  EXPECT_EQ(found(1.001, 0.801, 10), "both");
  EXPECT_EQ(found(50, 0.1, std::nullopt), "none");  // not streamed: no gap to be late for
  EXPECT_EQ(found(50, 0.1, 0), "none");
  EXPECT_EQ(found(0.1, 0.9, std::nullopt), "cpu");
}

TEST(ClientAudit, SaysWhichNumbersAreInDoubt) {
  ClientAudit late = audit_of(2.5, 0.06);
  judge(late, 10);
  EXPECT_EQ(late.in_doubt,
            "single gaps and percentiles of latencies are uncertain by about 2.500 ms; throughput "
            "counts");
  ClientAudit busy = audit_of(0.1, 0.95);
  judge(busy, 10);
  EXPECT_TRUE(has(busy.in_doubt, "throughput and latencies are the client's")) << busy.in_doubt;
  const Json json = to_json(busy);
  EXPECT_TRUE(json.find("client_limited")->as_bool());
  EXPECT_TRUE(json.find("cpu_limited")->as_bool());
  EXPECT_FALSE(json.find("late")->as_bool());
}

TEST(ClientAudit, TheVerdictHoldsItsNumbers) {
  ClientAudit audit = audit_of(0.25, 0.42);
  audit.cpu_us_per_event = 4.5;
  audit.late_sends = 3;
  audit.calibration = test_calibration();
  judge(audit, 10);
  for (const char* part :
       {"the client kept up", "250.0 us late", "beside 10.00 ms", "42.0 %", "4.500 us of CPU",
        "3 requests", "64 streams", "2.000 h before", "62.50 us", "31.25 us"}) {
    EXPECT_TRUE(has(audit.verdict, part)) << part << " in " << audit.verdict;
  }
  audit.calibration->cached = false;
  judge(audit, 10);
  EXPECT_TRUE(has(audit.verdict, "measured in this run")) << audit.verdict;
}

TEST(ClientAudit, UnknownIsSaid) {
  ClientAudit audit;
  audit.calibration_reason = "switched off";
  judge(audit, 10);
  EXPECT_FALSE(audit.client_limited());
  EXPECT_TRUE(has(audit.verdict, "not known")) << audit.verdict;
  EXPECT_TRUE(has(audit.verdict, "switched off")) << audit.verdict;
  const Json json = to_json(audit);
  EXPECT_TRUE(json.find("loop_lag_p99_ms")->is_null());
  EXPECT_TRUE(json.find("calibration")->is_null());
  EXPECT_EQ(json.find("calibration_reason")->as_string(), "switched off");
}

TEST(ClientAudit, CalibrationsAreReadBack) {
  const Json json = to_json(test_calibration());
  const auto text = Json::parse(json.dump(), "cache");
  ASSERT_TRUE(text.ok());
  const auto back = parse_calibration(*text, "cache.json: entries[0]");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(back->itl_error_ms.p99, 0.25);
  EXPECT_EQ(back->events, 64000);
  EXPECT_TRUE(back->cached);
}

TEST(ClientAudit, BrokenCalibrationsNameTheMember) {
  const auto fault = [](const char* member, Json value) {
    Json json = to_json(test_calibration());
    json.set(member, std::move(value));
    const auto read = parse_calibration(json, "cache.json");
    return read.ok() ? std::string("accepted") : read.error().message;
  };
  const auto named = [&](const char* member, Json value) {
    const std::string message = fault(member, std::move(value));
    return has(message, "cache.json") && has(message, member);
  };
  EXPECT_TRUE(named("concurrency", 0));
  EXPECT_TRUE(named("itl_ms", -1));
  EXPECT_TRUE(named("requests", 1.5));
  EXPECT_TRUE(named("events", nullptr));
  EXPECT_TRUE(named("ttft_error_ms", nullptr));
  EXPECT_TRUE(named("ttft_error_ms", "small"));
  EXPECT_TRUE(has(fault("itl_error_ms", Json::object().set("p50", 1).set("p99", 1)), "max"));
  EXPECT_TRUE(named("cached", 1));
  EXPECT_TRUE(named("unheard_of", 1));
  EXPECT_FALSE(parse_calibration(Json::array(), "cache.json").ok());
  EXPECT_FALSE(parse_calibration(Json(), "cache.json").ok());
}

TEST(Joined, EveryNullHasAReason) {
  Joined joined;
  joined[Seen::kPower].value = 445;
  joined[Seen::kDram].reason = "no GPU";
  joined[Seen::kTensor].value = std::numeric_limits<double>::quiet_NaN();
  const Json json = to_json(joined);
  EXPECT_EQ(json.find("gpu_power_w")->as_number(), 445);
  EXPECT_EQ(json.find("reasons")->find("gpu_power_w"), nullptr);
  EXPECT_EQ(json.find("reasons")->find("gpu_dram_activity")->as_string(), "no GPU");
  EXPECT_EQ(json.find("reasons")->find("host_cpu")->as_string(), "not measured");
  EXPECT_TRUE(json.find("gpu_tensor_activity")->is_null());
  EXPECT_EQ(json.find("reasons")->as_object().size(), kSeen - 1);
}

TEST(Joined, ValuesAsText) {
  EXPECT_EQ(seen_text(Seen::kPower, 445.4), "445");
  EXPECT_EQ(seen_text(Seen::kDram, 0.9649), "96 %");
  EXPECT_EQ(seen_text(Seen::kKvUsage, 0.0034), "0.3 %");
  EXPECT_EQ(seen_text(Seen::kKvUsage, 0.0996), "10 %");
  EXPECT_EQ(seen_text(Seen::kKvUsage, 0), "0 %");
  EXPECT_EQ(seen_text(Seen::kEnergyPerOutput, 0.71254), "0.713");
  EXPECT_EQ(seen_text(Seen::kPower, std::numeric_limits<double>::infinity()), "-");
}

}  // namespace
}  // namespace nibble::load
