#include "load/row_file.h"

#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/descriptor.h"
#include "base/units.h"
#include "load/record_json.h"

namespace nibble::load {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = 256 << 10;
constexpr std::size_t kReadBlock = 1 << 20;
// A row has about 12 bytes a token: this is an answer of 20 million of them.
constexpr std::size_t kLongestRow = 256 << 20;

}  // namespace

struct RowWriter::State {
  State(fs::path where, Descriptor opened) : path(std::move(where)), file(std::move(opened)) {}

  fs::path path;
  Descriptor file;
  std::mutex mutex;  // guards all below
  std::string buffer;
  std::int64_t buffered_rows = 0;
  std::int64_t kept_rows = 0;  // in the file
  off_t kept_bytes = 0;
  bool finished = false;
  std::optional<Error> fault;

  Result<> status() const { return fault ? Result<>(*fault) : Result<>(); }
  Result<> fail(int code, std::int64_t lost) {
    fault = run_error(
        "cannot write {}: {}; {} rows are kept there{}", path.string(), errno_text(code), kept_rows,
        lost == 0 ? std::string() : fmt::format(" and the {} after them are lost", lost));
    if (code == ENOSPC || code == EDQUOT) fault->message += "; make room or choose another folder";
    return *fault;
  }

  // Cuts off the row that fitted in part. Rows of this buffer that fitted whole are kept.
  Result<> keep_whole_rows(std::size_t written, int code) {
    const std::size_t newline = written == 0 ? std::string::npos : buffer.rfind('\n', written - 1);
    const std::size_t whole = newline == std::string::npos ? 0 : newline + 1;
    std::int64_t rows = 0;
    for (const char byte : std::string_view(buffer).substr(0, whole)) rows += byte == '\n' ? 1 : 0;
    kept_bytes += static_cast<off_t>(whole);
    kept_rows += rows;
    if (whole != written && ::ftruncate(file.get(), kept_bytes) != 0) {
      // The reader leaves a cut last line out by itself.
    }
    const std::int64_t lost = buffered_rows - rows;
    buffer.clear();
    buffered_rows = 0;
    return fail(code, lost);
  }

  Result<> flush() {
    if (fault) return *fault;
    std::size_t written = 0;
    while (written < buffer.size()) {
      const ssize_t count = ::write(file.get(), buffer.data() + written, buffer.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return keep_whole_rows(written, errno);
      written += static_cast<std::size_t>(count);
    }
    kept_bytes += static_cast<off_t>(written);
    kept_rows += buffered_rows;
    buffer.clear();
    buffered_rows = 0;
    return {};
  }
};

RowWriter::RowWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowWriter::RowWriter(RowWriter&&) noexcept = default;
RowWriter& RowWriter::operator=(RowWriter&&) noexcept = default;
RowWriter::~RowWriter() {
  if (state_ && !state_->finished) static_cast<void>(flush());
}

Result<RowWriter> RowWriter::create(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    return input_error("cannot write {}: {}; choose another place for the rows", path.string(),
                       errno_text(errno));
  }
  // Held until the file is closed: rows of two runs in one file are rows of none.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return input_error("{} is being written by another run; choose another place for the rows",
                       path.string());
  }
  // What has no length, such as /dev/stdout, is not cut.
  struct stat status = {};
  const bool regular = ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (regular && ::ftruncate(file.get(), 0) != 0) {
    return input_error("cannot empty {}: {}; choose another place for the rows", path.string(),
                       errno_text(errno));
  }
  return RowWriter(std::make_unique<State>(path, std::move(file)));
}

Result<> RowWriter::write(const RequestRecord& record) {
  std::string line;
  append_json_line(line, record);  // outside the lock: the costly part
  const std::lock_guard lock(state_->mutex);
  NIBBLE_RETURN_IF_ERROR(state_->status());
  NIBBLE_CHECK(!state_->finished);
  state_->buffer += line;
  ++state_->buffered_rows;
  return state_->buffer.size() >= kBuffer ? state_->flush() : Result<>();
}

