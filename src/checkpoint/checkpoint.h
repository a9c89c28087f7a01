// A checkpoint folder: its files, every tensor by name, the model that config.json describes, and
// what is wrong. Faults that leave something to look at are gathered, not returned.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(folder));
//   const StoredTensor* norm = checkpoint.find("model.norm.weight");
//   checkpoint.data(*norm);                        // bytes, mapped
//   checkpoint.faults().refuse(checkpoint.path());  // the first error, for who wants to load
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "checkpoint/fault.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"
#include "model/spec.h"

namespace nibble {

struct StoredTensor {
  const TensorInfo* info = nullptr;
  std::size_t shard = 0;  // into shards()

  std::string_view name() const { return info->name; }
};

struct Shard {
  std::string name;                     // within the folder
  std::optional<SafetensorsFile> file;  // empty: missing or refused; a fault says why
};

class Checkpoint {
 public:
  // Refuses a folder that is none or holds no safetensors files; everything else is a fault.
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  const std::string& path() const { return path_; }
  const std::vector<Shard>& shards() const { return shards_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(std::string_view name) const;
  // The place of one of them: tensors()[number(tensor)].
  std::size_t number(const StoredTensor& tensor) const {
    return static_cast<std::size_t>(&tensor - tensors_.data());
  }
  std::span<const std::byte> data(const StoredTensor& tensor) const {
    return shards_[tensor.shard].file->data(*tensor.info);
  }
  // Copied, and an error when the file has become shorter since; data() may not be touched then.
  Result<> read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
    return shards_[tensor.shard].file->read(*tensor.info, offset, out);
  }
  // Whether the file of a tensor still holds what was opened, so that data() may be touched.
  Result<> check_length(const StoredTensor& tensor) const {
    return shards_[tensor.shard].file->check_length();
  }
  // A failure of these two as a fault of the file, told once.
  void note_unread(const StoredTensor& tensor, const Error& error, FaultLog& log) const;
  // Whether the index puts this tensor, a tensor of this module, or the blocks of this stack of
  // experts into a file that is missing or refused: it is then no missing tensor of its own.
  bool is_lost(std::string_view name) const { return lost_.contains(std::string(name)); }
  // The same; without an index any tensor may be in a refused file.
  bool may_be_lost(std::string_view name) const { return anything_lost_ || is_lost(name); }
  // Nothing when config.json is missing or cannot be read; a fault says why.
  const std::optional<ModelSpec>& model() const { return model_; }
  const FaultLog& faults() const { return faults_; }

 private:
  friend class CheckpointReader;
  Checkpoint() = default;

  std::string path_;
  std::vector<Shard> shards_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // into tensors_
  std::unordered_set<std::string> lost_;                       // tensors, and what they belong to
  bool anything_lost_ = false;  // without an index: a file was refused
  std::optional<ModelSpec> model_;
  FaultLog faults_;
};

}  // namespace nibble
