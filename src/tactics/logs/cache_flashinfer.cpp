// Formats: AutoTuner.save_configs of flashinfer-ai/flashinfer (flashinfer/autotuner.py, commit
// 006078ac; docs/autotuning.rst "Cache File Format"), and the entries of the managed store
// (flashinfer/autotune_cache.py: "key", "runner", "tactic"; manifest.json with "cache_schema").
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "tactics/logs/caches.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

// "('fp4_gemm', 'TrtllmFp4GemmRunner', ((1, 2304), (2304, 7168), ...))"; extras may follow.
bool set_cache_key(Entry& entry, std::string_view key) {
  const std::vector<std::string_view> items = tuple_items(key);
  if (items.size() < 3 || !(items[0].starts_with('\'') || items[0].starts_with('"'))) return false;
  entry.op = unquoted(items[0]);
  entry.runner = unquoted(items[1]);
  entry.shape = items[2];
  entry.bucket = first_number(items[2]);
  return true;
}

std::string tactic_text(const Json& tactic) {
  return tactic.is_string() ? tactic.as_string() : tactic.dump(0);
}

void read_metadata(const Json& metadata, Collector& collector) {
  if (!metadata.is_object()) return;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kVersions = {{
      {"flashinfer_version", "FlashInfer"},
      {"cuda_version", "CUDA"},
      {"cublas_version", "cuBLAS"},
      {"cudnn_version", "cuDNN"},
      {"cudnn_frontend_version", "cuDNN frontend"},
  }};
  for (const auto& [key, name] : kVersions) {
    const Json* value = metadata.find(key);
    if (value != nullptr && value->is_string()) collector.version(name, value->as_string());
  }
  for (const std::string_view key : {"gpu", "gpu_name"}) {
    const Json* value = metadata.find(key);
    if (value != nullptr && value->is_string()) collector.device(value->as_string());
  }
}

bool read_store_file(const Json& document, Collector& collector) {
  if (document.find("cache_schema") != nullptr && document.find("flashinfer_version") != nullptr) {
    collector.log().format = "FlashInfer cache manifest";
    read_metadata(document, collector);
    collector.note("a manifest: the choices are in the files of the folder entries beside it");
    return true;
  }
  const Json* key = document.find("key");
  const Json* runner = document.find("runner");
  const Json* tactic = document.find("tactic");
  if (key == nullptr || !key->is_string() || runner == nullptr || tactic == nullptr) return false;
  Entry entry;
  if (!set_cache_key(entry, key->as_string())) return false;
  entry.status = Status::kChosen;
  entry.tactic = tactic_text(*tactic);
  collector.log().format = "FlashInfer cache entry";
  collector.add(std::move(entry));
  return true;
}

bool is_choice(const Json& value) {
  return value.is_array() && value.as_array().size() == 2 && value.as_array()[0].is_string();
}

}  // namespace

Result<bool> read_flashinfer_cache(const Json& document, Collector& collector) {
  if (!document.is_object()) return false;
  const auto& members = document.as_object();
  const bool has_metadata = document.find("_metadata") != nullptr;
  const bool has_choice =
      std::any_of(members.begin(), members.end(), [](const Json::Member& member) {
        return member.first.starts_with("('") && is_choice(member.second);
      });
  if (!has_metadata && !has_choice) {
    const bool store = read_store_file(document, collector);
    if (store) collector.program("FlashInfer");
    return store;
  }
  collector.log().format = "FlashInfer cache";
  collector.program("FlashInfer");
  const std::string rank = rank_of_file(collector.log().name);
  for (const auto& [key, value] : members) {
    if (key.starts_with('_')) {
      read_metadata(value, collector);
      continue;
    }
    Entry entry;
    if (!set_cache_key(entry, key) || !is_choice(value)) {
      collector.unread(key);
      continue;
    }
    entry.status = Status::kChosen;
    entry.runner = value.as_array()[0].as_string();
    entry.tactic = tactic_text(value.as_array()[1]);
    entry.rank = rank;
    collector.add(std::move(entry));
  }
  return true;
}

std::string rank_of_file(std::string_view name) {
  const std::size_t found = name.rfind("rank_");
  if (found == std::string_view::npos) return "";
  std::string rank;
  for (const std::string& word : split(name.substr(found + 5, 40), '_')) {
    const std::string part = word.substr(0, word.find('.'));
    const std::size_t digits = part.find_first_of("0123456789");
    const bool kind = part.starts_with("tp") || part.starts_with("pp") || part.starts_with("dp") ||
                      part.starts_with("ep");
    if (!kind || digits != 2) return rank;
    rank += rank.empty() ? "" : " ";
    for (const char c : part) rank += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return printable(rank, 40);
}

}  // namespace nibble::logs
