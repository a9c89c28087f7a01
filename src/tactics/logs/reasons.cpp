#include "tactics/logs/reasons.h"

#include <array>
#include <charconv>
#include <fmt/core.h>
#include <initializer_list>

#include "base/text.h"

namespace nibble::logs {
namespace {

constexpr std::size_t kMostReason = 240;  // columns of a reason that are kept

bool holds_any(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// The whole number right behind `before`, spaces skipped.
std::optional<std::int64_t> number_behind(std::string_view text, std::string_view before) {
  for (std::size_t at = text.find(before); at != std::string_view::npos;
       at = text.find(before, at + 1)) {
    std::string_view rest = text.substr(at + before.size());
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (fault == std::errc() && number >= 0) return number;
  }
  return std::nullopt;
}

// Three numbers with `separator` between them, right behind `before`.
std::optional<Tile> tile_behind(std::string_view text, std::string_view before,
                                std::string_view separator) {
  const std::size_t found = text.find(before);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(found + before.size());
  std::array<int, 3> sizes{};
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    if (index > 0) {
      if (!rest.starts_with(separator)) return std::nullopt;
      rest.remove_prefix(separator.size());
    }
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), sizes[index]);
    if (fault != std::errc() || sizes[index] <= 0) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  return Tile{.m = sizes[0], .n = sizes[1], .k = sizes[2]};
}

// In lower case, as classify looks at texts.
std::optional<Tile> find_tile(std::string_view text) {
  for (const std::string_view before : {"ctashape", "tile shape id: "}) {
    if (std::optional<Tile> tile = tile_behind(text, before, "x")) {
      tile->k_in_bytes = true;
      return tile;
    }
  }
  return tile_behind(text, "unsupported tile (", ", ");
}

// "TMA descriptor 715": the number is a CUDA error code (CUDA Runtime API, cudaError).
bool is_fault_code(std::optional<std::int64_t> code) {
  return code && (*code == 700 || *code == 714 || *code == 715 || *code == 716 || *code == 717 ||
                  *code == 718 || *code == 719);
}

bool read_shared(std::string_view text, Reason& reason) {
  if (text.find("shared memory") == std::string_view::npos &&
      text.find("allocated: ") == std::string_view::npos) {
    return false;
  }
  // Triton; TensorRT-LLM's guard (PR 12704, CUTLASS issue 3144); CuTe DSL (b12x issue 5).
  constexpr std::array<std::array<std::string_view, 2>, 3> kPairs = {{
      {"required: ", "hardware limit: "},
      {"requires ", "supports "},
      {"allocated: ", "max: "},
  }};
  for (const auto& [wanted, limit] : kPairs) {
    const auto bytes = number_behind(text, wanted);
    const auto most = number_behind(text, limit);
    if (!bytes || !most) continue;
    reason.wanted_bytes = bytes;
    reason.limit_bytes = most;
    return true;
  }
  return holds_any(text, {"lacks the shared memory", "out of resource: shared memory",
                          "exceeds the shared memory", "insufficient shared memory"});
}

ReasonClass class_of(std::string_view text) {
  if (holds_any(text, {"illegal memory access", "illegal instruction", "illegal address",
                       "illegaladdress", "illegalinstruction", "misaligned address",
                       "unspecified launch failure", "cudaerrorlaunchfailure"}) ||
      is_fault_code(number_behind(text, "tma descriptor "))) {
    return ReasonClass::kFault;
  }
  if (holds_any(text, {"out of memory", "outofmemory", "oom detected"})) {
    return ReasonClass::kMemory;
  }
  if (holds_any(text, {"timed out", "timeout"})) return ReasonClass::kTimeout;
  if (holds_any(text, {"unsupported tile", "no kernel image", "nokernelimage", "not supported",
                       "unsupported", "not implemented", "no valid", "could not find", "no kernel",
                       "misses a kernel"})) {
    return ReasonClass::kNoKernel;
  }
  if (holds_any(text, {"misaligned", "alignment", "must be divisible", "not divisible",
                       "divisible by", "multiple of"})) {
    return ReasonClass::kAlignment;
  }
  if (holds_any(text,
                {"failed to initialize", "kerrorinternal", "error internal", "failed to init"})) {
    return ReasonClass::kNotInitialised;
  }
  return ReasonClass::kUnknown;
}

struct ClassNames {
  ReasonClass kind;
  std::string_view text;
  std::string_view json;
};

constexpr std::array<ClassNames, 10> kClassNames = {{
    {ReasonClass::kNone, "", "none"},
    {ReasonClass::kSharedMemory, "shared memory", "shared_memory"},
    {ReasonClass::kFault, "illegal access", "fault"},
    {ReasonClass::kMemory, "GPU memory full", "memory"},
    {ReasonClass::kTimeout, "timeout", "timeout"},
    {ReasonClass::kNoKernel, "no kernel", "no_kernel"},
    {ReasonClass::kAlignment, "alignment", "alignment"},
    {ReasonClass::kNotInitialised, "not initialised", "not_initialised"},
    {ReasonClass::kUntuned, "untuned", "untuned"},
    {ReasonClass::kUnknown, "unknown", "unknown"},
}};

const ClassNames& names_of(ReasonClass kind) {
  for (const ClassNames& names : kClassNames) {
    if (names.kind == kind) return names;
  }
  return kClassNames.back();
}

}  // namespace

Reason classify(std::string_view text) {
  Reason reason;
  reason.text = printable(trim(text), kMostReason);
  const std::string lower = to_lower(text);
  reason.kind = read_shared(lower, reason) ? ReasonClass::kSharedMemory : class_of(lower);
  reason.tile = find_tile(lower);
  // CUTLASS's generated files of block-scaled kernels have "_BS_" in their names.
  reason.fp4 = holds_any(lower, {"fp4", "e2m1", "_bs_"});
  return reason;
}

std::string_view to_string(ReasonClass kind) {
  return names_of(kind).text;
}

std::string_view json_name(ReasonClass kind) {
  return names_of(kind).json;
}

std::string fp4_name(const Tile& tile) {
  return fmt::format("{}x{}x{}", tile.m, tile.n,
                     tile.k_in_bytes ? 2 * static_cast<std::int64_t>(tile.k) : tile.k);
}

}  // namespace nibble::logs
