#include "diagnose/read_level.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/json_parts.h"

namespace nibble::diagnose {

std::size_t find_or_add_level(Evidence& evidence, std::string name, std::optional<double> users) {
  std::vector<LevelEvidence>& levels = evidence.levels;
  for (std::size_t index = 0; index < levels.size(); ++index) {
    const std::optional<double> known = levels[index].get(Fact::kUsers);
    if (users ? known == users : !known && levels[index].name == name) return index;
  }
  const auto later = std::find_if(levels.begin(), levels.end(), [&](const LevelEvidence& other) {
    const std::optional<double> known = other.get(Fact::kUsers);
    return users && (!known || *known > *users);
  });
  LevelEvidence fresh;
  fresh.name = std::move(name);
  const auto at = levels.insert(later, std::move(fresh));
  return static_cast<std::size_t>(at - levels.begin());
}

Result<> check_first_levels(const ReadContext& context, const Evidence& evidence) {
  if (evidence.levels.empty()) return {};
  return input_error(
      "{}: levels of load were read from another document already; give one load test or one case",
      context.name);
}

void fill_fact(LevelEvidence& level, Fact fact, Datum datum) {
  Datum& known = level[fact];
  if (known.known()) return;
  if (!datum.known() && !known.reason.empty()) return;
  known = std::move(datum);
}

Datum datum_of(double value, std::string source, Origin origin) {
  Datum datum = measured(value, std::move(source));
  datum.origin = origin;
  return datum;
}

std::string place_in(const ReadContext& context, std::string_view where) {
  return where.empty() ? context.name : fmt::format("{}: {}", context.name, where);
}

void FactWriter::put(Fact fact, std::optional<double> value, std::string_view member,
                     std::string_view reason) const {
  if (value && std::isfinite(*value)) {
    const std::string path = where.empty()    ? std::string(member)
                             : member.empty() ? where
                                              : fmt::format("{}.{}", where, member);
    fill_fact(level, fact, datum_of(*value, place_in(context, path), context.origin));
  } else {
    fill_fact(level, fact, missing(std::string(reason)));
  }
}

void add_source(Evidence& evidence, std::string_view what, const ReadContext& context,
                std::optional<std::string> when) {
  evidence.sources.push(Json::object()
                            .set("what", what)
                            .set("from", context.name)
                            .set("origin", to_string(context.origin))
                            .set("when", text_or_null(when.value_or(""))));
}

void derive_power_facts(LevelEvidence& level, const Setting& setting) {
  const std::optional<double> watts = level.get(Fact::kPower);
  if (watts && setting.power_limit_w && *setting.power_limit_w > 0) {
    const double share = *watts / *setting.power_limit_w;
    fill_fact(level, Fact::kPowerShare,
              derived(share, fmt::format("{} / the limit of {:.0f} W", level[Fact::kPower].source,
                                         *setting.power_limit_w)));
  } else {
    fill_fact(level, Fact::kPowerShare,
              missing(watts ? "the power limit is not known" : level[Fact::kPower].reason));
  }
  const std::optional<double> rate = level.get(Fact::kOutputRate);
  if (!level.joules_per_token && watts && rate && *rate > 0) {
    level.joules_per_token = *watts * static_cast<double>(setting.gpus) / *rate;
  }
}

}  // namespace nibble::diagnose
