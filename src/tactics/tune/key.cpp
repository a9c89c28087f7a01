#include "tactics/tune/key.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/text.h"

namespace nibble::tune {
namespace {

constexpr double kMostCount = 1 << 20;
constexpr double kMostSide = 1 << 24;
constexpr double kMostUnits = 1 << 16;

Format read_format(ObjectReader& reader, const char* key) {
  const std::string name = reader.require_string(key);
  const auto format = format_from_string(name);
  if (!format) reader.fault_at(key, fmt::format("is \"{}\", which is no format", printable(name)));
  return format.value_or(Format::kBf16);
}

}  // namespace

std::string to_string(const TuningShape& shape) {
  return fmt::format("{} {} x [{}, {}] top {} {} x {}", shape.op, shape.experts, shape.n, shape.k,
                     shape.top_k, to_string(shape.format), to_string(shape.activations));
}

std::string to_string(const TuningKey& key) {
  return fmt::format("{}, {} {}", to_string(key.shape), key.tokens,
                     key.tokens == 1 ? "token" : "tokens");
}

std::vector<TuningKey> keys_of(const TuningShape& shape, std::vector<std::int64_t> tokens) {
  constexpr std::int64_t kWidest = 4;
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  std::vector<TuningKey> keys;
  std::int64_t before = 0;
  for (const std::int64_t most : tokens) {
    keys.push_back({shape, most, std::max(before + 1, most / kWidest + 1)});
    before = most;
  }
  return keys;
}

bool is_same_device(const TuningSite& made, const TuningSite& here) {
  return made.device == here.device && made.units == here.units;
}

std::string difference(const TuningSite& made, const TuningSite& here) {
  if (!is_same_device(made, here)) {
    return fmt::format("it was made on {} with {} units, and this is {} with {}",
                       printable(made.device), made.units, printable(here.device), here.units);
  }
  if (made.driver != here.driver) {
    return fmt::format("it was made with driver {}, and this is {}", printable(made.driver),
                       printable(here.driver));
  }
  if (made.kernel_version != here.kernel_version) {
    return fmt::format("it was made with kernels {}, and these are {}",
                       printable(made.kernel_version), printable(here.kernel_version));
  }
  return "";
}

Json to_json(const TuningKey& key) {
  return Json::object()
      .set("op", key.shape.op)
      .set("experts", key.shape.experts)
      .set("top_k", key.shape.top_k)
      .set("n", key.shape.n)
      .set("k", key.shape.k)
      .set("format", to_string(key.shape.format))
      .set("activations", to_string(key.shape.activations))
      .set("tokens", key.tokens)
      .set("from_tokens", key.from_tokens);
}

Result<TuningKey> parse_key(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  TuningKey key;
  key.shape.op = reader.require_string("op");
  if (key.shape.op.empty() || printable(key.shape.op) != key.shape.op) {
    reader.fault_at("op", "is no name of an operation");
  }
  key.shape.experts = reader.require_integer("experts", {1, kMostCount});
  key.shape.top_k = reader.require_integer("top_k", {1, kMostCount});
  key.shape.n = reader.require_integer("n", {1, kMostSide});
  key.shape.k = reader.require_integer("k", {1, kMostSide});
  key.shape.format = read_format(reader, "format");
  key.shape.activations = read_format(reader, "activations");
  key.tokens = reader.require_integer("tokens", {1, kMostSide});
  key.from_tokens = reader.require_integer("from_tokens", {1, kMostSide});
  if (key.shape.top_k > key.shape.experts) reader.fault_at("top_k", "is more than experts");
  if (key.from_tokens > key.tokens) reader.fault_at("from_tokens", "is more than tokens");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return key;
}

Json to_json(const TuningSite& site) {
  return Json::object()
      .set("device", site.device)
      .set("units", site.units)
      .set("driver", site.driver)
      .set("kernel_version", site.kernel_version);
}

Result<TuningSite> parse_site(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  TuningSite site;
  site.device = reader.require_string("device");
  site.units = reader.require_integer("units", {1, kMostUnits});
  site.driver = reader.require_string("driver");
  site.kernel_version = reader.require_string("kernel_version");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return site;
}

}  // namespace nibble::tune
