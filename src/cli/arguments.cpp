#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text.h"
#include "cli/command.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kLargestInteger = INT64_C(1)
                                         << 40;  // default upper end of Arguments::integer
constexpr std::size_t kMostListEntries = 4096;

// The whole text as a number: no sign but '-', no spaces, nothing after it, no overflow.
template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

std::optional<double> parse_finite(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

// " above 0 and at most 1"; an infinite end is not named.
std::string describe_range(double min, double max, bool min_excluded) {
  std::string text;
  if (std::isfinite(min)) text = fmt::format(" {} {}", min_excluded ? "above" : "of at least", min);
  if (!std::isfinite(max)) return text;
  return text + fmt::format(" {} {}", text.empty() ? "of at most" : "and at most", max);
}

// "1..64": both ends and the powers of two between them.
std::vector<std::int64_t> powers_of_two(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> values{first};
  for (std::int64_t power = 1; power < last; power *= 2) {
    if (power > first) values.push_back(power);
  }
  values.push_back(last);
  return values;
}

// One element of a list: "4" or "1..64"; nullopt when it is neither or out of range.
std::optional<std::vector<std::int64_t>> parse_element(std::string_view text, std::int64_t min) {
  const auto in_range = [min](const std::optional<std::int64_t>& value) {
    return value && *value >= min && *value <= kLargestInteger;
  };
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const std::optional<std::int64_t> value = parse_whole<std::int64_t>(text);
    if (!in_range(value)) return std::nullopt;
    return std::vector<std::int64_t>{*value};
  }
  const std::optional<std::int64_t> first = parse_whole<std::int64_t>(text.substr(0, dots));
  const std::optional<std::int64_t> last = parse_whole<std::int64_t>(text.substr(dots + 2));
  if (!in_range(first) || !in_range(last) || *first > *last) return std::nullopt;
  return powers_of_two(*first, *last);
}

}  // namespace

bool Arguments::has(std::string_view option) const {
  return given.find(option) != given.end();
}

std::optional<std::string> Arguments::text(std::string_view option) const {
  const auto found = given.find(option);
  if (found == given.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::all(std::string_view option) const {
  const auto found = given.find(option);
  return found == given.end() ? std::vector<std::string>{} : found->second;
}

Result<std::optional<std::int64_t>> Arguments::integer(std::string_view option, std::int64_t min,
                                                       std::int64_t max) const {
  const std::optional<std::string> given_text = text(option);
  if (!given_text) return std::optional<std::int64_t>();
  const std::optional<std::int64_t> value = parse_whole<std::int64_t>(*given_text);
  if (value && *value >= min && *value <= max) return value;
  if (max == kLargestInteger && (!value || *value < min)) {
    return usage_error("{} is \"{}\"; give a whole number of at least {}", option, *given_text,
                       min);
  }
  return usage_error("{} is \"{}\"; give a whole number from {} to {}", option, *given_text, min,
                     max);
}

Result<std::optional<double>> Arguments::number(std::string_view option, double min, double max,
                                                bool min_excluded) const {
  const std::optional<std::string> given_text = text(option);
  if (!given_text) return std::optional<double>();
  const std::optional<double> value = parse_finite(*given_text);
  if (value && *value <= max && (min_excluded ? *value > min : *value >= min)) return value;
  return usage_error("{} is \"{}\"; give a number{}", option, *given_text,
                     describe_range(min, max, min_excluded));
}

Result<std::optional<std::vector<std::int64_t>>> Arguments::integers(std::string_view option,
                                                                     std::int64_t min,
                                                                     std::int64_t max) const {
  using List = std::optional<std::vector<std::int64_t>>;
  const std::optional<std::string> given_text = text(option);
  if (!given_text) return List();
  std::vector<std::int64_t> values;
  for (const std::string& element : split(*given_text, ',')) {
    const std::optional<std::vector<std::int64_t>> more = parse_element(element, min);
    if (!more || *std::max_element(more->begin(), more->end()) > max) {
      return usage_error(
          "{} has \"{}\" in its list; give whole numbers from {} to {} as 1,2,4, or a range of "
          "powers of two as 1..64",
          option, element, min, max);
    }
    values.insert(values.end(), more->begin(), more->end());
    if (values.size() > kMostListEntries) {
      return usage_error("{} lists more than {} numbers; give fewer", option, kMostListEntries);
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return List(std::move(values));
}

}  // namespace nibble::cli
