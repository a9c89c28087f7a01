#include "bench/cuda_bench.h"

#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>

#include "base/file.h"
#include "bench/cuda_rig.h"
#include "bench/import_csv.h"
#include "cuda/device.h"

namespace nibble {
namespace {

// As much of JSON Schema as nibble.bench.1.json uses of documents of a GPU.
class Schema {
 public:
  Schema() {
    const std::string path = std::string(NIBBLE_SOURCE_DIR) + "/docs/schemas/nibble.bench.1.json";
    root_ = *Json::parse(*read_file(path, 1 << 22), path);
  }

  // What is wrong first; empty: nothing.
  std::string fault(const Json& value) const { return fault(value, root_, "document"); }

 private:
  static bool is_type(const Json& value, std::string_view type) {
    if (type == "null") return value.is_null();
    if (type == "string") return value.is_string();
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_integer();
    if (type == "boolean") return value.is_bool();
    return type == "array" ? value.is_array() : value.is_object();
  }

  std::string type_fault(const Json& value, const Json& types, const std::string& where) const {
    if (types.is_string()) return is_type(value, types.as_string()) ? "" : where + ": type";
    for (const Json& type : types.as_array()) {
      if (is_type(value, type.as_string())) return "";
    }
    return where + ": none of its types";
  }

  std::string object_fault(const Json& value, const Json& schema, const std::string& where) const {
    const Json* required = schema.find("required");
    for (const Json& key : required != nullptr ? required->as_array() : Json::Array()) {
      if (value.find(key.as_string()) == nullptr) return where + ": no " + key.as_string();
    }
    const Json* properties = schema.find("properties");
    for (const auto& [key, member] : value.as_object()) {
      const Json* known = properties != nullptr ? properties->find(key) : nullptr;
      if (known == nullptr && schema.find("additionalProperties") != nullptr) {
        return where + ": unknown " + key;
      }
      if (known == nullptr) continue;
      const std::string inner = fault(member, *known, where + "." + key);
      if (!inner.empty()) return inner;
    }
    return "";
  }

  std::string any_fault(const Json& value, const Json& choices, const std::string& where) const {
    std::string last;
    for (const Json& choice : choices.as_array()) {
      last = fault(value, choice, where);
      if (last.empty()) return "";
    }
    return last;
  }

  std::string fault(const Json& value, const Json& schema, const std::string& where) const {
    if (const Json* reference = schema.find("$ref")) {
      const std::string name = reference->as_string().substr(std::string("#/$defs/").size());
      return fault(value, *root_.find("$defs")->find(name), where);
    }
    std::string found;
    if (const Json* types = schema.find("type")) found = type_fault(value, *types, where);
    if (const Json* list = schema.find("enum"); found.empty() && list != nullptr) {
      const Json::Array& allowed = list->as_array();
      if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
        found = where + ": not in its list: " + value.dump(0);
      }
    }
    if (const Json* any = schema.find("anyOf"); found.empty() && any != nullptr) {
      found = any_fault(value, *any, where);
    }
    if (found.empty() && value.is_object()) found = object_fault(value, schema, where);
    if (const Json* items = schema.find("items"); found.empty() && items && value.is_array()) {
      for (std::size_t at = 0; found.empty() && at < value.as_array().size(); ++at) {
        found = fault(value.as_array()[at], *items, fmt::format("{}[{}]", where, at));
      }
    }
    return found;
  }

