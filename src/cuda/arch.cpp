#include "cuda/arch.h"

#include <charconv>
#include <fmt/core.h>
#include <utility>

namespace nibble::cuda {
namespace {

constexpr std::string_view kReal = "sm_";
constexpr std::string_view kVirtual = "compute_";

}  // namespace

std::string Arch::target() const {
  return fmt::format("{}{}{}", kReal, number(), suffix == '\0' ? "" : std::string(1, suffix));
}

std::string Arch::name() const {
  return ptx ? std::string(kVirtual) + target().substr(kReal.size()) : target();
}

std::optional<Arch> parse_arch(std::string_view text) {
  Arch arch{.ptx = text.starts_with(kVirtual)};
  if (!arch.ptx && !text.starts_with(kReal)) return std::nullopt;
  text.remove_prefix(arch.ptx ? kVirtual.size() : kReal.size());
  if (text.ends_with('a') || text.ends_with('f')) {
    arch.suffix = text.back();
    text.remove_suffix(1);
  }
  if (text.size() < 2 || text.size() > 3 || text.front() == '0') return std::nullopt;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  arch.major = static_cast<int>(number / 10);
  arch.minor = static_cast<int>(number % 10);
  return arch;
}

bool runs_on(const Arch& arch, int major, int minor) {
  const std::pair<int, int> gpu(major, minor);
  const std::pair<int, int> code(arch.major, arch.minor);
  if (arch.suffix == 'a') return code == gpu;
  if (arch.ptx && arch.suffix == '\0') return code <= gpu;
  return arch.major == major && arch.minor <= minor;
}

}  // namespace nibble::cuda
