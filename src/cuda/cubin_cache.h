// Compiled programs kept on disk: a file each, written aside and renamed, with a checksum. Any
// number of processes may read and write one folder at once; damage is a miss.
//
//   const CubinCache cache = CubinCache::of_user();
//   CacheFound found = cache.find(key, nvrtc->identity());
//   if (!found.entry) cache.keep(key, nvrtc->identity(), compiled);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace nibble::cuda {

// What was compiled, and what was said of it.
struct CacheEntry {
  std::string program;
  std::string arch;
  std::string compiler;  // "NVRTC 13.0"
  std::string log;
  std::vector<std::byte> image;
};

struct CacheFound {
  std::optional<CacheEntry> entry;
  std::string note;  // of a damaged file, or of a folder that is not to be trusted; else ""
};

class CubinCache {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;

  explicit CubinCache(std::filesystem::path folder, std::uint64_t most_bytes = kMostBytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  // $NIBBLE_CUBIN_CACHE, or cubins/ in nibble's cache folder. The latter must be the user's own:
  // who can write there decides what runs.
  static CubinCache of_user();

  const std::filesystem::path& folder() const { return folder_; }

  // `key` is of all that is compiled, `compiler` of what compiles it. An empty `compiler` takes
  // what any compiler made, the last written first: where there is none, that is all there is.
  CacheFound find(const std::string& key, const std::string& compiler) const;
  // Then throws out the entries used the longest ago, until the others fit.
  Result<> keep(const std::string& key, const std::string& compiler, const CacheEntry& entry) const;

 private:
  std::filesystem::path path_of(const std::string& key, const std::string& compiler) const;
  std::vector<std::filesystem::path> candidates(const std::string& key,
                                                const std::string& compiler) const;
  void trim() const;

  std::filesystem::path folder_;
  std::uint64_t most_bytes_;
  std::string refused_;  // why the folder is not used, or ""
};

}  // namespace nibble::cuda
