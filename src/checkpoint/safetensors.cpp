#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "base/text.h"

namespace nibble {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxRank = 16;
constexpr std::string_view kTruncated = " is truncated: ";

template <class... Args>
Error truncated(std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  return input_error("{}{}{}; fetch it again", where, kTruncated,
                     fmt::format(format, std::forward<Args>(args)...));
}

// Reads one entry: {"dtype": "BF16", "shape": [128, 2048], "data_offsets": [0, 524288]}.
class EntryReader {
 public:
  EntryReader(const std::string& name, std::string_view where) : name_(name), where_(where) {}

  Result<TensorInfo> read(const Json& entry) const;

 private:
  template <class... Args>
  Error fault(fmt::format_string<Args...> format, Args&&... args) const {
    return input_error("{}: tensor \"{}\" {}", where_, printable(name_),
                       fmt::format(format, std::forward<Args>(args)...));
  }
  Result<std::vector<std::int64_t>> read_integers(const Json* list, std::string_view key) const;
  Result<> check_bytes(const TensorInfo& tensor) const;

  const std::string& name_;
  std::string_view where_;
};

Result<std::vector<std::int64_t>> EntryReader::read_integers(const Json* list,
                                                             std::string_view key) const {
  if (list == nullptr) return fault("has no list \"{}\"", key);
  if (!list->is_array()) {
    return fault("has a \"{}\" that must be a list, found {}", key, list->kind_name());
  }
  if (list->as_array().size() > kMaxRank) {
    return fault("has {} dimensions; at most {} are read", list->as_array().size(), kMaxRank);
  }
  std::vector<std::int64_t> numbers;
  numbers.reserve(list->as_array().size());
  for (const Json& item : list->as_array()) {
    if (!item.is_integer() || item.as_integer() < 0) {
      return fault("has a \"{}\" that holds something else than whole numbers from 0 on", key);
    }
    numbers.push_back(item.as_integer());
  }
  return numbers;
}

Result<> EntryReader::check_bytes(const TensorInfo& tensor) const {
  const std::optional<std::uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes) {
    return fault("is {} {}, which no file holds in whole bytes", to_string(tensor.dtype),
                 shape_text(tensor.shape));
  }
  if (tensor.end < tensor.begin) {
    return fault("ends at byte {}, before it begins at {}", tensor.end, tensor.begin);
  }
  if (*bytes != tensor.bytes()) {
    return fault("is {} {}, {} bytes, but its offsets [{}, {}] span {}", to_string(tensor.dtype),
                 shape_text(tensor.shape), *bytes, tensor.begin, tensor.end, tensor.bytes());
  }
  return {};
}

Result<TensorInfo> EntryReader::read(const Json& entry) const {
  if (!entry.is_object()) return fault("must be an object, found {}", entry.kind_name());
  const Json* dtype = entry.find("dtype");
  if (dtype == nullptr) return fault("has no \"dtype\"");
  if (!dtype->is_string()) {
    return fault("has a \"dtype\" that must be a string, found {}", dtype->kind_name());
  }
  const std::optional<Dtype> known = dtype_from_string(dtype->as_string());
  if (!known) {
    return fault("has the unknown dtype \"{}\"; nibble may be older than the file",
                 printable(dtype->as_string()));
  }
  TensorInfo tensor;
  tensor.name = name_;
  tensor.dtype = *known;
  NIBBLE_ASSIGN_OR_RETURN(tensor.shape, read_integers(entry.find("shape"), "shape"));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> offsets,
                          read_integers(entry.find("data_offsets"), "data_offsets"));
  if (offsets.size() != 2) return fault("has {} data_offsets; two are needed", offsets.size());
  tensor.begin = static_cast<std::uint64_t>(offsets[0]);
  tensor.end = static_cast<std::uint64_t>(offsets[1]);
  NIBBLE_RETURN_IF_ERROR(check_bytes(tensor));
  return tensor;
}

// Each tensor begins where the one before it ends; sorts them by their place.
Result<std::uint64_t> check_layout(std::vector<TensorInfo>& tensors, std::string_view where) {
  const auto before = [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::stable_sort(tensors.begin(), tensors.end(), before);
  }
  std::uint64_t reached = 0;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < reached) {
      return input_error("{}: tensors \"{}\" and \"{}\" overlap at byte {} of the data", where,
                         printable(last->name), printable(tensor.name), tensor.begin);
    }
    if (tensor.begin > reached) {
      return input_error("{}: bytes {} to {} of the data belong to no tensor (\"{}\" comes next)",
                         where, reached, tensor.begin, printable(tensor.name));
    }
    reached = tensor.end;
    last = &tensor;
  }
  return reached;
}

Result<> check_metadata(const Json& metadata, std::string_view where) {
  if (!metadata.is_object()) {
    return input_error("{}: \"__metadata__\" must be an object, found {}", where,
                       metadata.kind_name());
  }
  for (const auto& [key, value] : metadata.as_object()) {
    if (value.is_string()) continue;
    return input_error("{}: \"__metadata__\" holds {} as \"{}\"; only strings are allowed", where,
                       value.kind_name(), printable(key));
  }
  return {};
}

