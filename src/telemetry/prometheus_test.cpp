#include "telemetry/prometheus.h"

#include <cmath>
#include <gtest/gtest.h>

#include "base/json.h"

namespace nibble::telemetry {
namespace {

TEST(ParseMetrics, NamesLabelsAndValues) {
  const MetricsPage page = parse_metrics(
      "# HELP vllm:num_requests_running Number of requests.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"org/m\"} 3.0\n"
      "plain 1.5e3\n"
      "  spaced { a = \"1\" , b=\"2\", }   -7   1712345678901  \r\n"
      "\n"
      "# EOF\n"
      "last_without_end +4");
  ASSERT_EQ(page.samples.size(), 4U);
  EXPECT_EQ(page.bad_lines, 0U) << page.first_bad_line;
  EXPECT_EQ(page.types.at("vllm:num_requests_running"), "gauge");
  EXPECT_EQ(page.samples[0].name, "vllm:num_requests_running");
  EXPECT_EQ(page.samples[0].label("model_name"), "org/m");
  EXPECT_EQ(page.samples[0].label("no"), std::nullopt);
  EXPECT_EQ(page.samples[0].value, 3);
  EXPECT_EQ(page.samples[1].value, 1500);
  EXPECT_EQ(page.samples[2].name, "spaced");
  EXPECT_EQ(page.samples[2].label("b"), "2");
  EXPECT_EQ(page.samples[2].value, -7);
  EXPECT_EQ(page.samples[3].value, 4);
}

TEST(ParseMetrics, Escapes) {
  const MetricsPage page = parse_metrics(R"(m{a="q\"q",b="l\\n\n}",c="x\y {,="} 1)");
  ASSERT_EQ(page.samples.size(), 1U) << page.first_bad_line;
  EXPECT_EQ(page.samples[0].label("a"), "q\"q");
  EXPECT_EQ(page.samples[0].label("b"), "l\\n\n}");
  EXPECT_EQ(page.samples[0].label("c"), "x\\y {,=");
}

TEST(ParseMetrics, SpecialNumbers) {
  const MetricsPage page = parse_metrics("a NaN\nb +Inf\nc -Inf\nd Inf\ne nan\n");
  ASSERT_EQ(page.samples.size(), 5U);
  EXPECT_TRUE(std::isnan(page.samples[0].value));
  EXPECT_EQ(page.samples[1].value, INFINITY);
  EXPECT_EQ(page.samples[2].value, -INFINITY);
  EXPECT_EQ(page.samples[3].value, INFINITY);
  EXPECT_TRUE(std::isnan(page.samples[4].value));
}

TEST(ParseMetrics, WhatOpenMetricsAdds) {
  const MetricsPage page = parse_metrics(
      "h_bucket{le=\"1\"} 5 # {trace_id=\"x\"} 0.7 1.5\n"
      "{\"quoted.name\",a=\"1\"} 2\n"
      "t 3 1712345678.123\n");
  ASSERT_EQ(page.samples.size(), 3U) << page.first_bad_line;
  EXPECT_EQ(page.samples[0].value, 5);
  EXPECT_EQ(page.samples[1].name, "quoted.name");
  EXPECT_EQ(page.samples[2].value, 3);
}

// llama.cpp#17384: the whole page came as a quoted JSON string.
TEST(ParseMetrics, APageInQuotes) {
  const std::string text =
      "# TYPE llamacpp:requests_processing gauge\n"
      "llamacpp:requests_processing 2\nm{a=\"b\"} 3\n";
  const MetricsPage page = parse_metrics(Json(text).dump(0) + "\n");
  ASSERT_EQ(page.samples.size(), 2U);
  EXPECT_EQ(page.bad_lines, 0U);
  EXPECT_EQ(page.samples[0].value, 2);
  EXPECT_EQ(page.samples[1].label("a"), "b");
}

TEST(ParseMetrics, OddLinesDoNotHideTheOthers) {
  for (const char* odd : {"m{",
                          "m{a",
                          "m{a=",
                          "m{a=\"",
                          "m{a=\"b",
                          "m{a=\"b\"",
                          "m{a=\"b\" c=\"d\"} 1",
                          "m",
                          "m x",
                          "m 1 x",
                          "{} 1",
                          "{a=\"b\"} 1",
                          "m{\"x\"} 1",
                          "= 1",
                          "m{=\"x\"} 1",
                          "m 1e999",
                          "m +-5",
                          "m +",
                          "m infinity",
                          "m nan(1)",
                          "m 0x10",
                          "\"never closed",
                          "<html>",
                          "m 1..2"}) {
    const MetricsPage page = parse_metrics(std::string("good 1\n") + odd + "\nbetter 2\n");
    EXPECT_EQ(page.samples.size(), 2U) << odd;
    EXPECT_EQ(page.bad_lines, 1U) << odd;
  }
  EXPECT_TRUE(parse_metrics("").samples.empty());
  EXPECT_TRUE(parse_metrics(std::string(5, '\0')).samples.empty());
}

TEST(SignalsPage, IsReadBackByTheParser) {
  SampleStore store;
  const SignalId power =
      store.declare({.name = "gpu0.power", .unit = "W", .source = "NVML \"186\"\\"});
  const SignalId other = store.declare({.name = "gpu1.power", .unit = "W"});
  const SignalId energy =
      store.declare({.name = "gpu0.energy", .unit = "J", .kind = SignalKind::kCounter});
  store.add(power, 1, 445.1);
  store.add(energy, 1, 7);
  store.set_unavailable(other, "Not\nSupported");
  const std::string text = signals_page(store.states());
  const MetricsPage page = parse_metrics(text);
  EXPECT_EQ(page.bad_lines, 0U) << page.first_bad_line;
  EXPECT_EQ(page.types.at("nibble_power_watts"), "gauge");
  EXPECT_EQ(page.types.at("nibble_energy_joules_total"), "counter");
  std::map<std::string, double> seen;
  for (const MetricSample& sample : page.samples) {
    seen[sample.name + "/" + std::string(sample.label("owner").value_or("")) +
         std::string(sample.label("signal").value_or(""))] = sample.value;
    if (sample.name == "nibble_power_watts") {
      EXPECT_EQ(sample.label("source"), "NVML \"186\"\\");
    }
  }
  const std::map<std::string, double> expected = {{"nibble_power_watts/gpu0", 445.1},
                                                  {"nibble_energy_joules_total/gpu0", 7},
                                                  {"nibble_signal_available/gpu0.power", 1},
                                                  {"nibble_signal_available/gpu1.power", 0},
                                                  {"nibble_signal_available/gpu0.energy", 1}};
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace nibble::telemetry