Result<> RowWriter::flush() {
  const std::lock_guard lock(state_->mutex);
  return state_->flush();
}

Result<> RowWriter::finish() {
  const std::lock_guard lock(state_->mutex);
  if (state_->finished) return state_->status();
  const Result<> flushed = state_->flush();
  state_->finished = true;
  // Pipes and some file systems cannot sync: EINVAL and EROFS say that and lose nothing.
  const bool synced = ::fsync(state_->file.get()) == 0 || errno == EINVAL || errno == EROFS;
  const int sync_code = errno;
  const bool closed = state_->file.close();
  if (!flushed.ok()) return flushed;
  if (!synced) return state_->fail(sync_code, 0);
  if (!closed) return state_->fail(errno, 0);
  return {};
}

std::int64_t RowWriter::rows() const {
  const std::lock_guard lock(state_->mutex);
  return state_->kept_rows + state_->buffered_rows;
}

const fs::path& RowWriter::path() const {
  return state_->path;
}

std::string RowsRead::note() const {
  if (!cut) return "";
  return fmt::format(
      "the last line ends in the middle and is left out; the {} rows before it are whole", rows);
}

namespace {

// Cuts a file into lines; holds one line and one block.
class LineReader {
 public:
  LineReader(const fs::path& path, Descriptor file) : path_(path), file_(std::move(file)) {}

  // False at the end of the file. `whole`: the line had its newline.
  Result<bool> next(std::string_view& line, bool& whole) {
    buffer_.erase(0, std::exchange(consumed_, 0));
    std::size_t searched = 0;
    while (true) {
      const std::size_t newline = buffer_.find('\n', searched);
      whole = newline != std::string::npos;
      if (whole) return take(newline, newline + 1, line);
      searched = buffer_.size();
      if (searched > kLongestRow) {
        return input_error("{}: line {} is longer than {}", path_.string(), line_ + 1,
                           format_bytes(static_cast<double>(kLongestRow)));
      }
      NIBBLE_ASSIGN_OR_RETURN(const bool more, fill());
      if (more) continue;
      if (buffer_.empty()) return false;
      return take(buffer_.size(), buffer_.size(), line);
    }
  }
  std::int64_t line_number() const { return line_; }

 private:
  bool take(std::size_t length, std::size_t consumed, std::string_view& line) {
    line = std::string_view(buffer_).substr(0, length);
    consumed_ = consumed;
    ++line_;
    return true;
  }
  Result<bool> fill() {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kReadBlock);
    ssize_t count = 0;
    do {
      count = ::read(file_.get(), buffer_.data() + before, kReadBlock);
    } while (count < 0 && errno == EINTR);
    buffer_.resize(before + static_cast<std::size_t>(count < 0 ? 0 : count));
    if (count < 0) return input_error("cannot read {}: {}", path_.string(), errno_text(errno));
    return count > 0;
  }

  fs::path path_;
  Descriptor file_;
  std::string buffer_;
  std::size_t consumed_ = 0;
  std::int64_t line_ = 0;
};

}  // namespace

Result<RowsRead> for_each_row(const fs::path& path,
                              const std::function<Result<>(const RequestRecord&)>& each) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    return input_error("cannot read {}: {}", path.string(), errno_text(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return input_error("{} is no regular file; name a file of rows", path.string());
  }
  LineReader reader(path, std::move(file));
  RowsRead read;
  std::string_view line;
  bool whole = false;
  while (true) {
    NIBBLE_ASSIGN_OR_RETURN(const bool more, reader.next(line, whole));
    if (!more) return read;
    if (line.empty()) continue;
    const std::string origin = fmt::format("{}:{}", path.string(), reader.line_number());
    const Result<RequestRecord> record = parse_record(line, origin);
    if (!record.ok() && !whole) {
      read.cut = true;
      return read;
    }
    if (!record.ok()) return record.error();
    NIBBLE_RETURN_IF_ERROR(each(*record));
    ++read.rows;
  }
}

}  // namespace nibble::load
