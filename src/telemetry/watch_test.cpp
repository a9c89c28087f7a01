#include "telemetry/watch.h"

#include <gtest/gtest.h>
#include <thread>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/testing.h"
#include "base/text.h"
#include "telemetry/stream.h"

namespace nibble::telemetry {
namespace {

TEST(GpuActivity, TellsWorkFromWaiting) {
  // What an H200 showed (docs/measured.md): a read stream, a matrix product, and a loop of
  // one 32-thread block.
  EXPECT_EQ(gpu_activity({.utilization = 100,
                          .sm = 100,
                          .tensor = 0,
                          .dram = 96,
                          .power = 445,
                          .power_limit = 700})
                .text,
            "memory works");
  EXPECT_EQ(gpu_activity({.utilization = 100,
                          .sm = 99,
                          .tensor = 92,
                          .dram = 20,
                          .power = 690,
                          .power_limit = 700,
                          .throttle_mask = 4})
                .text,
            "tensor cores work; slowed by power cap");
  const Activity spinning = gpu_activity(
      {.utilization = 97, .sm = 1, .tensor = 0, .dram = 0, .power = 125, .power_limit = 700});
  EXPECT_EQ(spinning.text, "a kernel is resident but spins or waits");
  EXPECT_EQ(spinning.emphasis, Emphasis::kWarning);
  EXPECT_EQ(gpu_activity({.utilization = 0, .tensor = 0, .dram = 0, .power = 80}).text, "idle");
  EXPECT_EQ(gpu_activity({.utilization = 60, .tensor = 10, .dram = 30}).text, "partly busy");
}

TEST(GpuActivity, WithoutCountersUtilizationIsNotCalledWork) {
  EXPECT_EQ(gpu_activity({.utilization = 100}).text,
            "a kernel is resident (no counters to say what it does)");
  EXPECT_EQ(gpu_activity({.utilization = 1}).text, "idle");
  EXPECT_EQ(gpu_activity({}).text, "not known");
}

TEST(ServerActivity, SaysWhatWaits) {
  EXPECT_EQ(server_activity({.running = 8, .waiting = 0}).text, "works");
  EXPECT_EQ(server_activity({.running = 0, .waiting = 0}).text, "idle");
  EXPECT_EQ(server_activity({.running = 32, .waiting = 3, .kv_usage = 0.5}).text,
            "requests wait for a place");
  EXPECT_EQ(server_activity({.running = 32, .waiting = 3, .kv_usage = 0.97}).text,
            "requests wait for KV cache");
  EXPECT_EQ(server_activity({.running = 0, .waiting = 3}).text, "requests wait, none runs");
  EXPECT_EQ(server_activity({}).text, "not known");
}

TEST(WatchTable, ShowsDevicesRatesAndWhatIsMissing) {
  SampleStore store;
  constexpr Nanoseconds kOneSecond = 1'000'000'000;
  const Nanoseconds now = 100 * kOneSecond;
  const auto put = [&](const char* name, double value, Nanoseconds at) {
    store.add(store.declare({.name = name}), at, value);
  };
  put("gpu0.power", 445, now);
  put("gpu0.tensor_active", 0.2, now);
  put("gpu0.dram_active", 96, now);
  put("gpu1.power", 80, now - 6 * kOneSecond);  // too old
  put("node7:9753/gpu0.power", 300, now);
  put("cpu.utilization", 37, now);
  put("server.running", 4, now);
  put("server.waiting", 0, now);
  const SignalId tokens =
      store.declare({.name = "server.generation_tokens", .kind = SignalKind::kCounter});
  store.add(tokens, now - 2 * kOneSecond, 1000);
  store.add(tokens, now, 1500);
  for (int at = 0; at < 5; ++at) {
    store.set_unavailable(store.declare({.name = fmt::format("x{}.y", at)}), "no such call");
  }
  const std::string text = watch_table(store, now, Style::plain());
  const std::vector<std::string> lines = split(text, '\n');
  EXPECT_NE(text.find("memory works"), std::string::npos) << text;
  EXPECT_NE(text.find("node7:9753/gpu0"), std::string::npos);
  EXPECT_EQ(text.find("gpu1"), std::string::npos);
  EXPECT_NE(text.find("cpu: 37 % of all cores"), std::string::npos);
  EXPECT_NE(text.find("  250  "), std::string::npos) << text;  // 500 tokens in 2 s
  EXPECT_NE(text.find("x0.y, x1.y, x2.y and 2 more: no such call"), std::string::npos) << text;
}

// 30 of 40 tokens while prompts come; of all since the start, 791 of 1000, while none do.
TEST(WatchTable, ShowsHowManyTokensThePrefixCacheHas) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  SampleStore store;
  const auto counter = [&](const char* name, double before, double now) {
    const SignalId signal = store.declare({.name = name, .kind = SignalKind::kCounter});
    store.add(signal, 10 * kSecond, before);
    store.add(signal, 11 * kSecond, now);
  };
  counter("server.prefix_hits", 761, 791);
  counter("server.prefix_queries", 960, 1000);
  const auto rate = store.declare({.name = "server.prefix_hit_rate"});
  store.add(rate, 11 * kSecond, 0.791);
  const std::string busy = watch_table(store, 11 * kSecond, Style::plain());
  EXPECT_NE(busy.find(" 75 %"), std::string::npos) << busy;
  SampleStore idle;
  idle.add(idle.declare({.name = "server.prefix_hit_rate"}), 11 * kSecond, 0.791);
  const std::string text = watch_table(idle, 11 * kSecond, Style::plain());
  EXPECT_NE(text.find(" 79 %"), std::string::npos) << text;
}

TEST(WatchTable, NoLineIsWiderThanTheTerminal) {
  SampleStore store;
  const auto put = [&](const char* name, double value) {
    store.add(store.declare({.name = name}), 1000, value);
  };
  put("cpu.utilization", 100);
  put("cpu.busiest_core", 100);
  put("cpu.frequency", 2445);
  put("cpu.context_switches", 27000);
  const std::string text = watch_table(store, 1000, {.width = 80});
  EXPECT_NE(text.find("context switches/s"), std::string::npos);
  for (const std::string& line : split(text, '\n')) EXPECT_LE(display_width(line), 80U) << line;
}

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() : control_(DynamicLibrary::open({NIBBLE_FAKE_NVML})) {
    control_.symbol<void()>("fake_nvml_reset")();
    options_.telemetry.nvml_library = NIBBLE_FAKE_NVML;
    options_.margin_s = 0.1;
  }
  DynamicLibrary control_;
  WatchOptions options_;
  std::atomic<bool> interrupted_ = false;
};

