#include "tactics/tune/store.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <system_error>

#include "base/file.h"
#include "base/text.h"

namespace nibble::tune {
namespace {

namespace fs = std::filesystem;

Result<Descriptor> take_lock(const fs::path& path, const std::function<void()>& waiting) {
  const std::string name = path.string() + ".lock";
  Descriptor lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.get() < 0) {
    return input_error("{} cannot be made: {}; give --output in a folder that can be written", name,
                       errno_text(errno));
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  waiting();
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return run_error("{} cannot be locked: {}", name, errno_text(errno));
  }
  return lock;
}

}  // namespace

Result<TuningStore> TuningStore::open(const fs::path& path, const TuningSite& site,
                                      const std::function<void()>& waiting) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) {
    return input_error("{} cannot be made: {}", path.parent_path().string(), error.message());
  }
  NIBBLE_ASSIGN_OR_RETURN(Descriptor lock, take_lock(path, waiting));
  TuningStore store(path, std::move(lock));
  if (fs::exists(path, error)) {
    NIBBLE_ASSIGN_OR_RETURN(store.file_, read_tuning(path));
    const TuningSite& made = store.file_.site;
    const std::string stale = difference(made, site);
    if (!stale.empty() && (made.device != site.device || made.units != site.units)) {
      return input_error("{} is of another device: {}; give another --output", path.string(),
                         stale);
    }
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
