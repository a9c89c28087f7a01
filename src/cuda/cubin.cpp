#include "cuda/cubin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace nibble::cuda {
namespace {

// The ELF format, 64 bit, little endian; and what CUDA puts into it (names as in `readelf` and
// `cuobjdump -elf`, which print the same numbers).
constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kSectionBytes = 64;
constexpr std::size_t kSymbolBytes = 24;
constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint32_t kSectionNoBits = 8;
constexpr std::uint8_t kSymbolFunction = 2;
constexpr std::uint8_t kOtherEntry = 0x10;  // STO_CUDA_ENTRY: a __global__ function

// Attributes of .nv.info: a byte of form, a byte of attribute, then two bytes of value or of size.
constexpr std::uint8_t kFormSized = 4;
constexpr std::uint8_t kMaxThreads = 0x05;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kMinStackSize = 0x12;
constexpr std::uint8_t kParameter = 0x17;
constexpr std::uint8_t kRegisters = 0x2f;
constexpr std::uint8_t kParameterV2 = 0x45;  // where parameters exceed 4 KB

// From sm_90 on the driver keeps the first KiB of a block's shared memory, and counts it in the
// section of a kernel's static part.
constexpr std::string_view kReservedShared = ".nv.shared.reserved.0";
constexpr std::uint64_t kReservedSharedBytes = 1024;

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> data) : data_(data) {}
  std::size_t size() const { return data_.size(); }
  std::optional<Bytes> part(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > data_.size() || bytes > data_.size() - offset) return std::nullopt;
    return Bytes(data_.subspan(offset, bytes));
  }
  // Of a part that was checked to hold it.
  template <class T>
  T at(std::size_t offset) const {
    T value = 0;
    std::memcpy(&value, data_.data() + offset, sizeof(T));
    return value;
  }
  // Up to its zero, or to the end.
  std::string text_at(std::uint64_t offset) const {
    if (offset >= data_.size()) return "";
    const char* begin = reinterpret_cast<const char*>(data_.data()) + offset;
    return {begin, ::strnlen(begin, data_.size() - offset)};
  }

 private:
  std::span<const std::byte> data_;
};

struct Section {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  Bytes bytes;  // none where the file holds none
};

struct Attribute {
  std::uint8_t id = 0;
  Bytes payload;
};

Error damaged_cubin(const char* what) {
  return run_error("the cubin is damaged: {}; compile it again", what);
}

Result<std::vector<Section>> read_sections(Bytes image) {
  if (image.size() < kHeaderBytes || image.text_at(0).substr(0, 4) != "\177ELF") {
    return damaged_cubin("it is no ELF file");
  }
  if (image.at<std::uint8_t>(4) != 2 || image.at<std::uint8_t>(5) != 1 ||
      image.at<std::uint16_t>(18) != kMachineCuda) {
    return damaged_cubin("it is an ELF file of another machine");
  }
  const auto offset = image.at<std::uint64_t>(40);
  const auto count = image.at<std::uint16_t>(60);
  const auto names_index = image.at<std::uint16_t>(62);
  const auto table = image.part(offset, std::uint64_t{count} * kSectionBytes);
  if (!table || names_index >= count) return damaged_cubin("its section table is cut off");
  std::vector<Section> sections;
  std::vector<std::uint32_t> names;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * kSectionBytes;
    Section section{.type = table->at<std::uint32_t>(at + 4),
                    .size = table->at<std::uint64_t>(at + 32),
                    .link = table->at<std::uint32_t>(at + 40),
                    .bytes = Bytes({})};
    if (section.type != kSectionNoBits && section.type != 0) {
      const auto bytes = image.part(table->at<std::uint64_t>(at + 24), section.size);
      if (!bytes) return damaged_cubin("a section is cut off");
      section.bytes = *bytes;
    }
    names.push_back(table->at<std::uint32_t>(at));
    sections.push_back(std::move(section));
  }
  const Bytes strings = sections[names_index].bytes;
  for (std::size_t i = 0; i < count; ++i) sections[i].name = strings.text_at(names[i]);
  return sections;
}

const Section* find(const std::vector<Section>& sections, std::string_view name) {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const Section& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Result<std::vector<Attribute>> read_attributes(const Section* section) {
  std::vector<Attribute> attributes;
  if (section == nullptr) return attributes;
  const Bytes& bytes = section->bytes;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at < 4) return damaged_cubin("an attribute is cut off");
    const bool sized = bytes.at<std::uint8_t>(at) == kFormSized;
    const auto size = sized ? bytes.at<std::uint16_t>(at + 2) : std::uint16_t{0};
    const auto payload = bytes.part(at + 4, size);
    if (!payload) return damaged_cubin("an attribute is cut off");
    attributes.push_back({bytes.at<std::uint8_t>(at + 1), *payload});
    at += 4 + size;
  }
  return attributes;
}

