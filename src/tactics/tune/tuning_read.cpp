// Reading a tuning file: whatever is in it, a value or one sentence.
#include <algorithm>
#include <fmt/core.h>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::tune {
namespace {

constexpr std::string_view kSchema = "nibble.tuning/1";
constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;
constexpr double kMostUnixSeconds = 1e12;
constexpr double kMostUs = 1e12;
constexpr double kMostRounds = 1e9;
constexpr double kMostRatio = 1e9;

// Reads a member by a parser of its own; its fault becomes the reader's.
template <class Value, class Parse>
Value read_with(ObjectReader& reader, const char* key, const Parse& parse) {
  const Json* json = reader.object(key);
  if (json == nullptr) {
    reader.fault_at(key, "is missing");
    return Value();
  }
  Result<Value> parsed = parse(*json, fmt::format("{}: {}", reader.where(), key));
  if (!parsed.ok()) {
    reader.fault(parsed.error());
    return Value();
  }
  return std::move(parsed).value();
}

AnyTactic read_tactic(ObjectReader& reader, const char* key, const std::string& op) {
  return read_with<AnyTactic>(reader, key, [&](const Json& json, const std::string& where) {
    return parse_tactic(json, op, where);
  });
}

std::optional<AnyTactic> read_optional_tactic(ObjectReader& reader, const char* key,
                                              const std::string& op) {
  reader.accept(key);
  if (!reader.has(key)) return std::nullopt;
  return read_tactic(reader, key, op);
}

// A member that repeats another one for people: it must say the same.
void check_text(ObjectReader& reader, const char* key, const std::string& follows) {
  const std::string text = reader.require_string(key);
  if (text == follows) return;
  reader.fault_at(key, fmt::format("is \"{}\", and the tactic beside it is {}: one was edited",
                                   printable(text), follows));
}

std::optional<Interval> read_interval(ObjectReader& reader, const char* key, double most) {
  const auto ends = reader.numbers(key, {.min = 0, .max = most});
  if (!ends) return std::nullopt;
  if (ends->size() != 2 || (*ends)[0] > (*ends)[1]) {
    reader.fault_at(key, "is no interval of two ascending numbers");
    return std::nullopt;
  }
  return Interval{(*ends)[0], (*ends)[1]};
}

Standing read_standing(ObjectReader& reader) {
  const std::string word = reader.require_string("standing");
  for (const Standing standing :
       {Standing::kChosen, Standing::kTied, Standing::kSlower, Standing::kDropped}) {
    if (word == to_string(standing)) return standing;
  }
  reader.fault_at("standing", fmt::format("is \"{}\", which is none", printable(word)));
  return Standing::kTied;
}

Result<TimedTactic> parse_timed(const Json& json, const std::string& op, const std::string& where) {
  ObjectReader reader(json, where);
  TimedTactic timed;
  timed.tactic = read_tactic(reader, "tactic", op);
  check_text(reader, "text", to_string(timed.tactic));
  CandidateTimes& times = timed.times;
  times.median_us = reader.require_number("median_us", {.min = 0, .max = kMostUs});
  times.interval_us = read_interval(reader, "interval_us", kMostUs);
  times.rounds = static_cast<std::size_t>(reader.require_integer("rounds", {0, kMostRounds}));
  times.ratio = reader.require_number("ratio", {.max = kMostRatio, .above = 0});
  times.ratio_interval = read_interval(reader, "ratio_interval", kMostRatio);
  times.standing = read_standing(reader);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return timed;
}

Result<RejectedTactic> parse_rejected(const Json& json, const std::string& op,
                                      const std::string& where) {
  ObjectReader reader(json, where);
  RejectedTactic rejected{.tactic = read_tactic(reader, "tactic", op),
                          .why = reader.require_string("why")};
  check_text(reader, "text", to_string(rejected.tactic));
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return rejected;
}

// A list whose items have a parser; the first fault becomes the reader's.
template <class Item, class Parse>
std::vector<Item> read_list(ObjectReader& reader, const char* key, const Parse& parse) {
  std::vector<Item> items;
  const Json* list = reader.array(key);
  if (list == nullptr) {
    reader.fault_at(key, "is missing");
    return items;
  }
  for (std::size_t at = 0; at < list->as_array().size(); ++at) {
    Result<Item> item =
        parse(list->as_array()[at], fmt::format("{}: {}[{}]", reader.where(), key, at));
    if (!item.ok()) {
      reader.fault(item.error());
      return items;
    }
    items.push_back(std::move(item).value());
  }
  return items;
}

void check_ties(ObjectReader& reader, const TuningEntry& entry) {
  const Json* list = reader.array("ties");
  if (list == nullptr) return reader.fault_at("ties", "is missing");
  Json follows = Json::array();
  for (const std::string& name : entry.ties()) follows.push(name);
  if (list->dump() != follows.dump()) {
    reader.fault_at("ties", "are not those whose standing is \"tied\": one was edited");
  }
}

void read_results(ObjectReader& reader, TuningEntry& entry) {
  const std::string& op = entry.key.shape.op;
  entry.choice = read_optional_tactic(reader, "choice", op);
  entry.fallback = read_tactic(reader, "default", op);
  entry.runner_up = read_optional_tactic(reader, "runner_up", op);
  entry.gain = reader.require_number("gain", {.min = -kMostRatio, .max = 1});
  entry.regret = reader.require_number("regret_of_default", {.min = -1, .max = kMostRatio});
  entry.rounds = static_cast<std::size_t>(reader.require_integer("rounds", {0, kMostRounds}));
  entry.times = read_list<TimedTactic>(
      reader, "times",
      [&](const Json& json, const std::string& where) { return parse_timed(json, op, where); });
  const auto rejected = [&](const Json& json, const std::string& where) {
    return parse_rejected(json, op, where);
  };
  entry.rejected = read_list<RejectedTactic>(reader, "rejected", rejected);
  entry.infeasible = read_list<RejectedTactic>(reader, "infeasible", rejected);
  entry.note = reader.require_string("note");
  if (entry.choice) {
    check_text(reader, "choice_text", to_string(*entry.choice));
  } else if (const auto text = reader.string("choice_text")) {
    reader.fault_at("choice_text",
                    fmt::format("is \"{}\", and there is no choice", printable(*text)));
  }
  check_text(reader, "default_text", to_string(entry.fallback));
  check_ties(reader, entry);
}

Result<TuningEntry> parse_entry(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  TuningEntry entry;
  entry.key = read_with<TuningKey>(reader, "key", [](const Json& key, const std::string& place) {
    return parse_key(key, place);
  });
  entry.routing = reader.require_string("routing");
  entry.taken_unix_s = reader.require_number("taken_unix_s", {0, kMostUnixSeconds});
  entry.replays = static_cast<int>(reader.require_integer("replays", {0, 1e6}));
  const auto checked = reader.numbers("checked_tokens", {1, 1 << 24});
  if (!checked) reader.fault_at("checked_tokens", "is missing");
  for (const double tokens : checked.value_or(std::vector<double>())) {
    entry.checked_tokens.push_back(static_cast<std::int64_t>(tokens));
  }
  read_results(reader, entry);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  const std::string odd = contradiction(entry);
  if (!odd.empty()) {
    return input_error("{} contradicts itself: {}; only what nibble tune wrote is taken", where,
                       odd);
  }
  return entry;
}

// What a choice was timed for must not stand twice: which of both would hold?
Result<> check_unique(const std::vector<TuningEntry>& entries, const std::string& where) {
  for (std::size_t at = 0; at < entries.size(); ++at) {
    for (std::size_t other = 0; other < at; ++other) {
      if (!entries[at].key.is_same(entries[other].key)) continue;
      return input_error("{}: entries[{}] and entries[{}] are both of {}", where, other, at,
                         to_string(entries[at].key));
    }
  }
  return {};
}

}  // namespace

