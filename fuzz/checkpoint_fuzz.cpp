// The readers of checkpoints on any bytes: no crash and no hang, and what is taken keeps the
// promises that mapped data are read by.
//
// The first byte says what the rest is: 'i' an index (model.safetensors.index.json), 'h' the header
// of a safetensors file, anything else a whole safetensors file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"

namespace {

void check_error(const nibble::Error& error) {
  NIBBLE_CHECK(!error.message.empty() && error.kind == nibble::ErrorKind::kInput);
}

void check_index(std::string_view text) {
  const nibble::Result<nibble::ShardIndex> index = nibble::parse_shard_index(text, "index");
  if (!index.ok()) return check_error(index.error());
  NIBBLE_CHECK(!index->files.empty() && !index->entries.empty());
  NIBBLE_CHECK(std::is_sorted(index->files.begin(), index->files.end()));
  for (const std::string& file : index->files) {
    NIBBLE_CHECK(file.find('/') == std::string::npos && !file.starts_with('.'));
  }
  for (const nibble::ShardIndex::Entry& entry : index->entries) {
    NIBBLE_CHECK(entry.file < index->files.size());
  }
}

// Every tensor lies within the data, right behind the one before it, and has the bytes of its
// shape.
void check_header(const nibble::SafetensorsHeader& header) {
  std::uint64_t reached = 0;
  for (const nibble::TensorInfo& tensor : header.tensors) {
    NIBBLE_CHECK(tensor.begin == reached && tensor.end >= tensor.begin);
    NIBBLE_CHECK(nibble::tensor_bytes(tensor.dtype, tensor.shape) == tensor.bytes());
    reached = tensor.end;
  }
  NIBBLE_CHECK(reached == header.data_bytes);
}

void check_header_text(std::string_view text) {
  const nibble::Result<nibble::SafetensorsHeader> header =
      nibble::parse_safetensors_header(text, "header");
  if (!header.ok()) return check_error(header.error());
  check_header(*header);
}

void check_file(std::span<const std::byte> bytes) {
  constexpr std::size_t kLengthBytes = 8;
  const nibble::Result<std::uint64_t> length = nibble::parse_header_length(
      bytes.first(std::min(bytes.size(), kLengthBytes)), bytes.size(), "file");
  if (!length.ok()) return check_error(length.error());
  const std::span<const std::byte> text =
      bytes.subspan(kLengthBytes, static_cast<std::size_t>(*length));
  const nibble::Result<nibble::SafetensorsHeader> header = nibble::parse_safetensors_header(
      {reinterpret_cast<const char*>(text.data()), text.size()}, "file");
  if (!header.ok()) return check_error(header.error());
  check_header(*header);
  const nibble::Result<> size = nibble::check_file_size(*header, *length, bytes.size(), "file");
  if (!size.ok()) return check_error(size.error());
  NIBBLE_CHECK(kLengthBytes + *length + header->data_bytes == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'i') {
    check_index(rest);
  } else if (data[0] == 'h') {
    check_header_text(rest);
  } else {
    check_file(std::as_bytes(std::span(data, size).subspan(1)));
  }
  return 0;
}