int to_int(std::uint64_t value) {
  return static_cast<int>(std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));
}

// {symbol, number} of the attributes of the whole program.
int number_of_symbol(const std::vector<Attribute>& attributes, std::uint8_t id,
                     std::size_t symbol) {
  for (const Attribute& attribute : attributes) {
    if (attribute.id != id || attribute.payload.size() < 8) continue;
    if (attribute.payload.at<std::uint32_t>(0) != symbol) continue;
    return to_int(attribute.payload.at<std::uint32_t>(4));
  }
  return 0;
}

int max_threads_of(const std::vector<Attribute>& attributes) {
  for (const Attribute& attribute : attributes) {
    if (attribute.id != kMaxThreads || attribute.payload.size() < 12) continue;
    std::uint64_t threads = 1;
    for (const std::size_t at : {0U, 4U, 8U}) {
      threads =
          static_cast<std::uint64_t>(to_int(threads * attribute.payload.at<std::uint32_t>(at)));
    }
    return to_int(threads);
  }
  return 0;
}

// {index, ordinal, offset, size}: the size stands in the upper 14 of 32 bits, or in 16 of its own.
std::vector<int> parameters_of(const std::vector<Attribute>& attributes) {
  std::vector<std::pair<std::uint16_t, int>> found;  // ordinal, bytes
  for (const Attribute& attribute : attributes) {
    if (attribute.payload.size() < 12) continue;
    const auto ordinal = attribute.payload.at<std::uint16_t>(4);
    if (attribute.id == kParameter) {
      found.emplace_back(ordinal, to_int(attribute.payload.at<std::uint32_t>(8) >> 18));
    } else if (attribute.id == kParameterV2) {
      found.emplace_back(ordinal, to_int(attribute.payload.at<std::uint16_t>(8)));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<int> bytes;
  for (const auto& [ordinal, size] : found) bytes.push_back(size);
  return bytes;
}

int static_shared_of(const std::vector<Section>& sections, const std::string& kernel) {
  const Section* shared = find(sections, ".nv.shared." + kernel);
  if (shared == nullptr) return 0;
  const bool reserved = find(sections, kReservedShared) != nullptr;
  return to_int(shared->size - std::min(shared->size, reserved ? kReservedSharedBytes : 0));
}

Result<KernelResources> read_kernel(const std::vector<Section>& sections,
                                    const std::vector<Attribute>& program, std::size_t symbol,
                                    const std::string& name) {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<Attribute> own,
                          read_attributes(find(sections, ".nv.info." + name)));
  KernelResources kernel;
  kernel.name = name;
  kernel.registers = number_of_symbol(program, kRegisters, symbol);
  kernel.stack_bytes = std::max(number_of_symbol(program, kFrameSize, symbol),
                                number_of_symbol(program, kMinStackSize, symbol));
  kernel.static_shared_bytes = static_shared_of(sections, name);
  const Section* constants = find(sections, ".nv.constant0." + name);
  kernel.constant_bytes = constants != nullptr ? to_int(constants->size) : 0;
  kernel.max_threads = max_threads_of(own);
  kernel.parameter_bytes = parameters_of(own);
  return kernel;
}

}  // namespace

const KernelResources* Cubin::kernel(std::string_view name) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const KernelResources& k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

Result<std::vector<KernelResources>> read_kernels(std::span<const std::byte> image) {
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<Section> sections, read_sections(Bytes(image)));
  const Section* symbols = find(sections, ".symtab");
  if (symbols == nullptr || symbols->link >= sections.size()) {
    return damaged_cubin("it has no table of symbols");
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<Attribute> program,
                          read_attributes(find(sections, ".nv.info")));
  const Bytes& names = sections[symbols->link].bytes;
  std::vector<KernelResources> kernels;
  for (std::size_t i = 0; i < symbols->bytes.size() / kSymbolBytes; ++i) {
    const std::size_t at = i * kSymbolBytes;
    const bool function = (symbols->bytes.at<std::uint8_t>(at + 4) & 0xf) == kSymbolFunction;
    if (!function || (symbols->bytes.at<std::uint8_t>(at + 5) & kOtherEntry) == 0) continue;
    const std::string name = names.text_at(symbols->bytes.at<std::uint32_t>(at));
    NIBBLE_ASSIGN_OR_RETURN(KernelResources kernel, read_kernel(sections, program, i, name));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace nibble::cuda
