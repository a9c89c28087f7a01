// Format: files E=...,N=...,device_name=....json of vLLM
// (vllm/model_executor/layers/fused_moe/configs, commits 9d690bb1, dc619ec4) and SGLang: batch size
// -> BLOCK_SIZE_M, _N, _K, num_stages, num_warps, ...
#include <charconv>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "base/text.h"
#include "tactics/logs/caches.h"
#include "tactics/logs/line_events.h"

namespace nibble::logs {
namespace {

constexpr double kMostSize = 1 << 20;  // of a tile's side, stages, a batch's rows in a file

std::optional<std::int64_t> batch_of(std::string_view key) {
  std::int64_t batch = 0;
  const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), batch);
  const bool whole = fault == std::errc() && end == key.data() + key.size() && batch >= 0;
  return whole ? std::optional(batch) : std::nullopt;
}

Result<TritonConfig> read_config(const Json& value, std::int64_t batch, const std::string& where) {
  ObjectReader reader(value, where);
  const NumberRange size{.min = 1, .max = kMostSize};
  TritonConfig config{.batch = batch};
  config.m = reader.require_integer("BLOCK_SIZE_M", size);
  config.n = reader.require_integer("BLOCK_SIZE_N", size);
  config.k = reader.require_integer("BLOCK_SIZE_K", size);
  config.stages = reader.integer("num_stages", {.min = 0, .max = kMostSize}).value_or(0);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return config;
}

}  // namespace

Result<bool> read_triton_config(const Json& document, Collector& collector) {
  if (!document.is_object()) return false;
  TacticLog& log = collector.log();
  const std::optional<ConfigName> name = read_config_name(log.name);
  bool mine = false;
  for (const auto& [key, value] : document.as_object()) {
    mine = mine || (batch_of(key) && value.is_object() && value.find("BLOCK_SIZE_M") != nullptr);
  }
  if (!mine) return false;
  log.format = "Triton configurations";
  collector.program("Triton");
  if (name) {
    log.dtype = name->dtype;
    collector.device(name->device);
  } else {
    collector.note("the file's name does not tell experts, device and data type: 16 bits assumed");
  }
  for (const auto& [key, value] : document.as_object()) {
    const std::optional<std::int64_t> batch = batch_of(key);
    if (!batch) {
      if (key == "triton_version" && value.is_string())
        collector.version("Triton", value.as_string());
      continue;
    }
    const std::string where = fmt::format("{}: {}", log.name, printable(key, 40));
    NIBBLE_ASSIGN_OR_RETURN(const TritonConfig config, read_config(value, *batch, where));
    log.configs.push_back(config);
    Entry entry;
    entry.op = "fused_moe_triton";
    if (name && name->down) entry.op += "_down";
    if (name) entry.shape = name->shape;
    entry.runner = "Triton";
    if (name) entry.device = name->device;
    entry.bucket = *batch;
    entry.status = Status::kChosen;
    entry.tactic = fmt::format("{}x{}x{}, {} stages", config.m, config.n, config.k, config.stages);
    if (config.stages == 0) entry.tactic = fmt::format("{}x{}x{}", config.m, config.n, config.k);
    collector.add(std::move(entry));
  }
  return true;
}

}  // namespace nibble::logs