Result<TuningFile> parse_tuning(const Json& json, const std::string& where) {
  const Json* schema = json.find("schema");
  if (schema == nullptr || !schema->is_string()) {
    return input_error("{} is no tuning file: it has no \"schema\"", where);
  }
  if (schema->as_string() != kSchema) {
    return input_error("{} is \"{}\", and this nibble reads {}", where,
                       printable(schema->as_string()), kSchema);
  }
  ObjectReader reader(json, where);
  reader.accept("schema");
  TuningFile file;
  file.version = reader.require_string("version");
  file.command = reader.require_string("command");
  file.site = read_with<TuningSite>(reader, "site", [](const Json& site, const std::string& place) {
    return parse_site(site, place);
  });
  file.compiler = reader.require_string("compiler");
  file.began_unix_s = reader.require_number("began_unix_s", {0, kMostUnixSeconds});
  file.taken_unix_s = reader.require_number("taken_unix_s", {0, kMostUnixSeconds});
  file.entries = read_list<TuningEntry>(reader, "entries", parse_entry);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  NIBBLE_RETURN_IF_ERROR(check_unique(file.entries, where));
  return file;
}

Result<TuningFile> read_tuning(const std::filesystem::path& path, std::string_view remedy) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return input_error("there is no tuning file {}; nibble tune --output writes one",
                       path.string());
  }
  const auto parsed = [&]() -> Result<TuningFile> {
    NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostFileBytes));
    NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path.string()));
    return parse_tuning(json, path.string());
  };
  Result<TuningFile> file = parsed();
  if (file.ok()) return file;
  return input_error("{}; {}", file.error().message, remedy);
}

}  // namespace nibble::tune
