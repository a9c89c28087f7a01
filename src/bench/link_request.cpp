#include "bench/link_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/core.h>
#include <optional>

#include "base/text.h"
#include "base/units.h"

namespace nibble {
namespace {

struct SizeUnit {
  std::string_view name;  // lower case
  std::int64_t bytes;
};
constexpr std::array<SizeUnit, 4> kUnits = {
    {{"b", 1}, {"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}}};

// A whole number of at most nine digits, so that no product of it with a unit overflows.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  if (text.empty() || text.size() > 9 || text.front() == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> size_of(std::string_view text) {
  const std::string lower = to_lower(trim(text));
  const std::size_t digits = std::min(lower.find_first_not_of("0123456789"), lower.size());
  const std::optional<std::int64_t> number =
      whole_number(std::string_view(lower).substr(0, digits));
  const std::string_view unit = trim(std::string_view(lower).substr(digits));
  if (!number) return std::nullopt;
  if (unit.empty()) return number;
  for (const SizeUnit& known : kUnits) {
    if (unit == known.name) return *number * known.bytes;
  }
  return std::nullopt;
}

Error bad_sizes(std::string_view text) {
  return usage_error(
      "--sizes is \"{}\"; give sizes of {} to {} such as 2KB..64MB (doubling) or 4KB,1MB",
      printable(text), message_size_text(kLeastMessageBytes), message_size_text(kMostMessageBytes));
}

bool in_range(std::int64_t bytes) {
  return bytes >= kLeastMessageBytes && bytes <= kMostMessageBytes;
}

}  // namespace

Result<std::vector<int>> parse_link_devices(std::string_view text) {
  if (text == "all") return std::vector<int>();
  const auto bad = [&] {
    return usage_error("--on is \"{}\"; give at least two GPUs, each once, as in cuda:0,1, or all",
                       printable(text));
  };
  std::vector<int> devices;
  constexpr std::string_view kPrefix = "cuda:";
  if (text.substr(0, kPrefix.size()) != kPrefix) return bad();
  for (const std::string& part : split(text, ',')) {
    std::string_view number = trim(part);
    if (number.substr(0, kPrefix.size()) == kPrefix) number.remove_prefix(kPrefix.size());
    const std::optional<std::int64_t> ordinal = whole_number(number);
    constexpr std::int64_t kMostOrdinal = 1023;
    if (!ordinal || *ordinal > kMostOrdinal) return bad();
    const int device = static_cast<int>(*ordinal);
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) return bad();
    devices.push_back(device);
  }
  if (devices.size() < 2) return bad();
  if (devices.size() > kMostLinkDevices) {
    return usage_error("--on names {} GPUs; give at most {}", devices.size(), kMostLinkDevices);
  }
  return devices;
}

Result<std::vector<std::int64_t>> parse_message_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dots = part.find("..");
    const auto low = size_of(std::string_view(part).substr(0, dots));
    const auto high = dots == std::string::npos ? low : size_of(part.substr(dots + 2));
    if (!low || !high || !in_range(*low) || !in_range(*high) || *low > *high) {
      return bad_sizes(text);
    }
    for (std::int64_t size = *low; size <= *high; size *= 2) sizes.push_back(size);
    if (sizes.size() > 2 * kMostMessageSizes) break;  // refused below
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > kMostMessageSizes) {
    return usage_error("--sizes names more than {} sizes; give fewer", kMostMessageSizes);
  }
  return sizes;
}

std::string message_size_text(double bytes) {
  std::size_t unit = 0;
  constexpr double kStep = 1024;
  while (unit + 1 < kUnits.size() && bytes >= kStep) {
    bytes /= kStep;
    ++unit;
  }
  constexpr std::array<const char*, kUnits.size()> kNames = {"B", "KB", "MB", "GB"};
  return fmt::format("{} {}", format_compact(bytes), kNames[unit]);
}

}  // namespace nibble
