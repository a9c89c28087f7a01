#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "model/config.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexNames[] = {"model.safetensors.index.json",
                                       "consolidated.safetensors.index.json"};
constexpr const char* kSingleNames[] = {"model.safetensors", "consolidated.safetensors"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Why a folder cannot be listed or what stands in it not be looked at; nothing when both can.
std::error_code cannot_look_into(const fs::path& folder) {
  std::error_code code;
  const fs::directory_iterator listed(folder, code);
  if (!code) static_cast<void>(fs::status(folder / ".", code));
  return code;
}

// The safetensors files that stand in a folder, sorted.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with('.')) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A thread of the pool must not throw, and a header of 100 MB may take more memory than there is.
Result<SafetensorsFile> open_file(const fs::path& path) {
  try {
    return SafetensorsFile::open(path);
  } catch (const std::bad_alloc&) {
    return run_error("{}: there is not enough memory to read its header", path.string());
  }
}

// Files are read side by side; the result does not depend on who reads which.
std::vector<std::optional<Result<SafetensorsFile>>> open_all(
    const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::optional<Result<SafetensorsFile>>> files(names.size());
  const std::size_t processors = usable_processors().size();
  ThreadPool pool(static_cast<int>(std::clamp<std::size_t>(names.size(), 1, processors)));
  WorkQueue queue(static_cast<std::int64_t>(names.size()));
  pool.run([&](int) {
    while (const auto next = queue.next()) {
      const auto number = static_cast<std::size_t>(*next);
      files[number].emplace(open_file(folder / names[number]));
    }
  });
  return files;
}

}  // namespace

class CheckpointReader {
 public:
  explicit CheckpointReader(const fs::path& folder) : folder_(folder) {
    out_.path_ = folder.string();
  }
  Result<Checkpoint> read();

 private:
  void add(Severity severity, std::string_view id, std::string_view where,
           std::string_view sentence) {
    out_.faults_.add(severity, id, where, sentence);
  }
  void read_index();
  std::vector<std::string> choose_files();
  void open_shards(const std::vector<std::string>& names);
  void refuse_shard(std::size_t shard, const Error& error);
  void gather_tensors();
  void note_lost(const std::string& tensor);
  void compare_with_index();
  void note_strays();
  void read_model();

  fs::path folder_;
  Checkpoint out_;
  std::string index_name_;
  std::optional<ShardIndex> index_;
};

void CheckpointReader::read_index() {
  for (const char* name : kIndexNames) {
    if (!is_there(folder_ / name)) continue;
    index_name_ = name;
    const fs::path path = folder_ / name;
    const Result<std::string> text = read_file(path, kMaxIndexBytes);
    Result<ShardIndex> index =
        text.ok() ? parse_shard_index(*text, path.string()) : Result<ShardIndex>(text.error());
    if (index.ok()) {
      index_ = std::move(*index);
    } else {
      add(Severity::kError, "index-refused", name, index.error().message);
    }
    return;
  }
}

std::vector<std::string> CheckpointReader::choose_files() {
  if (index_) return index_->files;
  std::vector<std::string> present = files_in(folder_);
  if (!index_name_.empty()) return present;  // an index that cannot be read: look at everything
  for (const char* name : kSingleNames) {
    if (std::find(present.begin(), present.end(), name) != present.end()) return {name};
  }
  return present;
}

void CheckpointReader::refuse_shard(std::size_t shard, const Error& error) {
  const std::string& name = out_.shards_[shard].name;
  if (!is_there(folder_ / name)) {
    add(Severity::kError, "shard-missing", name,
        fmt::format("{} names this file, but the folder does not hold it; fetch it", index_name_));
  } else {
    add(Severity::kError, says_truncated(error) ? "truncated" : "header-refused", name,
        error.message);
  }
}

void CheckpointReader::open_shards(const std::vector<std::string>& names) {
  std::vector<std::optional<Result<SafetensorsFile>>> files = open_all(folder_, names);
  for (std::size_t number = 0; number < names.size(); ++number) {
    out_.shards_.push_back({.name = names[number], .file = std::nullopt});
    Result<SafetensorsFile>& file = *files[number];
    if (file.ok()) {
      out_.shards_.back().file = std::move(*file);
    } else {
      refuse_shard(number, file.error());
      if (!index_) out_.anything_lost_ = true;
    }
  }
}

void CheckpointReader::gather_tensors() {
  for (std::size_t shard = 0; shard < out_.shards_.size(); ++shard) {
    const std::optional<SafetensorsFile>& file = out_.shards_[shard].file;
    if (!file) continue;
    for (const TensorInfo& tensor : file->tensors()) out_.tensors_.push_back({&tensor, shard});
  }
  std::vector<StoredTensor>& all = out_.tensors_;
  std::stable_sort(all.begin(), all.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return a.name() < b.name();
  });
  const auto same_name = [](const StoredTensor& a, const StoredTensor& b) {
    return a.name() == b.name();
  };
  for (auto twin = std::adjacent_find(all.begin(), all.end(), same_name); twin != all.end();
       twin = std::adjacent_find(twin + 1, all.end(), same_name)) {
    add(Severity::kError, "tensor-twice", twin->name(),
        "stands in two files, and nothing says which is meant");
  }
  all.erase(std::unique(all.begin(), all.end(), same_name), all.end());
  out_.by_name_.reserve(all.size());
  for (std::size_t number = 0; number < all.size(); ++number) {
    out_.by_name_.emplace(all[number].name(), number);
  }
}