// The same sentence whichever byte is missed: it names the file once, however many tensors miss it.
Error shortened_file(std::string_view where, std::uint64_t bytes) {
  return truncated(where, "it had {} bytes when it was opened and has become shorter since", bytes);
}

Result<std::size_t> read_within(const MappedFile& file, std::uint64_t offset,
                                std::span<std::byte> out, std::string_view where) {
  Result<std::size_t> got = file.read(offset, out);
  if (!got.ok()) return got.error().within(where);
  return got;
}

}  // namespace

bool says_truncated(const Error& error) {
  return error.message.find(kTruncated) != std::string::npos;
}

std::uint64_t TensorInfo::elements() const {
  std::uint64_t product = 1;  // the header's checks have ruled out an overflow
  for (const std::int64_t size : shape) product *= static_cast<std::uint64_t>(size);
  return product;
}

Result<std::uint64_t> parse_header_length(std::span<const std::byte> first_bytes,
                                          std::uint64_t file_size, std::string_view where) {
  if (file_size < kLengthBytes || first_bytes.size() < kLengthBytes) {
    return truncated(
        where,
        "it has {} bytes, and a safetensors file begins with 8 that state the header's length",
        file_size);
  }
  std::uint64_t length = 0;
  for (std::size_t index = kLengthBytes; index-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(first_bytes[index]);
  }
  if (length > kMaxHeaderBytes) {
    return input_error(
        "{}: the header would have {} bytes, more than the {} that the format allows; this is no "
        "safetensors file",
        where, length, kMaxHeaderBytes);
  }
  if (length > file_size - kLengthBytes) {
    return truncated(where, "its header has {} bytes, of which the file of {} bytes holds {}",
                     length, file_size, file_size - kLengthBytes);
  }
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view where) {
  if (!json.starts_with('{')) {
    return input_error("{}: the header does not begin with \"{{\"; this is no safetensors file",
                       where);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json document, Json::parse(json, where));
  SafetensorsHeader header;
  header.tensors.reserve(document.as_object().size());
  for (const auto& [name, entry] : document.as_object()) {
    if (name == "__metadata__") {
      NIBBLE_RETURN_IF_ERROR(check_metadata(entry, where));
      continue;
    }
    NIBBLE_ASSIGN_OR_RETURN(TensorInfo tensor, EntryReader(name, where).read(entry));
    header.tensors.push_back(std::move(tensor));
  }
  NIBBLE_ASSIGN_OR_RETURN(header.data_bytes, check_layout(header.tensors, where));
  return header;
}

Result<> check_file_size(const SafetensorsHeader& header, std::uint64_t header_length,
                         std::uint64_t file_size, std::string_view where) {
  // Offsets are below 2^63 and the header's length below 2^27: the sum does not overflow.
  const std::uint64_t promised = kLengthBytes + header_length + header.data_bytes;
  if (file_size < promised) {
    return truncated(where, "its header promises {} bytes and the file has {}, {} fewer", promised,
                     file_size, promised - file_size);
  }
  if (file_size > promised) {
    return input_error("{}: {} bytes follow the last tensor and belong to none", where,
                       file_size - promised);
  }
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const std::string where = path.string();
  const std::uint64_t size = file.bytes().size();
  std::array<std::byte, kLengthBytes> prefix = {};
  NIBBLE_ASSIGN_OR_RETURN(const std::size_t first, read_within(file, 0, prefix, where));
  NIBBLE_ASSIGN_OR_RETURN(const std::uint64_t length,
                          parse_header_length(std::span(prefix).first(first), size, where));
  std::string text(static_cast<std::size_t>(length), '\0');
  NIBBLE_ASSIGN_OR_RETURN(
      const std::size_t got,
      read_within(file, kLengthBytes, std::as_writable_bytes(std::span(text)), where));
  if (got < text.size()) return shortened_file(where, size);
  NIBBLE_ASSIGN_OR_RETURN(SafetensorsHeader header, parse_safetensors_header(text, where));
  NIBBLE_RETURN_IF_ERROR(check_file_size(header, length, size, where));
  return SafetensorsFile(std::move(file), std::move(header), where);
}

std::uint64_t SafetensorsFile::place(const TensorInfo& tensor) const {
  NIBBLE_CHECK(tensor.begin <= tensor.end && tensor.end <= header_.data_bytes);
  return file_bytes() - header_.data_bytes + tensor.begin;
}

Error SafetensorsFile::shortened() const {
  return shortened_file(path_, file_bytes());
}

std::span<const std::byte> SafetensorsFile::data(const TensorInfo& tensor) const {
  return file_.bytes().subspan(static_cast<std::size_t>(place(tensor)),
                               static_cast<std::size_t>(tensor.bytes()));
}

Result<> SafetensorsFile::read(const TensorInfo& tensor, std::uint64_t offset,
                               std::span<std::byte> out) const {
  NIBBLE_CHECK(offset <= tensor.bytes() && out.size() <= tensor.bytes() - offset);
  NIBBLE_ASSIGN_OR_RETURN(const std::size_t got,
                          read_within(file_, place(tensor) + offset, out, path_));
  if (got < out.size()) return shortened();
  return {};
}

Result<> SafetensorsFile::check_length() const {
  if (file_.bytes_now() < file_bytes()) return shortened();
  return {};
}

}  // namespace nibble