  Json root_;
};

Json with_command(Json document) {
  return document.set("version", "0").set("command", "nibble bench");
}

CudaBenchReport report_of_rows() {
  CudaBenchReport report{.ordinal = 1, .compiler = "NVRTC 13.0"};
  report.roofs = {.title = "NVIDIA H200", .arch = "sm_90a", .uuid = "GPU-1", .sms = 132};
  report.roofs.roofs["read_gb_s"] = {.value = 4700, .passes = {4700}, .path = "bulk copies"};
  report.roofs.roofs["bf16_tflops"] = {.value = 774, .passes = {774}, .path = "cuBLASLt"};
  report.roofs.roofs["fp8_tflops"] = {.reason = "cuBLASLt is not there"};
  CudaRow row{.on = "cuda:1", .part = "layer", .routing = "zipf:1", .tactic = "wgmma"};
  row.row.shape = {.op = BenchOp::kMoe, .name = "moe", .experts = 8, .top_k = 2, .n = 64, .k = 64};
  row.row.tokens = 4;
  row.conditions = {.clock_mhz = 1755, .throttled = {"power cap"}, .samples = 3};
  row.predicted_us = 9;
  row.launches = 5;
  const CudaWork work{.weight_bytes = 4.7e6, .flop = 1e9, .distinct = 2, .slots = 8};
  const CudaRoofsNow roofs{.read_gb_s = 4700, .matrix_tflops = 774};
  const std::vector<CudaRun> runs(12, {.us = 10, .work = work, .floor = floor_of(work, roofs)});
  set_runs(row, runs, summarize(std::vector<double>(12, 10), 0.95), roofs);
  report.rows.push_back(row);
  CudaRow failed{.on = "cuda:1", .part = "dense"};
  failed.row.shape = {
      .name = "attn.out", .format = Format::kFp8, .activations = Format::kFp8, .n = 64, .k = 64};
  failed.row.tokens = 1;
  failed.row.error = "no FP8 unit";
  report.baselines.push_back(failed);
  report.state = state_json({}, {});
  return report;
}

TEST(CudaBenchJson, IsValidByItsSchema) {
  const Schema schema;
  const Json document = with_command(to_json(report_of_rows()));
  EXPECT_EQ(schema.fault(document), "");
  // The check itself finds what is wrong.
  Json wrong = document;
  wrong.find("rows")->as_array()[0].set("colour", "red");
  EXPECT_EQ(schema.fault(wrong), "document.rows[0]: unknown colour");
  wrong = document;
  wrong.find("gpu_roofs")->set("sms", "many");
  EXPECT_EQ(schema.fault(wrong), "document.gpu_roofs.sms: type");
}

// Of --check-only: no roofs, and a row that is right has neither time nor error.
TEST(CudaBenchJson, CheckedRowsAreValidToo) {
  CudaBenchReport report = report_of_rows();
  report.roofs.roofs.clear();
  CudaRow row{.on = "cuda:1", .part = "dense", .tactic = "w4a4 weights 64x8x256"};
  row.row.shape = {.activations = Format::kNvfp4, .n = 64, .k = 64};
  row.row.tokens = 4;
  row.row.kernel = "w4a4 nvfp4 x nvfp4, software body";
  report.rows = {row};
  report.baselines.clear();
  const Json document = with_command(to_json(report));
  EXPECT_EQ(Schema().fault(document), "");
  EXPECT_TRUE(document.find("rows")->as_array().front().find("time_us")->is_null());
  EXPECT_FALSE(report.failed());
}

TEST(CudaBenchJson, ImportedRowsAreValidToo) {
  const Result<Imported> imported = parse_flashinfer(
      "routine,median_time,backend,m,n,k,tflops\nmm_bf16,0.1,cublas,8,64,64,3\nmm_mxfp8,,x,8,64,64,"
      "\n",
      "x.csv");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(Schema().fault(with_command(to_json(*imported))), "");
}

// What reads a document of a CPU finds its roofs and rows where they are there.
TEST(CudaBenchJson, HasTheRoofsWhereACpuHasThem) {
  const Json document = to_json(report_of_rows());
  EXPECT_EQ(*document.find("roofs")->find("read_gb_s")->find("value"), Json(4700.0));
  EXPECT_EQ(*document.find("roofs")->find("tflops")->find("bf16")->find("value"), Json(774.0));
  EXPECT_EQ(*document.find("machine")->find("title"), Json("NVIDIA H200"));
}

TEST(CudaBench, BaselinesThatCannotRunAreNoFailure) {
  CudaBenchReport report = report_of_rows();
  EXPECT_FALSE(report.failed());
  report.rows.front().row.error = "wrong";
  EXPECT_TRUE(report.failed());
}

TEST(CudaBench, WordsOfOn) {
  EXPECT_FALSE(parse_on("cpu")->has_value());
  EXPECT_EQ(**parse_on("cuda"), 0);
  EXPECT_EQ(**parse_on("cuda:3"), 3);
  for (const char* word : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:99999999999",
                           "CUDA:0", "cuda:0,1", "cuda:2000"}) {
    EXPECT_FALSE(parse_on(word).ok()) << word;
  }
}

