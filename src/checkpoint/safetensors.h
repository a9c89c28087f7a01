// One safetensors file: 8 bytes with the length of the header, the header (JSON), the data. The
// header is checked whole before any data can be asked for; data are mapped, or copied by read(),
// which alone bears that the file becomes shorter meanwhile.
//
//   NIBBLE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
//   for (const TensorInfo& tensor : file.tensors()) use(tensor.name, file.data(tensor));
//   NIBBLE_RETURN_IF_ERROR(file.read(file.tensors()[0], 0, buffer));
//
// Source of the format: github.com/huggingface/safetensors, README and safetensors/src/tensor.rs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/dtype.h"
#include "checkpoint/mapped_file.h"

namespace nibble {

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<std::int64_t> shape;  // outermost first; empty: a scalar
  std::uint64_t begin = 0;          // bytes from the start of the data
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
  std::uint64_t elements() const;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  std::uint64_t data_bytes = 0;     // what the tensors take together
};

// Longest header that the format allows.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// The length of the header from the first 8 bytes (fewer when the file is shorter), checked against
// the size of the file and kMaxHeaderBytes.
Result<std::uint64_t> parse_header_length(std::span<const std::byte> first_bytes,
                                          std::uint64_t file_size, std::string_view where);

// Checks everything that the header alone can tell: JSON without duplicate keys, known types,
// offsets that match shape and type, and data without overlap or gap.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view where);

// Whether the file holds exactly what the header promises; a shortened file is refused, by name and
// number of missing bytes.
Result<> check_file_size(const SafetensorsHeader& header, std::uint64_t header_length,
                         std::uint64_t file_size, std::string_view where);

// Whether an error of these functions says that bytes are missing at the end of the file.
bool says_truncated(const Error& error);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  // `tensor` is one of tensors(); valid as long as this file.
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  // Bytes of `tensor` from `offset` on, as many as `out` holds. An error when the file no longer
  // has them (says_truncated), or the device fails.
  Result<> read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  // Whether the file still is as long as when it was opened, so that data() may be touched.
  Result<> check_length() const;
  std::uint64_t file_bytes() const { return file_.bytes().size(); }
  std::uint64_t header_bytes() const { return file_bytes() - header_.data_bytes; }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header, std::string path)
      : file_(std::move(file)), header_(std::move(header)), path_(std::move(path)) {}
  std::uint64_t place(const TensorInfo& tensor) const;  // of its first byte in the file
  Error shortened() const;

  MappedFile file_;
  SafetensorsHeader header_;
  std::string path_;
};

}  // namespace nibble
