#include "explain/case.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "explain/case_edit.h"

namespace nibble {
namespace {

// The sentence with which the GLM-5 case is refused after one member is replaced.
std::string refusal(std::string_view path, Json value) {
  Json json = case_document(kGlm);
  at(json, path) = std::move(value);
  const Result<Case> parsed = parse_case(json, "given.json");
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.error().kind, ErrorKind::kInput);
  return parsed.error().message;
}

void expect_refused(std::string_view path, Json value, std::vector<std::string_view> parts) {
  const std::string message = refusal(path, std::move(value));
  EXPECT_NE(message, "accepted") << path;
  EXPECT_TRUE(message.starts_with("given.json")) << message;
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << path << ": " << message;
  }
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

Json numbers(std::initializer_list<double> values) {
  Json json = Json::array();
  for (const double value : values) json.push(value);
  return json;
}

TEST(CaseTest, ReadsTheBuiltInCase) {
  const Result<Case> loaded = load_case(kGlm);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Case& found = *loaded;
  EXPECT_EQ(found.name, kGlm);
  EXPECT_EQ(found.model_name, "GLM-5-NVFP4");
  EXPECT_EQ(found.experts, 256);
  EXPECT_EQ(found.experts_per_token, 8);
  EXPECT_EQ(found.hidden, 6144);
  EXPECT_EQ(found.moe_intermediate, 2048);
  EXPECT_EQ(found.layers, 78);
  EXPECT_EQ(found.gpus, 8);
  EXPECT_EQ(found.fp4_tflops_quoted, (std::vector<double>{3700, 4000}));
  EXPECT_EQ(found.fp4_tflops_quoted_is, "sparse (assumed)");
  EXPECT_EQ(found.fp4_tflops_dense_assumed, 1850);
  EXPECT_EQ(found.bandwidth_gb_s, 1597);
  EXPECT_EQ(found.power_limit_w, 600);
  EXPECT_EQ(found.layout, (ParallelLayout{.tp = 8}));
  EXPECT_TRUE(found.layout_stated);
  EXPECT_EQ(found.max_running_requests, 1024);
  ASSERT_EQ(found.kernels.size(), 5U);
  EXPECT_EQ(found.kernels[0].shape, "large");
  EXPECT_FALSE(found.kernels[0].m);
  EXPECT_EQ(found.kernels[1].m, 16);
  EXPECT_EQ(found.kernels[1].tflops, 0.8);
  EXPECT_TRUE(found.kernels[1].approximate);
  EXPECT_EQ(found.kernels[1].activations, Format::kNvfp4);
  EXPECT_FALSE(found.kernels[1].cold.has_value());
  EXPECT_EQ(found.kernels[4].format, Format::kBf16);
  EXPECT_EQ(found.tactics_failed, (std::vector<std::string>{"128x256", "256x128"}));
  ASSERT_EQ(found.levels.size(), 4U);
  EXPECT_EQ(found.levels[2].path, "load.levels[2]");
  EXPECT_EQ(found.levels[2].output_tok_s, 1601);
  EXPECT_EQ(found.levels[2].itl_ms->p99, 3096);
  EXPECT_EQ(found.levels[2].gpus->power_w.size(), 8U);
  ASSERT_EQ(found.after_tuning.size(), 1U);
  EXPECT_EQ(found.after_tuning[0].output_tok_s, 2095);
  ASSERT_EQ(found.layouts_compared.size(), 2U);
  EXPECT_EQ(found.layouts_compared[1].layout, (ParallelLayout{.tp = 4, .pp = 2}));
  ASSERT_EQ(found.claims.size(), 1U);
  EXPECT_EQ(found.claims[0].value, 405e9);
  EXPECT_EQ(found.claims[0].source, "one account");
  EXPECT_EQ(found.notes.size(), 2U);
}

TEST(CaseTest, ReadsACaseWithoutClaims) {
  Json json = case_document(kGlm);
  erase(json, "claims");
  const Result<Case> parsed = parse_case(json, "given.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_TRUE(parsed->claims.empty());
}

TEST(CaseTest, ReadsTheSmallestCase) {
  const Result<Json> json = Json::parse(
      R"({"schema": "nibble.case/1", "name": "small", "model": {"name": "m"}, "machine": {"gpu": "g", "gpus": 4}})",
      "small.json");
  ASSERT_TRUE(json.ok());
  const Result<Case> parsed = parse_case(*json, "small.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_FALSE(parsed->layout_stated);
  EXPECT_EQ(parsed->layout.tp, 4);  // over all GPUs when nothing is said
  EXPECT_TRUE(parsed->levels.empty());
}

TEST(CaseTest, SortsLevelsAndKeepsTheirPaths) {
  Json json = case_document(kGlm);
  at(json, "load.levels[0].concurrency") = Json(4096);
  const Result<Case> parsed = parse_case(json, "given.json");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->levels[3].concurrency, 4096);
  EXPECT_EQ(parsed->levels[3].path, "load.levels[0]");
}

TEST(CaseTest, RefusesUnknownFieldsWithTheNearestName) {
  expect_refused("machine.bandwith_gb_s", 1597, {"machine", "bandwith_gb_s", "bandwidth_gb_s"});
  expect_refused("model.hiden", 6144, {"model", "hiden", "hidden"});
  expect_refused("kernels[1].tflop", 1, {"kernels[1]", "tflop", "tflops"});
  expect_refused("load.levels[2].itl_ms.p59", 1, {"load.levels[2].itl_ms", "p59"});
  expect_refused("load.levels[2].gpus.power", 1, {"load.levels[2].gpus", "power"});
  expect_refused("load.input_length", 1, {"load", "input_length"});
  expect_refused("layouts_compared[0].tps", 1, {"layouts_compared[0]", "tps"});
  expect_refused("server.max_runing_requests", 1, {"server", "max_running_requests"});
  expect_refused("server.layout.tpp", 1, {"server.layout", "tpp"});
  expect_refused("claims[0].sorce", "x", {"claims[0]", "sorce", "source"});
  expect_refused("kernel", 1, {"kernel", "kernels"});
}

TEST(CaseTest, RefusesPercentsOutsideTheirRange) {
  expect_refused("load.levels[2].gpus.utilization_pct[3]", 100.5,
                 {"utilization_pct", "100.5", "100"});
  expect_refused("load.levels[2].gpus.utilization_pct[0]", -1, {"utilization_pct", "-1"});
}

TEST(CaseTest, RefusesZeroAndNegativeQuantities) {
  for (const char* path : {"load.levels[0].concurrency",
                           "load.levels[0].output_tok_s",
                           "load.levels[0].total_tok_s",
                           "load.levels[2].itl_ms.p50",
                           "load.input_len",
                           "load.output_len",
                           "machine.bandwidth_gb_s",
                           "machine.sms",
                           "machine.power_limit_w",
                           "machine.memory_gb",
                           "machine.link_gb_s",
                           "machine.fp4_tflops_dense_assumed",
                           "machine.gpus",
                           "kernels[1].m",
                           "kernels[1].tflops",
                           "model.experts",
                           "model.experts_per_token",
                           "model.hidden",
                           "model.moe_intermediate",
                           "model.layers",
                           "server.max_running_requests",
                           "server.layout.tp",
                           "load.request_rate",
                           "layouts_compared[0].concurrency",
                           "layouts_compared[0].total_tok_s"}) {
    const std::string_view text = path;
    const std::string_view key = text.substr(text.rfind('.') + 1);
    expect_refused(path, 0, {key});
    expect_refused(path, -5, {key, "-5"});
  }
  expect_refused("machine.fp4_tflops_quoted", numbers({0, 4000}), {"fp4_tflops_quoted"});
  expect_refused("load.levels[2].gpus.power_w[1]", -3, {"power_w", "-3"});
  expect_refused("load.levels[0].queue_length", -1, {"queue_length"});
}

// No machine and no load is like this, and their quotients would not be finite.
TEST(CaseTest, RefusesNumbersThatNoMachineHas) {
  const std::pair<const char*, double> impossible[] = {{"machine.fp4_tflops_dense_assumed", 1e-308},
                                                       {"machine.bandwidth_gb_s", 1e-300},
                                                       {"machine.bandwidth_gb_s", 1e7},
                                                       {"machine.memory_gb", 1e9},
                                                       {"machine.link_gb_s", 1e-9},
                                                       {"machine.link_latency_us", 1e8},
                                                       {"machine.sms", 0.5},
                                                       {"machine.sms", 2e5},
                                                       {"machine.power_limit_w", 0.1},
                                                       {"machine.power_limit_w", 1e6},
                                                       {"kernels[1].tflops", 1e-9},
                                                       {"kernels[1].tflops", 1e9},
                                                       {"kernels[1].m", 0.5},
                                                       {"load.input_len", 0.25},
                                                       {"load.levels[0].concurrency", 1e8},
                                                       {"load.levels[0].output_tok_s", 1e12},
                                                       {"load.levels[2].itl_ms.max", 1e12},
                                                       {"load.request_rate", 1e12},
                                                       {"layouts_compared[0].total_tok_s", 1e-20}};
  for (const auto& [path, value] : impossible) {
    const std::string_view text = path;
    expect_refused(path, value, {text.substr(text.rfind('.') + 1)});
  }
  expect_refused("machine.fp4_tflops_quoted", numbers({1e-308, 4000}), {"fp4_tflops_quoted"});
  expect_refused("machine.fp4_tflops_quoted", numbers({3700, 1e300}), {"fp4_tflops_quoted"});
  expect_refused("load.levels[2].gpus.power_w[1]", 1e6, {"power_w"});
  expect_refused("load.levels[2].gpus.sm_mhz[1]", 1e9, {"sm_mhz"});
  // The ends of a range are in it.
  EXPECT_EQ(refusal("machine.sms", 1), "accepted");
  EXPECT_EQ(refusal("machine.power_limit_w", 1e5), "accepted");
  EXPECT_EQ(refusal("load.levels[3].concurrency", 1e6), "accepted");
}

TEST(CaseTest, RefusesADensePeakAboveTheQuotedOne) {
  expect_refused("machine.fp4_tflops_dense_assumed", 9999,
                 {"fp4_tflops_dense_assumed", "9999", "fp4_tflops_quoted", "4000"});
  EXPECT_EQ(refusal("machine.fp4_tflops_dense_assumed", 4000), "accepted");
}

TEST(CaseTest, RefusesContradictions) {
  expect_refused("load.levels[1].concurrency", 256, {"load.levels[1]", "concurrency", "256"});
  expect_refused("load.levels[2].itl_ms.p50", 400,
                 {"load.levels[2].itl_ms", "p95", "314", "p50", "400"});
  expect_refused("load.levels[2].itl_ms.max", 3000, {"max", "p99"});
  expect_refused("load.levels[2].itl_ms.mean", 20000, {"mean", "max"});
  expect_refused("load.levels[0].total_tok_s", 700,
                 {"load.levels[0]", "output_tok_s", "704", "700"});
  expect_refused("layouts_compared[0].output_tok_s", 2801, {"layouts_compared[0]", "output_tok_s"});
  expect_refused("machine.gpus", 4, {"server.layout", "8 GPUs", "machine.gpus is 4"});
  expect_refused("server.layout.pp", 2, {"server.layout", "16 GPUs"});
  expect_refused("model.experts_per_token", 300, {"model", "experts_per_token", "256 experts"});
  expect_refused("machine.fp4_tflops_quoted", numbers({4000, 3700}),
                 {"fp4_tflops_quoted", "range"});
  expect_refused("load.levels[2].gpus.power_w", numbers({230, 230}),
                 {"power_w", "2 numbers for 8 GPUs"});
  expect_refused("load.levels[2].gpus.sm_mhz", numbers({2400}), {"sm_mhz", "1 numbers for 8 GPUs"});
}

TEST(CaseTest, RefusesWrongKindsAndWords) {
  expect_refused("kernels[1].format", "fp3", {"kernels[1]", "format", "fp3"});
  expect_refused("kernels[1].format", nullptr, {"kernels[1]", "format", "missing"});
  expect_refused("kernels[1].op", "conv", {"kernels[1]", "op", "conv"});
  expect_refused("kernels[1].k", nullptr, {"kernels[1]", "\"k\"", "together"});
  expect_refused("kernels[1].time_us", 3, {"kernels[1]", "time_us", "not both"});
  expect_refused("kernels[1].tflops", nullptr, {"kernels[1]", "tflops"});
  expect_refused("kernels[1].cold", "yes", {"kernels[1]", "cold"});
  expect_refused("kernels[1]", 7, {"kernels[1]", "object"});
  expect_refused("load.levels", Json::object(), {"load", "levels", "list"});
  expect_refused("load.request_rate", "fast", {"load", "request_rate", "inf"});
  expect_refused("machine.fp4_tflops_quoted_is", "fast",
                 {"fp4_tflops_quoted_is", "sparse", "dense"});
  expect_refused("tactics_failed[0]", "128by256", {"tactics_failed[0]", "128by256"});
  expect_refused("tactics_failed[0]", 128, {"tactics_failed[0]", "number"});
  expect_refused("notes[0]", 1, {"notes[0]", "string"});
  expect_refused("model.hidden", 6144.5, {"model", "hidden", "whole"});
  expect_refused("model", Json(), {"model", "missing"});
  expect_refused("machine", Json::array(), {"machine", "object"});
  expect_refused("model.name", Json(), {"model", "name", "missing"});
  expect_refused("claims[0].value", Json(), {"claims[0]", "value", "missing"});
}

TEST(CaseTest, RefusesAnotherSchema) {
  expect_refused("schema", "nibble.case/2", {"schema", "nibble.case/2", "nibble.case/1"});
  expect_refused("schema", Json(), {"schema", "missing"});
}

TEST(CaseTest, RefusesDocumentsThatAreNoObject) {
  EXPECT_FALSE(parse_case(Json::array(), "given.json").ok());
  EXPECT_FALSE(parse_case(Json(), "given.json").ok());
}

TEST(CaseTest, RefusesTruncatedJsonNamingTheFile) {
  const std::string whole = case_document(kGlm).dump();
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "truncated_case.json";
  ASSERT_TRUE(write_file(path, std::string_view(whole).substr(0, whole.size() / 2)).ok());
  const Result<Case> loaded = load_case(path.string());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInput);
  EXPECT_NE(loaded.error().message.find("truncated_case.json"), std::string::npos);
  EXPECT_NE(loaded.error().message.find("not valid JSON"), std::string::npos);
}

TEST(CaseTest, LoadsAFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "a_case.json";
  ASSERT_TRUE(write_file(path, case_document(kGlm).dump()).ok());
  const Result<Case> loaded = load_case(path.string());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->name, kGlm);
}

TEST(CaseTest, OffersTheNearestBuiltInCase) {
  const Result<Case> loaded = load_case("glm5_rtxpro600");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("did you mean glm5_rtxpro6000"), std::string::npos)
      << loaded.error().message;
  EXPECT_FALSE(load_case("no/such/file.json").ok());
}

}  // namespace
}  // namespace nibble