TEST(CudaBench, ShapesThatNoKernelTakesAreRefused) {
  BenchShape shape{.op = BenchOp::kMoe, .experts = 4, .top_k = 2, .n = 64, .k = 64};
  EXPECT_TRUE(check_cuda_shape(shape).ok());
  shape.top_k = 5;
  EXPECT_FALSE(check_cuda_shape(shape).ok());
  shape.top_k = 2;
  shape.activations = Format::kInt8;
  EXPECT_FALSE(check_cuda_shape(shape).ok());
  shape.activations = Format::kFp16;
  shape.n = 63;
  EXPECT_FALSE(check_cuda_shape(shape).ok());
  shape.n = 64;
  shape.format = Format::kBf16;
  EXPECT_FALSE(check_cuda_shape(shape).ok());
  shape.op = BenchOp::kGemm;
  EXPECT_TRUE(check_cuda_shape(shape).ok());
}

// 4 x 60 MB of cache / 21 MB a run, and one more; at most 256, and half of the memory.
TEST(CudaBench, CopiesExceedTheCache) {
  EXPECT_EQ(copies_for(21e6, 340e6, 60e6, 100e9, true), 13);
  EXPECT_EQ(copies_for(21e6, 340e6, 60e6, 100e9, false), 1);
  EXPECT_EQ(copies_for(5e9, 5e9, 60e6, 100e9, true), 2);
  EXPECT_EQ(copies_for(21e6, 340e6, 60e6, 1e9, true), 1);
  EXPECT_EQ(copies_for(1e3, 1e3, 60e6, 100e9, true), 256);
  EXPECT_EQ(copies_for(21e6, 340e6, 60e6, -5, true), 1);
}

void expect_measured(const CudaBenchReport& report) {
  for (const CudaRow& row : report.rows) {
    EXPECT_EQ(row.row.error, "") << row.row.shape.name << " " << row.row.tokens;
    EXPECT_TRUE(row.row.timed());
    EXPECT_GT(row.row.floor_us, 0);
  }
  for (const CudaRow& row : report.baselines) {
    if (!row.row.error.empty()) {
      std::printf("%s: %s\n", row.row.kernel.c_str(), row.row.error.c_str());
    }
  }
  EXPECT_EQ(Schema().fault(with_command(to_json(report))), "");
}

// A small layer, its parts and a product, with every routing, cold and hot.
TEST(CudaBenchOnGpu, SmallShapesAreCheckedAndTimed) {
  const Result<cuda::Device> gpu = cuda::Device::open(0);
  if (!gpu.ok()) GTEST_SKIP() << gpu.error().message;
  CudaBenchRequest request{.row_seconds = 0.05, .roof_seconds = 0.02};
  request.shapes = {
      {.op = BenchOp::kMoe,
       .name = "moe",
       .experts = 16,
       .top_k = 4,
       .n = 256,
       .k = 512,
       .tokens = {1, 8, 64}},
      {.name = "moe.gate_up", .experts = 16, .top_k = 4, .n = 512, .k = 512, .tokens = {8}},
      {.name = "moe.down", .experts = 16, .top_k = 4, .n = 512, .k = 256, .tokens = {8}},
      {.name = "gemm", .n = 1024, .k = 1024, .tokens = {1, 33}},
      {.name = "wide", .format = Format::kBf16, .n = 1024, .k = 1024, .tokens = {16}}};
  for (const char* routing : {"balanced", "random", "zipf:1"}) {
    request.routing = *parse_route_draw(routing);
    request.cold = std::string_view(routing) != "random";
    const Result<CudaBenchReport> report = run_cuda_bench(request, [](auto, double) {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->rows.size(), 2 * 3 + 1 + 1 + 2 + 1U);
    expect_measured(*report);
  }
}

}  // namespace
}  // namespace nibble
