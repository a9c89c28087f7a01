#include "trace/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <zlib.h>

namespace nibble::trace {
namespace {

// zlib's reader passes what is no gzip through as it is.
class FileSource : public ByteSource {
 public:
  explicit FileSource(gzFile file) : file_(file) { gzbuffer(file_, kBuffer); }
  ~FileSource() override { gzclose(file_); }

  std::size_t read(std::span<char> buffer) override {
    if (!fault_.empty()) return 0;
    const auto most = std::min<std::size_t>(buffer.size(), std::numeric_limits<int>::max());
    const int got = gzread(file_, buffer.data(), static_cast<unsigned>(most));
    if (got > 0) return static_cast<std::size_t>(got);
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) {
      fault_ = "its gzip data end early";
    } else if (code == Z_ERRNO) {
      fault_ = fmt::format("it cannot be read: {}", std::generic_category().message(errno));
    } else if (code != Z_OK && code != Z_STREAM_END) {
      fault_ = fmt::format("its gzip data are damaged ({})", text);
    }
    return 0;
  }
  std::string fault() const override { return fault_; }

 private:
  static constexpr unsigned kBuffer = 128 * 1024;

  gzFile file_;
  std::string fault_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(std::span<char> buffer) override {
    const std::size_t count = std::min(buffer.size(), bytes_.size());
    if (count > 0) std::memcpy(buffer.data(), bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return input_error("cannot read the trace {}: {}", path.string(),
                       std::generic_category().message(errno == 0 ? ENOMEM : errno));
  }
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(file));
}

std::unique_ptr<ByteSource> read_memory(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace nibble::trace
