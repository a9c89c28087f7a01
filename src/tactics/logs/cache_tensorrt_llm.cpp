// Format: AutoTunerProfilingCache.save_cache of NVIDIA/TensorRT-LLM,
// tensorrt_llm/_torch/autotuner.py, main of 2026: {"metadata": {...}, "rank_0": {"(key)":
// {"runner_id", "tactic", "min_time"}}, ...}.
#include <fmt/core.h>
#include <utility>

#include "base/text.h"
#include "tactics/logs/caches.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

void read_cache_metadata(const Json& metadata, Collector& collector) {
  const Json* version = metadata.find("lib_version");
  if (version != nullptr && version->is_string()) {
    collector.version("TensorRT-LLM", version->as_string());
  }
  const Json* device = metadata.find("device_name");
  if (device != nullptr && device->is_string()) collector.device(device->as_string());
  const Json* capability = metadata.find("device_capability");
  if (capability == nullptr || !capability->is_array() || capability->as_array().size() != 2) {
    return;
  }
  const Json& major = capability->as_array()[0];
  const Json& minor = capability->as_array()[1];
  if (!major.is_integer() || !minor.is_integer()) return;
  collector.version("architecture", fmt::format("sm_{}{}", major.as_integer(), minor.as_integer()));
}

bool read_choice(std::string_view key, const Json& value, const std::string& rank,
                 Collector& collector) {
  const std::vector<std::string_view> items = tuple_items(key);
  const Json* tactic = value.find("tactic");
  if (items.size() < 4 || tactic == nullptr) return false;
  Entry entry;
  entry.op = unquoted(items[0]);
  entry.runner = unquoted(items[1]);
  entry.shape = plain_shape(items.back());
  entry.bucket = first_number(entry.shape);
  entry.tactic = tactic->is_string() ? tactic->as_string() : tactic->dump(0);
  entry.rank = rank;
  entry.status = Status::kChosen;
  const Json* time = value.find("min_time");
  if (time != nullptr && time->is_number() && time->as_number() >= 0) {
    entry.time_ms = time->as_number();
  }
  collector.add(std::move(entry));
  return true;
}

}  // namespace

Result<bool> read_tensorrt_llm_cache(const Json& document, Collector& collector) {
  const Json* metadata = document.find("metadata");
  if (metadata == nullptr || !metadata->is_object() || metadata->find("lib_version") == nullptr) {
    return false;
  }
  collector.log().format = "TensorRT-LLM cache";
  collector.program("TensorRT-LLM");
  read_cache_metadata(*metadata, collector);
  for (const auto& [name, entries] : document.as_object()) {
    if (!name.starts_with("rank_")) continue;
    if (!entries.is_object()) {
      return input_error("{}: {} is {}; give the file as TensorRT-LLM wrote it",
                         collector.log().name, printable(name, 40), entries.kind_name());
    }
    const std::string rank = "rank " + printable(std::string_view(name).substr(5), 20);
    for (const auto& [key, value] : entries.as_object()) {
      if (!read_choice(key, value, rank, collector)) collector.unread(key);
    }
  }
  return true;
}

}  // namespace nibble::logs
