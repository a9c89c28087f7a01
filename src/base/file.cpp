#include "base/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/units.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const fs::path& path, int code) {
  // A wrong place is the user's to mend; anything else (a full disk) is the run's failure.
  const bool wrong_place = code == ENOENT || code == ENOTDIR || code == EISDIR || code == EACCES ||
                           code == EROFS || code == ENAMETOOLONG || code == ELOOP;
  return {wrong_place ? ErrorKind::kInput : ErrorKind::kRun,
          fmt::format("cannot write {}: {}", path.string(), errno_text(code))};
}

// 0, or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Devices and pipes (/dev/null, /dev/stdout) cannot be replaced by a rename; they take the bytes.
Result<> write_to_device(const fs::path& path, std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) return cannot_write(path, errno);
  if (const int code = write_all(file.get(), text)) return cannot_write(path, code);
  return {};
}

// Opens a new file beside `target`; its name says whose it is, should it ever be left behind.
int open_temporary(const fs::path& target, fs::path& temporary) {
  static std::atomic<unsigned> counter = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = target.parent_path() / fmt::format(".nibble-{}-{}.tmp", ::getpid(), ++counter);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// Writes, syncs and closes; 0, or errno. `mode` is that of the file to be replaced.
int fill(Descriptor& file, std::string_view text, std::optional<mode_t> mode) {
  if (const int code = write_all(file.get(), text)) return code;
  if (mode && ::fchmod(file.get(), *mode) != 0) return errno;
  if (::fsync(file.get()) != 0) return errno;
  return file.close() ? 0 : errno;
}

// Makes the rename itself durable. Not every file system can; the file is complete either way.
void sync_folder(const fs::path& folder) {
  Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) static_cast<void>(::fsync(descriptor.get()));
}

const char* non_empty_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::size_t max_bytes) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return input_error("cannot read {}: {}", path.string(), errno_text(errno));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) {
    return input_error("cannot read {}: {}", path.string(), errno_text(errno));
  }
  if (S_ISDIR(status.st_mode)) return input_error("{} is a folder; name a file", path.string());
  if (!S_ISREG(status.st_mode)) {
    return input_error("{} is not a regular file; copy its contents to one", path.string());
  }
  const auto too_large = [&](double bytes) {
    return input_error("{} holds {} or more, above the limit of {} for this kind of file",
                       path.string(), format_bytes(bytes),
                       format_bytes(static_cast<double>(max_bytes)));
  };
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > max_bytes) return too_large(static_cast<double>(size));

  // The size is only a hint: files of /proc say 0, and others may grow while we read.
  std::string text(std::min(max_bytes, std::max<std::size_t>(size, 4096)) + 1, '\0');
  std::size_t filled = 0;
  while (true) {
    if (filled == text.size()) text.resize(std::min(max_bytes, 2 * filled) + 1);
    const ssize_t count = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return input_error("cannot read {}: {}", path.string(), errno_text(errno));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
    if (filled > max_bytes) return too_large(static_cast<double>(filled));
  }
  text.resize(filled);
  return text;
}

namespace {

// A text that lies complete beside its target, to be renamed over it or dropped.
class StagedFile {
 public:
  // A device needs no staging: it is written at once.
  static Result<StagedFile> stage(const fs::path& path, std::string_view text) {
    struct stat status = {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return cannot_write(path, EISDIR);
    StagedFile staged;
    staged.path_ = path;
    if (exists && !S_ISREG(status.st_mode)) {
      NIBBLE_RETURN_IF_ERROR(write_to_device(path, text));
      return staged;
    }
    // Through a symbolic link the file is replaced, not the link.
    std::error_code fault;
    const fs::path resolved = exists ? fs::canonical(path, fault) : path;
    staged.target_ = fault ? path : resolved;
    Descriptor file(open_temporary(staged.target_, staged.temporary_));
    if (file.get() < 0) {
      const int code = errno;
      staged.temporary_.clear();
      return cannot_write(path, code);
    }
    const auto mode = exists ? std::optional<mode_t>(status.st_mode & 07777U) : std::nullopt;
    if (const int code = fill(file, text, mode); code != 0) return cannot_write(path, code);
    return staged;
  }

  StagedFile(StagedFile&& other) noexcept
      : path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, fs::path())) {}
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<> commit() {
    if (temporary_.empty()) return {};
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) return cannot_write(path_, errno);
    temporary_.clear();
    sync_folder(target_.parent_path());
    return {};
  }

 private:
  StagedFile() = default;

  fs::path path_;
  fs::path target_;
  fs::path temporary_;  // empty: nothing to rename
};

}  // namespace

Result<> write_file(const fs::path& path, std::string_view text) {
  NIBBLE_ASSIGN_OR_RETURN(StagedFile staged, StagedFile::stage(path, text));
  return staged.commit();
}

Result<> write_files(std::span<const std::pair<fs::path, std::string>> files) {
  std::vector<StagedFile> staged;
  for (const auto& [path, text] : files) {
    NIBBLE_ASSIGN_OR_RETURN(StagedFile file, StagedFile::stage(path, text));
    staged.push_back(std::move(file));
  }
  for (StagedFile& file : staged) NIBBLE_RETURN_IF_ERROR(file.commit());
  return {};
}

fs::path cache_directory() {
  // The XDG specification tells programs to ignore relative paths.
  const char* xdg = non_empty_environment("XDG_CACHE_HOME");
  if (xdg != nullptr && fs::path(xdg).is_absolute()) return fs::path(xdg) / "nibble";
  if (const char* home = non_empty_environment("HOME")) return fs::path(home) / ".cache" / "nibble";
  return fs::path("/tmp") / fmt::format("nibble-{}", ::getuid());
}

}  // namespace nibble
