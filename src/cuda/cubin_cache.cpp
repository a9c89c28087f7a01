#include "cuda/cubin_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/file.h"
#include "cuda/sha256.h"

namespace nibble::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "nibble.cubin/1\n";
constexpr std::string_view kSuffix = ".cubin";
constexpr std::size_t kDigestBytes = 64;                         // in hexadecimal
constexpr std::size_t kMostEntryBytes = std::size_t{256} << 20;  // a program is far below 1 MB
constexpr auto kMostAgeOfTemporary = std::chrono::hours(1);

// The magic, the SHA-256 of the rest, then the fields: 8 bytes of length each, little endian, and
// as many bytes. The first field is the file's own name, so that a file that was renamed is no hit.
void add_field(std::string& text, std::string_view field) {
  std::uint64_t size = field.size();
  for (int i = 0; i < 8; ++i, size >>= 8) text += static_cast<char>(size & 0xff);
  text += field;
}

std::optional<std::string_view> take_field(std::string_view& rest) {
  if (rest.size() < 8) return std::nullopt;
  std::uint64_t size = 0;
  for (std::size_t i = 8; i-- > 0;) size = size << 8 | static_cast<unsigned char>(rest[i]);
  rest.remove_prefix(8);
  if (size > rest.size()) return std::nullopt;
  const std::string_view field = rest.substr(0, size);
  rest.remove_prefix(size);
  return field;
}

std::string write_entry(const std::string& name, const CacheEntry& entry) {
  std::string body;
  const std::string_view image(reinterpret_cast<const char*>(entry.image.data()),
                               entry.image.size());
  for (const std::string_view field :
       {std::string_view(name), std::string_view(entry.program), std::string_view(entry.arch),
        std::string_view(entry.compiler), std::string_view(entry.log), image}) {
    add_field(body, field);
  }
  return std::string(kMagic) + sha256_hex(body) + body;
}

std::optional<CacheEntry> read_entry(std::string_view text, const std::string& name) {
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + kDigestBytes) return std::nullopt;
  text.remove_prefix(kMagic.size());
  const std::string_view digest = text.substr(0, kDigestBytes);
  text.remove_prefix(kDigestBytes);
  if (sha256_hex(text) != digest) return std::nullopt;
  std::array<std::string_view, 6> fields;
  for (std::string_view& field : fields) {
    const std::optional<std::string_view> taken = take_field(text);
    if (!taken) return std::nullopt;
    field = *taken;
  }
  if (!text.empty() || fields[0] != name) return std::nullopt;
  CacheEntry entry{.program = std::string(fields[1]),
                   .arch = std::string(fields[2]),
                   .compiler = std::string(fields[3]),
                   .log = std::string(fields[4])};
  const auto image = std::as_bytes(std::span(fields[5].data(), fields[5].size()));
  entry.image.assign(image.begin(), image.end());
  return entry;
}

// Why a folder that exists is not one's own, or "".
std::string not_ours(const fs::path& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) return "";
  if (status.st_uid != ::geteuid()) return "belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written by other users";
  return "";
}

struct KeptFile {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

// The entries of the folder; what another process left half-written long ago is removed.
std::vector<KeptFile> list_entries(const fs::path& folder) {
  std::vector<KeptFile> files;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::string name = it->path().filename().string();
    KeptFile file{it->path(), it->last_write_time(gone), 0};
    if (!gone) file.bytes = it->file_size(gone);
    if (gone) continue;
    if (name.ends_with(kSuffix)) {
      files.push_back(std::move(file));
    } else if (name.starts_with(".nibble-") && now - file.used > kMostAgeOfTemporary) {
      fs::remove(file.path, gone);
    }
  }
  return files;
}

}  // namespace

CubinCache CubinCache::of_user() {
  const char* chosen = std::getenv("NIBBLE_CUBIN_CACHE");
  if (chosen != nullptr && *chosen != '\0') return CubinCache(fs::path(chosen));
  CubinCache cache(cache_directory() / "cubins");
  if (const std::string why = not_ours(cache.folder_); !why.empty()) {
    cache.refused_ = fmt::format(
        "the cache of compiled kernels {} {} and is not used; set NIBBLE_CUBIN_CACHE to a folder "
        "of your own",
        cache.folder_.string(), why);
  }
  return cache;
}

fs::path CubinCache::path_of(const std::string& key, const std::string& compiler) const {
  return folder_ / fmt::format("{}-{}{}", key, compiler, kSuffix);
}

std::vector<fs::path> CubinCache::candidates(const std::string& key,
                                             const std::string& compiler) const {
  if (!compiler.empty()) return {path_of(key, compiler)};
  std::vector<KeptFile> files = list_entries(folder_);
  std::erase_if(files, [&](const KeptFile& file) {
    return !file.path.filename().string().starts_with(key + "-");
  });
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.used > b.used; });
  std::vector<fs::path> paths;
  for (const KeptFile& file : files) paths.push_back(file.path);
  return paths;
}

CacheFound CubinCache::find(const std::string& key, const std::string& compiler) const {
  CacheFound found{.note = refused_};
  if (!refused_.empty()) return found;
  for (const fs::path& path : candidates(key, compiler)) {
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    const Result<std::string> text = read_file(path, kMostEntryBytes);
    if (text) found.entry = read_entry(*text, path.filename().string());
    if (found.entry) {
      // The last use, for trim(). A folder that cannot be written keeps its order.
      static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), nullptr, 0));
      found.note.clear();
      return found;
    }
    if (!fs::exists(path, error)) continue;  // thrown out by another process meanwhile
    found.note = text ? fmt::format("{} was damaged", path.string()) : text.error().message;
  }
  return found;
}

Result<> CubinCache::keep(const std::string& key, const std::string& compiler,
                          const CacheEntry& entry) const {
  if (!refused_.empty()) return run_error("{}", refused_);
  std::error_code error;
  const bool made = fs::create_directories(folder_, error);
  if (!error && made) fs::permissions(folder_, fs::perms::owner_all, error);
  const fs::path path = path_of(key, compiler);
  const Result<> written = error ? Result<>(run_error("{}", error.message()))
                                 : write_file(path, write_entry(path.filename().string(), entry));
  if (!written) {
    return run_error(
        "the compiled kernels are not kept ({}); set NIBBLE_CUBIN_CACHE to a folder that can be "
        "written, or they are compiled again each time",
        written.error().message);
  }
  trim();
  return {};
}

void CubinCache::trim() const {
  std::vector<KeptFile> files = list_entries(folder_);
  std::uint64_t bytes = 0;
  for (const KeptFile& file : files) bytes += file.bytes;
  if (bytes <= most_bytes_) return;
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.used < b.used; });
  for (const KeptFile& file : files) {
    if (bytes <= most_bytes_) return;
    std::error_code error;
    fs::remove(file.path, error);
    if (!error) bytes -= file.bytes;
  }
}

}  // namespace nibble::cuda
