// Bytes of a trace, one piece after the other: of a file, plain or gzip, or of memory.
//
//   NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, open_file("rank0.json.gz"));
//   while (const std::size_t got = source->read(buffer)) ...
//   if (!source->fault().empty()) ...        // "its gzip data end early", "cannot be read: ..."
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble::trace {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // 0 at the end, and after a fault.
  virtual std::size_t read(std::span<char> buffer) = 0;
  // Why reading ended before the end of the data; "" when it did not.
  virtual std::string fault() const { return {}; }
};

Result<std::unique_ptr<ByteSource>> open_file(const std::filesystem::path& path);
std::unique_ptr<ByteSource> read_memory(std::string_view bytes);  // which must outlive it

}  // namespace nibble::trace
