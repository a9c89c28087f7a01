// Lines of a store into a file or onto standard output, written from one thread while others
// sample.
//
//   LineFile lines;
//   NIBBLE_RETURN_IF_ERROR(lines.open(store, "run.jsonl"));
//   while (!interrupted) NIBBLE_ASSIGN_OR_RETURN(const bool more, lines.write(interrupted));
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "telemetry/stream.h"

namespace nibble::telemetry {

// All of the text to a descriptor; nullopt, or the errno that ended it. Where nobody reads it
// waits, until `stop` is set: ECANCELED.
std::optional<int> write_all(int descriptor, std::string_view text, const std::atomic<bool>& stop);

class LineFile {
 public:
  LineFile() = default;
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends to the file; "-" is standard output. An empty path takes and writes nothing.
  Result<> open(std::shared_ptr<SampleStore> store, const std::string& path);
  bool is_open() const { return feed_.has_value(); }
  // What came since the last call. False: the reader of standard output has seen enough, or
  // nobody read and `stop` was set.
  Result<bool> write(const std::atomic<bool>& stop);

 private:
  std::string name_;
  int descriptor_ = -1;
  bool own_ = false;
  std::optional<LineFeed> feed_;
};

}  // namespace nibble::telemetry