void CheckpointReader::note_lost(const std::string& tensor) {
  out_.lost_.insert(tensor);
  const std::size_t dot = tensor.rfind('.');
  if (dot != std::string::npos) out_.lost_.insert(tensor.substr(0, dot));
  constexpr std::string_view kBlocks = "_blocks";
  if (tensor.ends_with(kBlocks)) {
    out_.lost_.insert(tensor.substr(0, tensor.size() - kBlocks.size()));
  }
}

void CheckpointReader::compare_with_index() {
  std::vector<bool> listed(out_.tensors_.size(), false);
  std::uint64_t bytes = 0;
  for (const ShardIndex::Entry& entry : index_->entries) {
    const auto found = out_.by_name_.find(entry.tensor);
    const bool file_lost = !out_.shards_[entry.file].file;
    if (found != out_.by_name_.end()) {
      listed[found->second] = true;
      const StoredTensor& tensor = out_.tensors_[found->second];
      if (tensor.shard != entry.file && !file_lost) {
        add(Severity::kError, "index-disagrees", entry.tensor,
            fmt::format("{} puts it into {}, but {} holds it", index_name_,
                        index_->files[entry.file], index_->files[tensor.shard]));
      }
    } else if (file_lost) {
      note_lost(entry.tensor);
    } else {
      add(Severity::kError, "index-lists-absent-tensor", entry.tensor,
          fmt::format("{} lists it, but the file named there does not hold it", index_name_));
    }
  }
  for (std::size_t number = 0; number < listed.size(); ++number) {
    bytes += out_.tensors_[number].info->bytes();
    if (listed[number]) continue;
    add(Severity::kError, "index-lacks-tensor", out_.tensors_[number].name(),
        fmt::format("a file holds it, but {} does not list it, so that most engines will not load "
                    "it",
                    index_name_));
  }
  const bool whole = std::all_of(out_.shards_.begin(), out_.shards_.end(),
                                 [](const Shard& shard) { return shard.file.has_value(); });
  if (whole && index_->total_bytes && *index_->total_bytes != bytes) {
    add(Severity::kWarning, "index-total", index_name_,
        fmt::format("states a total_size of {} bytes, but the tensors have {}",
                    *index_->total_bytes, bytes));
  }
}

// Safetensors files that were not chosen: other renderings of the model, or leftovers.
void CheckpointReader::note_strays() {
  for (const std::string& name : files_in(folder_)) {
    const bool chosen = std::any_of(out_.shards_.begin(), out_.shards_.end(),
                                    [&](const Shard& shard) { return shard.name == name; });
    if (chosen) continue;
    add(Severity::kInfo, "file-not-used", name,
        index_ ? fmt::format("stands in the folder, but {} does not name it", index_name_)
               : "stands in the folder beside the whole model, and is not read");
  }
}

void CheckpointReader::read_model() {
  std::error_code ignored;
  const fs::path full = fs::absolute(folder_, ignored);
  if (!is_there(full / "config.json")) {
    add(Severity::kError, "config-missing", "config.json",
        "the folder has none, so nothing can be compared with what the model should hold");
    return;
  }
  if (fs::is_directory(full / "config.json", ignored)) {
    add(Severity::kError, "config-refused", "config.json",
        "is a folder, not a file, so nothing can be compared with what the model should hold");
    return;
  }
  Result<ModelSpec> model = load_model((full / "config.json").string());
  if (!model.ok()) {
    add(Severity::kError, "config-refused", "config.json",
        "cannot be read, so nothing can be compared with what the model should hold: " +
            model.error().message);
    return;
  }
  for (const std::string& warning : model->warnings) {
    add(Severity::kWarning, "config-odd", "config.json", warning);
  }
  out_.model_ = std::move(*model);
}

Result<Checkpoint> CheckpointReader::read() {
  std::error_code code_of_path;
  const fs::file_status status = fs::status(folder_, code_of_path);
  if (status.type() == fs::file_type::none) {
    return input_error("the folder {} cannot be read: {}; allow it, or give another", out_.path_,
                       code_of_path.message());
  }
  if (!fs::is_directory(status)) {
    return input_error("{} is not a folder; give the folder of a Hugging Face checkpoint",
                       out_.path_);
  }
  if (const std::error_code code = cannot_look_into(folder_)) {
    return input_error("the folder {} cannot be read: {}; allow it, or give another", out_.path_,
                       code.message());
  }
  read_index();
  const std::vector<std::string> names = choose_files();
  if (names.empty()) {
    return input_error(
        "{} holds neither {} nor safetensors files; give the folder of a Hugging Face checkpoint",
        out_.path_, kIndexNames[0]);
  }
  open_shards(names);
  gather_tensors();
  if (index_) compare_with_index();
  note_strays();
  read_model();
  return std::move(out_);
}

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  return CheckpointReader(folder).read();
}

void Checkpoint::note_unread(const StoredTensor& tensor, const Error& error, FaultLog& log) const {
  log.add_once(Severity::kError, says_truncated(error) ? "truncated" : "not-readable",
               shards_[tensor.shard].name, error.message);
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace nibble
