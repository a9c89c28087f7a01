#include "telemetry/line_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "base/descriptor.h"
#include "telemetry/serve.h"

namespace nibble::telemetry {

std::optional<int> write_all(int descriptor, std::string_view text, const std::atomic<bool>& stop) {
  constexpr int kPatience_ms = 100;
  while (!text.empty()) {
    pollfd ready = {.fd = descriptor, .events = POLLOUT, .revents = 0};
    const int count = ::poll(&ready, 1, kPatience_ms);
    if (count == 0 && stop) return ECANCELED;
    if (count <= 0) continue;
    // A pipe that is ready takes so much without blocking.
    const ssize_t written =
        ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return errno;
    }
  }
  return std::nullopt;
}

LineFile::~LineFile() {
  if (own_) ::close(descriptor_);
}

Result<> LineFile::open(std::shared_ptr<SampleStore> store, const std::string& path) {
  if (path.empty()) return {};
  own_ = path != "-";
  name_ = own_ ? path : "standard output";
  descriptor_ = STDOUT_FILENO;
  if (own_) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    own_ = descriptor_ >= 0;
    if (!own_) {
      return input_error("{}: {}; give a file that can be written", path, errno_text(errno));
    }
  }
  feed_.emplace(std::move(store), host_name());
  return {};
}

Result<bool> LineFile::write(const std::atomic<bool>& stop) {
  if (!feed_) return true;
  const std::optional<int> fault = write_all(descriptor_, feed_->take(), stop);
  if (fault == ECANCELED || (fault == EPIPE && !own_)) return false;
  if (fault) return run_error("{}: {}; what came before is kept", name_, errno_text(*fault));
  if (feed_->overrun()) {
    return run_error("{}: it took nothing for so long that samples are lost", name_);
  }
  return true;
}

}  // namespace nibble::telemetry
