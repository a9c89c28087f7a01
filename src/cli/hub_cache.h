// Where Hugging Face's tools keep what they have downloaded. Nothing is downloaded here.
//
//   if (is_hub_id("Qwen/Qwen3-8B")) {
//     const auto file = find_in_hub_cache("Qwen/Qwen3-8B", "tokenizer.json");
//   }
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace nibble::cli {

// ORG/NAME, and not what looks like a path: ./x, x/y.json, a folder that is there.
bool is_hub_id(std::string_view name);

// By HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, or ~/.cache/huggingface/hub. Empty
// where none of them is known.
std::filesystem::path hub_cache();

// A file of the model's revision "main", else of its only revision.
std::optional<std::filesystem::path> find_in_hub_cache(std::string_view id, std::string_view file);

}  // namespace nibble::cli
