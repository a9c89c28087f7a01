#include "base/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fmt/core.h>
#include <span>

namespace nibble {
namespace {

constexpr int kSignificant = 4;
constexpr int kSignificantOfRatio = 3;
constexpr double kSmallest = 1e-12;  // below it a number without exponent says nothing more than 0

std::string group_thousands(std::string number) {
  const std::size_t first = number.starts_with('-') ? 1 : 0;
  const std::size_t point = std::min(number.find('.'), number.size());
  for (std::size_t at = point; at > first + 3;) {
    at -= 3;
    number.insert(at, 1, ',');
  }
  return number;
}

// Decimal exponent of the value once it is rounded: 999.96 to four digits is 1000, thus 3.
int rounded_exponent(double value, int significant) {
  const std::string text = fmt::format("{:.{}e}", value, significant - 1);
  return std::atoi(text.c_str() + text.find('e') + 1);
}

// "1.597" of 1.597e12 with shift 12; digits before the point are kept in full.
std::string with_digits(double value, int significant, int shift) {
  const int exponent = rounded_exponent(value, significant);
  const int decimals = std::max(0, significant - 1 - (exponent - shift));
  return group_thousands(fmt::format("{:.{}f}", value / std::pow(10.0, shift), decimals));
}

std::string grouped_number(double value, int significant = kSignificant) {
  return group_thousands(format_number(value, significant));
}

bool has_no_digits(double value) {
  return !std::isfinite(value) || std::abs(value) < kSmallest;
}

// The value with the largest of `prefixes` (each a factor of 1000 above the one before) that leaves
// a digit before the point.
std::string with_prefix(double value, std::span<const std::string_view> prefixes,
                        std::string_view unit, int significant) {
  int step = 0;
  if (!has_no_digits(value)) {
    const int last = static_cast<int>(prefixes.size()) - 1;
    step = std::clamp(rounded_exponent(value, significant) / 3, 0, last);
  }
  const std::string number =
      step == 0 ? grouped_number(value, significant) : with_digits(value, significant, 3 * step);
  return fmt::format("{} {}{}", number, prefixes[static_cast<std::size_t>(step)], unit);
}

constexpr std::array<std::string_view, 6> kDecimalPrefixes = {"", "k", "M", "G", "T", "P"};

struct ScaledUnit {
  std::string_view name;
  double factor;
  std::string_view base;
};

constexpr ScaledUnit kScaledUnits[] = {{"B", 1, "B"},
                                       {"kB", kKilo, "B"},
                                       {"MB", kMega, "B"},
                                       {"GB", kGiga, "B"},
                                       {"TB", kTera, "B"},
                                       {"B/s", 1, "B/s"},
                                       {"kB/s", kKilo, "B/s"},
                                       {"MB/s", kMega, "B/s"},
                                       {"GB/s", kGiga, "B/s"},
                                       {"TB/s", kTera, "B/s"},
                                       {"FLOP", 1, "FLOP"},
                                       {"GFLOP", kGiga, "FLOP"},
                                       {"TFLOP", kTera, "FLOP"},
                                       {"FLOP/s", 1, "FLOP/s"},
                                       {"FLOPS", 1, "FLOPS"},
                                       {"GFLOPS", kGiga, "FLOPS"},
                                       {"TFLOPS", kTera, "FLOPS"},
                                       {"PFLOPS", 1e15, "FLOPS"}};

struct TimeUnit {
  std::string_view name;
  double microseconds;
};

constexpr TimeUnit kTimeUnits[] = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}};

// Words ("tokens", "rows") are counted; symbols ("W", "FLOP/B", "tok/s") are measured.
bool is_counted(std::string_view unit) {
  return std::all_of(unit.begin(), unit.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string append_unit(std::string number, std::string_view unit) {
  return unit.empty() ? number : fmt::format("{} {}", number, unit);
}

}  // namespace

std::string format_number(double value, int significant) {
  if (std::isnan(value)) return "n/a";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (std::abs(value) < kSmallest) return "0";
  if (value == std::trunc(value)) return fmt::format("{:.0f}", value);
  const int decimals = std::max(0, significant - 1 - rounded_exponent(value, significant));
  return fmt::format("{:.{}f}", value, decimals);
}

std::string format_bytes(double bytes, int significant) {
  return with_prefix(bytes, kDecimalPrefixes, "B", significant);
}

std::string format_time_us(double microseconds) {
  if (has_no_digits(microseconds)) return format_number(microseconds) + " us";
  constexpr double kMinute = 60e6;
  constexpr double kHour = 3600e6;
  const double magnitude = std::abs(microseconds);
  if (magnitude >= 2 * kHour) return with_digits(microseconds / kHour, kSignificant, 0) + " h";
  if (magnitude >= 2 * kMinute)
    return with_digits(microseconds / kMinute, kSignificant, 0) + " min";
  const int exponent = rounded_exponent(microseconds, kSignificant);
  // Steps of 1000 from nanoseconds (exponent -3) to seconds.
  const int step = std::clamp((exponent + 3) / 3, 0, 3);
  return fmt::format("{} {}", with_digits(microseconds, kSignificant, 3 * (step - 1)),
                     kTimeUnits[step].name);
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 5> kNames = {"", "", " M", " B", " T"};
  if (has_no_digits(count) || std::abs(count) < kMega) {
    // A fraction may round up to a million; it is then written out, which is still right.
    return grouped_number(count);
  }
  const int step = std::min(rounded_exponent(count, kSignificant) / 3, 4);
  return with_digits(count, kSignificant, 3 * step) +
         std::string(kNames[static_cast<std::size_t>(step)]);
}

std::string format_rate(double per_second, std::string_view unit, int significant) {
  return with_prefix(per_second, kDecimalPrefixes, unit, significant);
}

std::string format_percent(double ratio) {
  return format_quantity(ratio * 100, "%");
}

std::string format_compact(double value) {
  std::string text = format_number(value);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string format_share(double ratio) {
  if (!std::isfinite(ratio)) return format_percent(ratio);
  if (ratio > 0 && ratio < 0.0005) return "<0.1 %";
  return fmt::format("{:.1f} %", ratio * 100);
}

std::string format_quantity(double value, std::string_view unit) {
  for (const ScaledUnit& scaled : kScaledUnits) {
    if (scaled.name == unit) return format_rate(value * scaled.factor, scaled.base);
  }
  for (const TimeUnit& time : kTimeUnits) {
    if (time.name == unit) return format_time_us(value * time.microseconds);
  }
  if (unit == "ratio") return format_percent(value);
  if (unit == "%" || unit == "x") {
    if (has_no_digits(value)) return append_unit(format_number(value), unit);
    return append_unit(with_digits(value, kSignificantOfRatio, 0), unit);
  }
  return append_unit(is_counted(unit) ? format_count(value) : grouped_number(value), unit);
}

}  // namespace nibble
