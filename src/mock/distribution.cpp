#include "mock/distribution.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/ranges.h>
#include <optional>

#include "base/text.h"

namespace nibble::mock {
namespace {

constexpr std::size_t kLongestList = 1 << 20;

// A kind by its name, with the names of its numbers in a script.
struct KindRow {
  DistributionKind kind;
  const char* name;
  const char* first;
  const char* second;  // "": it has one number
};
constexpr std::array kKinds = {
    KindRow{DistributionKind::kConstant, "constant", "value", ""},
    KindRow{DistributionKind::kUniform, "uniform", "low", "high"},
    KindRow{DistributionKind::kNormal, "normal", "mean", "stddev"},
    KindRow{DistributionKind::kLognormal, "lognormal", "mean", "stddev"},
    KindRow{DistributionKind::kExponential, "exponential", "mean", ""},
    KindRow{DistributionKind::kGamma, "gamma", "mean", "stddev"},
};

const KindRow* find_kind(std::string_view name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const KindRow& row) { return name == row.name; });
  return found == kKinds.end() ? nullptr : found;
}

std::optional<double> to_number(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

double gamma_draw(Random& random, double shape) {
  // Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below shape 1 by
  // their boost: gamma(shape + 1) * U^(1 / shape).
  if (shape < 1) {
    const double boost = std::pow(open_uniform(random), 1 / shape);
    return gamma_draw(random, shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal_quantile(open_uniform(random));
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(open_uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

double lognormal_draw(Random& random, double mean, double stddev) {
  if (mean <= 0) return 0;
  const double variance = std::log1p((stddev / mean) * (stddev / mean));
  const double sigma = std::sqrt(variance);
  return mean * std::exp(sigma * normal_quantile(open_uniform(random)) - variance / 2);
}

// The clause that says what is wrong with the numbers of a distribution, or "".
std::string fault_of(const Distribution& distribution, DistributionRange range) {
  auto outside = [&](double value) {
    return value < range.min || value > range.max
               ? fmt::format("is {}; it must be from {} to {}", value, range.min, range.max)
               : std::string();
  };
  for (const double value : distribution.list) {
    if (std::string fault = outside(value); !fault.empty()) return fault;
  }
  if (distribution.kind == DistributionKind::kList) return "";
  if (std::string fault = outside(distribution.first); !fault.empty()) return fault;
  if (distribution.second < 0 || distribution.second > range.max) {
    return fmt::format("has {} as its second number; it must be from 0 to {}", distribution.second,
                       range.max);
  }
  if (distribution.kind == DistributionKind::kUniform && distribution.second < distribution.first) {
    return fmt::format("goes from {} down to {}; give the smaller first", distribution.first,
                       distribution.second);
  }
  // A spread beyond this is no gamma that a double draws well: its mass is all at 0.
  if (distribution.kind == DistributionKind::kGamma &&
      distribution.second > 30 * distribution.first) {
    return fmt::format("has a standard deviation of {}, above 30 times its mean of {}",
                       distribution.second, distribution.first);
  }
  return "";
}

constexpr const char* kForms =
    "give a number, uniform:LOW..HIGH, normal:MEAN,STDDEV, lognormal:MEAN,STDDEV, "
    "gamma:MEAN,STDDEV, exponential:MEAN or list:A,B,C";

std::optional<Distribution> read_flag(std::string_view text) {
  if (const auto value = to_number(text)) return Distribution::constant(*value);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, colon);
  std::string numbers(text.substr(colon + 1));
  if (name == "uniform") {
    if (const std::size_t dots = numbers.find(".."); dots != std::string::npos) {
      numbers.replace(dots, 2, ",");
    }
  }
  std::vector<double> values;
  for (const std::string& part : split(numbers, ',')) {
    const auto value = to_number(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (name == "list") return Distribution{.kind = DistributionKind::kList, .list = values};
  const KindRow* kind = find_kind(name);
  const std::size_t wanted = kind == nullptr ? 0 : (*kind->second == '\0' ? 1 : 2);
  if (values.size() != wanted || wanted == 0) return std::nullopt;
  return Distribution{
      .kind = kind->kind, .first = values[0], .second = wanted == 2 ? values[1] : 0};
}

Result<Distribution> read_object(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  const std::string name = reader.require_string("kind");
  const KindRow* kind = find_kind(name);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const KindRow& row : kKinds) names.emplace_back(row.name);
    reader.fault_at("kind", fmt::format("is \"{}\"; it must be one of {}", printable(name),
                                        fmt::join(names, ", ")));
    return reader.finish_lenient().error();
  }
  Distribution distribution{.kind = kind->kind, .first = reader.require_number(kind->first)};
  if (*kind->second != '\0') distribution.second = reader.require_number(kind->second);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return distribution;
}

Result<Distribution> read_list(const Json& json, const std::string& where) {
  Distribution distribution{.kind = DistributionKind::kList};
  for (const Json& item : json.as_array()) {
    if (!item.is_number()) {
      return input_error("{} must hold numbers only, found {}", where, item.kind_name());
    }
    distribution.list.push_back(item.as_number());
  }
  if (distribution.list.empty()) return input_error("{} is an empty list", where);
  if (distribution.list.size() > kLongestList) {
    return input_error("{} has {} numbers; the most is {}", where, distribution.list.size(),
                       kLongestList);
  }
  return distribution;
}

Result<Distribution> read_json(const Json& json, const std::string& where) {
  if (json.is_number()) return Distribution::constant(json.as_number());
  if (json.is_array()) return read_list(json, where);
  if (json.is_object()) return read_object(json, where);
  return input_error("{} must be a number, a list of numbers or an object with \"kind\", found {}",
                     where, json.kind_name());
}

}  // namespace

double open_uniform(Random& random) {
  return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1.0p-53;
}

std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t index, Draw purpose,
                          std::uint64_t part) {
  // Each step of SplitMix64 scatters all bits: sequences of neighbouring requests share nothing.
  Random first(seed);
  Random second(first.next() ^ index);
  Random third(second.next() ^ (static_cast<std::uint64_t>(purpose) + part));
  return third.next();
}

double Distribution::at(Random& random, std::uint64_t position) const {
  switch (kind) {
    case DistributionKind::kConstant:
      return first;
    case DistributionKind::kUniform:
      return first + (second - first) * random.uniform();
    case DistributionKind::kNormal:
      return std::max(0.0, first + second * normal_quantile(open_uniform(random)));
    case DistributionKind::kLognormal:
      return lognormal_draw(random, first, second);
    case DistributionKind::kExponential:
      return -first * std::log(open_uniform(random));
    case DistributionKind::kGamma: {
      if (first <= 0 || second <= 0) return first;
      const double shape = (first / second) * (first / second);
      return gamma_draw(random, shape) * first / shape;
    }
    case DistributionKind::kList:
      return list.empty() ? 0 : list[static_cast<std::size_t>(position % list.size())];
  }
  return first;
}

std::int64_t Distribution::count_at(Random& random, std::uint64_t position,
                                    std::int64_t least) const {
  constexpr double kMost = 1e12;  // far above any count, and exact in both types
  return std::max(least,
                  static_cast<std::int64_t>(std::llround(std::min(at(random, position), kMost))));
}

Result<Distribution> parse_distribution(std::string_view text, DistributionRange range) {
  const std::optional<Distribution> distribution = read_flag(text);
  if (!distribution) {
    return usage_error("is \"{}\"; {}", printable(text), kForms);
  }
  if (const std::string fault = fault_of(*distribution, range); !fault.empty()) {
    return usage_error("{}", fault);
  }
  return *distribution;
}

Result<Distribution> distribution_from_json(const Json& json, const std::string& where,
                                            DistributionRange range) {
  NIBBLE_ASSIGN_OR_RETURN(Distribution distribution, read_json(json, where));
  if (const std::string fault = fault_of(distribution, range); !fault.empty()) {
    return input_error("{} {}", where, fault);
  }
  return distribution;
}

Json to_json(const Distribution& distribution) {
  if (distribution.is_constant()) return Json(distribution.first);
  if (distribution.kind == DistributionKind::kList) {
    Json list = Json::array();
    for (const double value : distribution.list) list.push(value);
    return list;
  }
  Json json = Json::object();
  for (const KindRow& row : kKinds) {
    if (row.kind != distribution.kind) continue;
    json.set("kind", row.name).set(row.first, distribution.first);
    if (*row.second != '\0') json.set(row.second, distribution.second);
  }
  return json;
}

}  // namespace nibble::mock
