#include "tactics/tune/store.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

namespace nibble::tune {
namespace {

namespace fs = std::filesystem;

// Whether the path still leads to the file that is open.
bool leads_to(const fs::path& path, int descriptor) {
  struct stat named {};
  struct stat open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

bool is_empty_file(int descriptor) {
  struct stat open {};
  return ::fstat(descriptor, &open) == 0 && S_ISREG(open.st_mode) && open.st_size == 0;
}

// What the file has for this site; nullopt: there is none yet.
Result<std::optional<TuningFile>> own_file(const fs::path& path, const TuningSite& site) {
  constexpr std::string_view kRemedy = "give another --output, or move the file away";
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return std::optional<TuningFile>();
  if (status.type() != fs::file_type::regular) {
    return input_error("{} is no regular file{}; give another --output", path.string(),
                       error ? ": " + error.message() : "");
  }
  NIBBLE_ASSIGN_OR_RETURN(TuningFile file, read_tuning(path, kRemedy));
  if (!is_same_device(file.site, site)) {
    return input_error("{} is of another device: {}; {}", path.string(),
                       difference(file.site, site), kRemedy);
  }
  return std::optional<TuningFile>(std::move(file));
}

}  // namespace

Result<TuningLock> TuningLock::take(const fs::path& file, const std::function<void()>& waiting) {
  const std::string name = file.string() + ".lock";
  bool waited = false;
  while (true) {
    Descriptor lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
    if (lock.get() < 0) {
      return input_error("{} cannot be made: {}; give --output in a folder that can be written",
                         name, errno_text(errno));
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (!waited) waiting();
      waited = true;
      while (::flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return run_error("{} cannot be locked: {}", name, errno_text(errno));
      }
    }
    if (leads_to(name, lock.get())) return TuningLock(name, std::move(lock));
  }
}

// Only what a lock is: a file of somebody's that has this name stays.
TuningLock::~TuningLock() {
  const int descriptor = descriptor_.get();
  if (descriptor < 0 || !is_empty_file(descriptor) || !leads_to(path_, descriptor)) return;
  ::unlink(path_.c_str());
}

Result<TuningStore> TuningStore::open(const fs::path& path, const TuningSite& site,
                                      const std::function<void()>& waiting) {
  NIBBLE_RETURN_IF_ERROR(own_file(path, site));
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) {
    return input_error("{} cannot be made: {}", path.parent_path().string(), error.message());
  }
  NIBBLE_ASSIGN_OR_RETURN(TuningLock lock, TuningLock::take(path, waiting));
  TuningStore store(path, std::move(lock));
  NIBBLE_ASSIGN_OR_RETURN(std::optional<TuningFile> file, own_file(path, site));
  if (file) {
    store.file_ = *std::move(file);
    const std::string stale = difference(store.file_.site, site);
    if (!stale.empty()) {
      store.note_ = fmt::format("{} is measured anew: {}", path.string(), stale);
      store.file_.entries.clear();
    }
  }
  store.file_.site = site;
  return store;
}

Result<> TuningStore::put(TuningEntry entry) {
  file_.taken_unix_s = entry.taken_unix_s;
  file_.put(std::move(entry));
  return write_file(path_, to_json(file_).dump() + "\n");
}

fs::path default_tuning_path(const TuningSite& site) {
  std::string name;
  for (const char letter : to_lower(site.device)) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
    if (plain) {
      name += letter;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return cache_directory() / "tuning" / fmt::format("{}-{}.json", name, site.units);
}

}  // namespace nibble::tune
