// model.safetensors.index.json: which file holds which tensor.
//
//   NIBBLE_ASSIGN_OR_RETURN(const ShardIndex index, parse_shard_index(text, path));
//   index.files[index.entries[0].file]   // "model-00001-of-00089.safetensors"
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble {

struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::size_t file = 0;  // into `files`
  };
  std::vector<std::string> files;            // sorted; plain names beside the index
  std::vector<Entry> entries;                // in the order of the index; names are unique
  std::optional<std::uint64_t> total_bytes;  // metadata.total_size, where it is stated
};

inline constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;

// File names that lead out of the folder, or are no safetensors files, are refused.
Result<ShardIndex> parse_shard_index(std::string_view json, std::string_view where);

}  // namespace nibble
