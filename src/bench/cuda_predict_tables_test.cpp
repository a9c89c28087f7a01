// The prediction against every layer of docs/measured/h200_*.json, whose times it was fitted to but
// for those of h200_predicted.json. Prints how far off it is:
//
//   nibble_bench_test --gtest_filter='CudaPredictTables.*'
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "bench/cuda_predict.h"
#include "bench/cuda_tactics.h"
#include "bench/route_draw.h"
#include "machine/gpu_roofs.h"
#include "tactics/product.h"

namespace nibble {
namespace {

constexpr double kWithin = 0.15;
constexpr std::string_view kDrawnTable = "h200_predicted";

// "mma 512x8x128 5 stages 4 groups 2 an SM cluster 2 4 fragments split", as to_string() wrote it.
W4A16Tactic tactic_of(const std::string& text) {
  std::istringstream words(text);
  std::string family, tile, word;
  words >> family >> tile;
  const TacticTile sizes = parse_tactic_tile(tile).value();
  W4A16Tactic tactic{.family = family == "wgmma" ? Family::kWgmma : Family::kMma,
                     .rows = sizes.m,
                     .tokens = sizes.n,
                     .stage_chunks = sizes.k / kChunk,
                     .split = false};
  int number = 0;
  while (words >> word) {
    if (word == "split") tactic.split = true;
    if (word == "cluster") words >> tactic.cluster;
    if (word == "stages") tactic.stages = number;
    if (word == "groups") tactic.groups = number;
    if (word == "an") tactic.blocks_per_sm = number;
    if (word == "fragments") tactic.fragments = number;
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) number = std::stoi(word);
  }
  EXPECT_EQ(to_string(tactic), text);
  return tactic;
}

// "one launch 8 tokens 4+3 slabs 5 slots 1 teams", as to_string() wrote it; nullopt: another one.
std::optional<CudaOneLaunch> one_launch_of(const std::string& text) {
  CudaOneLaunch launch;
  char plus = 0;
  std::istringstream words(text);
  std::string one, word;
  int tokens = 0;
  words >> one >> word >> tokens >> word >> launch.slabs >> plus >> launch.down_slabs;
  if (one != "one" || !words || plus != '+') return std::nullopt;
  return launch;
}

struct Row {
  BenchShape shape;
  std::int64_t tokens = 0;
  std::string part;  // "layer", "products"
  RouteDraw routing;
  std::string gate_up, down;                // tactics
  std::optional<CudaOneLaunch> one_launch;  // instead of them
  double time_us = 0;
};

Row row_of(const Json& json) {
  const auto integer = [&](const char* key) { return json.find(key)->as_integer(); };
  const std::string tactics = json.find("tactic")->as_string();
  const auto one_launch = one_launch_of(tactics);
  const std::size_t comma = one_launch ? 0 : tactics.find(", ");
  const bool mxfp4 = json.find("format")->as_string() == to_string(Format::kMxfp4);
  return {.shape = {.op = BenchOp::kMoe,
                    .name = "moe",
                    .format = mxfp4 ? Format::kMxfp4 : Format::kNvfp4,
                    .experts = integer("experts"),
                    .top_k = integer("top_k"),
                    .n = integer("n"),
                    .k = integer("k")},
          .tokens = integer("tokens"),
          .part = json.find("part")->as_string(),
          .routing = parse_route_draw(json.find("routing")->as_string()).value(),
          .gate_up = tactics.substr(0, comma),
          .down = tactics.substr(comma + 2),
          .one_launch = one_launch,
          .time_us = json.find("time_us")->as_number()};
}

// As `nibble bench moe` has it: the median over the routings that take turns.
double predicted_us(const Row& row, const CudaRates& rates) {
  Random random(static_cast<std::uint64_t>(row.tokens));
  const auto layout = [&](const std::string& tactic, W4A16Mode mode) {
    return layout_of({.format = row.shape.format, .mode = mode}, tactic_of(tactic));
  };
  const CudaTactic gate_up =
      row.one_launch ? CudaTactic() : layout(row.gate_up, W4A16Mode::kSwiGlu);
  const CudaTactic down = row.one_launch ? CudaTactic() : layout(row.down, W4A16Mode::kPlain);
  std::vector<double> all;
  for (const DrawnRouting& turn :
       draw_turns({row.shape.experts, row.shape.top_k, row.tokens}, row.routing, random)) {
    if (row.one_launch) {
      all.push_back(predict_one_launch_us(row.shape, turn.counts, *row.one_launch, rates));
      continue;
    }
    CudaLayer layer = layer_to_predict(row.shape, row.tokens, turn.counts, gate_up, down);
    if (row.part == "products") layer = {.products = layer.products};
    all.push_back(predict_layer_us(layer, rates));
  }
  return median(all);
}

struct Table {
  std::string name;
  std::vector<double> layers, products;  // predicted / measured - 1
};

int within(const std::vector<double>& off) {
  return static_cast<int>(std::count_if(off.begin(), off.end(),
                                        [](double value) { return std::abs(value) <= kWithin; }));
}

Table table_of(const std::filesystem::path& path) {
  Table table{.name = path.stem().string()};
  const Json document =
      Json::parse(read_file(path, std::size_t{64} << 20).value(), path.string()).value();
  const Json& bench = *document.find("bench");
  const GpuRoofs roofs = parse_gpu_roofs(*bench.find("gpu_roofs"), table.name).value();
  const double clock_mhz = roofs.roofs.at("mma_bf16_tflops").conditions.clock_mhz.value();
  const CudaRates rates = rates_of(roofs, clock_mhz * 1e-3).value();
  for (const Json& json : bench.find("rows")->as_array()) {
    if (json.find("time_us")->is_null()) continue;
    const Row row = row_of(json);
    const double off = predicted_us(row, rates) / row.time_us - 1;
    (row.part == "layer" ? table.layers : table.products).push_back(off);
  }
  return table;
}

std::string line_of(const std::vector<double>& off) {
  const auto furthest = std::max_element(
      off.begin(), off.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  return fmt::format("{:2} of {:2} within 15 %, worst {:+5.1f} %", within(off), off.size(),
                     off.empty() ? 0.0 : 100 * *furthest);
}

TEST(CudaPredictTables, HoldAgainstWhatWasMeasured) {
  const std::filesystem::path folder = std::filesystem::path(NIBBLE_SOURCE_DIR) / "docs/measured";
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().stem().string().starts_with("h200_")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  bool drawn = false;
  for (const std::filesystem::path& path : paths) {
    const Table table = table_of(path);
    fmt::print("{:24} layers {}; products {}\n", table.name, line_of(table.layers),
               line_of(table.products));
    SCOPED_TRACE(table.name);
    ASSERT_FALSE(table.layers.empty());
    // Nine of ten where the constants come from; what the drawn layers are asked for.
    const double least = table.name == kDrawnTable ? 20.0 / 24 : 0.9;
    EXPECT_GE(within(table.layers), least * static_cast<double>(table.layers.size()));
    EXPECT_GE(within(table.products), least * static_cast<double>(table.products.size()));
    drawn = drawn || table.name == kDrawnTable;
  }
  EXPECT_TRUE(drawn);
}

}  // namespace
}  // namespace nibble
