// What the readers share: levels found by their load, facts filled in with their source.
//
//   const std::size_t at = find_or_add_level(evidence, "64 users", 64.0);
//   FactWriter writer{evidence.levels[at], context, "levels[3]"};
//   writer.put(Fact::kTtft, reader.number("mean_ttft_ms"), "mean_ttft_ms", "no latency");
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/evidence.h"
#include "diagnose/read_evidence.h"

namespace nibble::diagnose {

// Index of the level of that load; a new one stands by users, ascending, those without at the end.
// Levels of so many users are one level whatever they are called.
std::size_t find_or_add_level(Evidence& evidence, std::string name, std::optional<double> users);

// An error where levels were read already: two load tests, or a load test and a case, are two
// deployments.
Result<> check_first_levels(const ReadContext& context, const Evidence& evidence);

// Takes the datum where the level knows nothing yet; a reason replaces none.
void fill_fact(LevelEvidence& level, Fact fact, Datum datum);

Datum datum_of(double value, std::string source, Origin origin);

// Facts of one level out of one object of one document.
struct FactWriter {
  LevelEvidence& level;
  const ReadContext& context;
  std::string where;  // "levels[3].steady"

  void put(Fact fact, std::optional<double> value, std::string_view member,
           std::string_view reason) const;
};

// "load.json" and "levels[3]" -> "load.json: levels[3]".
std::string place_in(const ReadContext& context, std::string_view where);

// Adds to Evidence::sources what was read.
void add_source(Evidence& evidence, std::string_view what, const ReadContext& context,
                std::optional<std::string> when);

// Power of one GPU over its limit, where both are known; and joules a token of all of them.
void derive_power_facts(LevelEvidence& level, const Setting& setting);

}  // namespace nibble::diagnose