TEST_F(WatchTest, WritesLinesShowsTablesAndEndsWithADocument) {
  const TemporaryFolder folder;
  options_.jsonl = folder.path() / "watch.jsonl";
  options_.duration_s = 0.3;
  options_.interval_s = 0.1;
  options_.listen = net::ServerOptions{};
  int port = 0;
  int tables = 0;
  const Result<WatchOutcome> outcome = watch(options_, interrupted_,
                                             {.show =
                                                  [&](const std::string& table) {
                                                    tables += table.empty() ? 0 : 1;
                                                    return true;
                                                  },
                                              .listening = [&](int given) { port = given; }});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_GT(port, 0);
  EXPECT_GE(tables, 1);
  EXPECT_EQ(outcome->document.find("schema")->as_string(), "nibble.watch/1");
  EXPECT_NE(outcome->health.find("power of gpu0"), std::string::npos);
  const Result<std::string> text = read_file(options_.jsonl, 1 << 24);
  ASSERT_TRUE(text.ok());
  bool saw_power = false;
  for (const std::string& line : split(std::string(trim(*text)), '\n')) {
    const Result<StreamLine> parsed = parse_stream_line(line);
    ASSERT_TRUE(parsed.ok()) << line;
    const StreamValues* values = std::get_if<StreamValues>(&*parsed);
    if (values == nullptr) continue;
    for (const auto& [name, value] : values->values) {
      saw_power = saw_power || (name == "gpu0.power" && value == 445);
    }
  }
  EXPECT_TRUE(saw_power);
}

TEST_F(WatchTest, EndsWhenInterrupted) {
  std::thread finger([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    interrupted_ = true;
  });
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {});
  finger.join();
  ASSERT_TRUE(outcome.ok());
  EXPECT_LT(outcome->window.length_s(), 20);  // it was not told to end before
}

TEST_F(WatchTest, InterruptedBeforeItsBeginItHasAnEmptyWindow) {
  interrupted_ = true;
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->window.length_s(), 0);
}

TEST_F(WatchTest, EndsWhenNobodyReadsItsTables) {
  options_.interval_s = 0.1;
  int tables = 0;
  const auto closed = [&](const std::string&) {
    ++tables;
    return false;
  };
  ASSERT_TRUE(watch(options_, interrupted_, {.show = closed}).ok());  // without a duration
  EXPECT_EQ(tables, 1);
  // Its file is a reason to go on.
  options_.jsonl = "/dev/null";
  options_.duration_s = 0.3;
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {.show = closed});
  ASSERT_TRUE(outcome.ok());
  EXPECT_GE(outcome->window.length_s(), 0.3);
  EXPECT_EQ(tables, 2);
}

// What the store has forgotten is not told as if it were part of the means.
TEST_F(WatchTest, ALongWatchIsOfWhatTheStoreKeeps) {
  options_.telemetry.retention = 300'000'000;
  options_.duration_s = 0.6;
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->window.end - outcome->window.begin, 295'000'000);  // 59 parts of 60
  EXPECT_DOUBLE_EQ(outcome->document.find("duration_s")->as_number(), 0.295);
}

TEST_F(WatchTest, AFullDiskIsASentence) {
  options_.jsonl = "/dev/full";
  options_.duration_s = 5;
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().message,
            "/dev/full: No space left on device; what came before is kept");
}

TEST_F(WatchTest, AFileThatCannotBeOpenedIsAnInputError) {
  options_.jsonl = "/no/such/folder/file";
  const Result<WatchOutcome> outcome = watch(options_, interrupted_, {});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kInput);
}

TEST(OpenTelemetry, WrongAddressesAreRefusedAndAbsentThingsAreNot) {
  EXPECT_FALSE(open_telemetry({.servers = {"ftp://x"}}).ok());
  EXPECT_FALSE(open_telemetry({.remotes = {"a b"}}).ok());
  EXPECT_EQ(open_telemetry({.servers = {"http://h:8000/metrics"}}).error().message,
            "http://h:8000/metrics is a metrics page; give the server's address alone");
  for (const std::vector<std::string>& twice :
       {std::vector<std::string>{"h:80", "http://h"}, {"h:9753", "g:9753", "h:9753"}}) {
    EXPECT_FALSE(open_telemetry({.servers = twice}).ok());
    EXPECT_FALSE(open_telemetry({.remotes = twice}).ok());
  }
  EXPECT_TRUE(open_telemetry({.servers = {"127.0.0.1:8000"}}).ok());  // http:// goes without saying
  const Result<Telemetry> none = open_telemetry({.nvml_library = "libno-such-thing.so.9"});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->store->state(*none->store->find("gpu.power")).signal.available);
}

}  // namespace
}  // namespace nibble::telemetry
