#include "load/record_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "base/json.h"
#include "load/metrics_request.h"

namespace nibble::load {
namespace {

constexpr std::array<std::string_view, kOutcomes> kOutcomeNames = {
    "ok",           "resolve",
    "refused",      "connect_timeout",
    "tls",          "reset",
    "truncated",    "protocol",
    "http_status",  "error_event",
    "error_body",   "not_json",
    "no_tokens",    "first_byte_timeout",
    "idle_timeout", "total_timeout",
    "cancelled"};
constexpr std::array<std::string_view, 3> kKindNames = {"text", "reasoning", "tool"};
constexpr std::array<std::string_view, kTokenSources> kSourceNames = {"continuous_usage", "usage",
                                                                      "tokenizer", "events"};
constexpr std::string_view kEventsKey = "\"event_ns\":[";
constexpr Nanoseconds kLatestStamp = std::int64_t{1} << 62;  // 146 years of uptime
constexpr std::int64_t kMostInRun = 1'000'000'000'000'000;   // requests
constexpr std::int64_t kMostOfEvent = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostLevel = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostStatus = 999;

template <class Enum, std::size_t n>
std::optional<Enum> from_name(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t value = 0; value < n; ++value) {
    if (names[value] == name) return static_cast<Enum>(value);
  }
  return std::nullopt;
}

// Every field of a row but its events, in the order in which they are written: LineWriter and
// RowReader both go through this list.
template <class Fields, class Record>
void each_field(Fields& fields, Record& record) {
  fields.identity("level", record.level, kMostLevel);
  fields.identity("index", record.index, kMostInRun);
  fields.boolean("warmup", record.warmup);
  fields.name("outcome", record.outcome, kOutcomeNames);
  fields.whole("http_status", record.http_status, kMostStatus);
  fields.stamp("scheduled_ns", record.scheduled);
  fields.stamp("sent_ns", record.sent);
  fields.stamp("first_byte_ns", record.first_byte);
  fields.stamp("end_ns", record.end);
  fields.boolean("connected_anew", record.connected_anew);
  fields.whole("connect_ns", record.connect_time, kLatestStamp);
  fields.whole("prompt_tokens_asked", record.prompt_tokens_asked, kMostTokens);
  fields.whole("output_tokens_asked", record.output_tokens_asked, kMostTokens);
  fields.count("prompt_tokens", record.prompt_tokens);
  fields.count("output_tokens", record.output_tokens);
  fields.count("cached_tokens", record.cached_tokens);
  fields.count("reasoning_tokens", record.reasoning_tokens);
  fields.count("counted_tokens", record.counted_tokens);
  fields.name("token_source", record.token_source, kSourceNames);
  fields.text("message", record.message);
  fields.text("finish_reason", record.finish_reason);
  fields.boolean("streamed", record.streamed);
  fields.boolean("saw_done", record.saw_done);
  fields.boolean("data_after_done", record.data_after_done);
  fields.boolean("degenerate", record.degenerate);
  fields.boolean_if_known("prompt_repeated", record.prompt_repeated);
}

// Differences wrap around, so that any two stamps have one and adding it gives the stamp back.
std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

class LineWriter {
 public:
  explicit LineWriter(std::string& out) : out_(out) {}

  // The fields of each_field; their limits are the reader's affair.
  void whole(std::string_view key, std::int64_t value, std::int64_t) { put(key, value); }
  void identity(std::string_view key, std::int64_t value, std::int64_t) { put(key, value); }
  void count(std::string_view key, const std::optional<std::int64_t>& value) {
    if (value) return put(key, *value);
    put(key, "null");
  }
  void stamp(std::string_view key, Nanoseconds at) {
    count(key, at == 0 ? std::nullopt : std::optional(at));
  }
  void boolean(std::string_view key, bool value) { put(key, value); }
  void boolean_if_known(std::string_view key, const std::optional<bool>& value) {
    if (value) return put(key, *value);
    put(key, "null");
  }
  void text(std::string_view key, std::string_view value) { put(key, Json(value).dump(0)); }
  template <class Enum, class Names>
  void name(std::string_view key, Enum value, const Names&) {
    text(key, to_string(value));
  }

  // [count, value] for each run of equal values.
  template <class Value>
  void runs(std::string_view key, std::span<const TokenEvent> events, Value TokenEvent::*value) {
    fmt::format_to(std::back_inserter(out_), ",\"{}\":[", key);
    for (std::size_t at = 0; at < events.size();) {
      std::size_t next = at + 1;
      while (next < events.size() && events[next].*value == events[at].*value) ++next;
      fmt::format_to(std::back_inserter(out_), "{}[{},{}]", at == 0 ? "" : ",", next - at,
                     written(events[at].*value));
      at = next;
    }
    out_ += ']';
  }
  void event_stamps(Nanoseconds before, std::span<const TokenEvent> events) {
    fmt::format_to(std::back_inserter(out_), ",{}", kEventsKey);
    for (const TokenEvent& event : events) {
      if (out_.back() != '[') out_ += ',';
      fmt::format_to(std::back_inserter(out_), FMT_STRING("{}"),
                     wrapping_difference(event.at, before));
      before = event.at;
    }
    out_ += ']';
  }

 private:
  // `value` as it stands in JSON.
  template <class Value>
  void put(std::string_view key, const Value& value) {
    fmt::format_to(std::back_inserter(out_), ",\"{}\":{}", key, value);
  }
  static std::string written(std::optional<std::int32_t> tokens) {
    return tokens ? fmt::format("{}", *tokens) : "null";
  }
  static std::string written(TokenKind kind) { return fmt::format("\"{}\"", to_string(kind)); }

  std::string& out_;
};

// The list of stamps that append_json_line puts last, read without a tree of values: a row of a
// long answer is nearly nothing else. False when the line was written by somebody else.
bool split_event_stamps(std::string_view line, std::string_view& head,
                        std::vector<std::int64_t>& stamps) {
  const std::size_t key = line.rfind(kEventsKey);
  if (key == std::string_view::npos || key == 0 || line[key - 1] != ',') return false;
  head = line.substr(0, key - 1);
  std::string_view list = line.substr(key + kEventsKey.size());
  if (!list.ends_with("]}")) return false;
  list.remove_suffix(2);
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [stop, fault] = std::from_chars(at, end, value);
    if (fault != std::errc() || (stop < end && (*stop != ',' || stop + 1 == end))) return false;
    const char* const digits = *at == '-' ? at + 1 : at;
    if (*digits == '0' && stop > digits + 1) return false;  // 007 is no JSON
    stamps.push_back(value);
    at = stop + 1;
  }
  return true;
}

// Of an item of a list, as ObjectReader::integer reads a field: 8.0 is 8.
std::optional<std::int64_t> whole_number(const Json& json) {
  if (json.is_integer()) return json.as_integer();
  constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double skips integers
  if (!json.is_number() || std::abs(json.as_number()) > kExact) return std::nullopt;
  if (std::floor(json.as_number()) != json.as_number()) return std::nullopt;
  return static_cast<std::int64_t>(json.as_number());
}

bool list_of_integers(const Json* list, std::vector<std::int64_t>& values) {
  if (list == nullptr) return false;
  for (const Json& item : list->as_array()) {
    const std::optional<std::int64_t> value = whole_number(item);
    if (!value) return false;
    values.push_back(*value);
  }
  return true;
}

// Calls each(index, value) for every event; false when the runs are malformed or of another number.
template <class Each>
bool expand_runs(const Json* runs, std::size_t events, Each&& each) {
  if (runs == nullptr) return false;
  std::size_t index = 0;
  for (const Json& run : runs->as_array()) {
    if (!run.is_array() || run.as_array().size() != 2) return false;
    const std::int64_t count = whole_number(run.as_array()[0]).value_or(0);
    if (count <= 0 || static_cast<std::uint64_t>(count) > events - index) return false;
    for (std::int64_t step = 0; step < count; ++step) {
      if (!each(index++, run.as_array()[1])) return false;
    }
  }
  return index == events;
}

class RowReader {
 public:
  RowReader(const Json& json, std::string_view origin) : reader_(json, std::string(origin)) {}

  // `stamps`: of event_ns, where the line was split.
  Result<RequestRecord> read(std::optional<std::vector<std::int64_t>> stamps) {
    if (reader_.require_integer("v") != 1) reader_.fault_at("v", "is of a version other than 1");
    each_field(*this, record_);
    if (stamps && reader_.has("event_ns")) reader_.fault_at("event_ns", "is there twice");
    if (!stamps && !list_of_integers(reader_.array("event_ns"), stamps.emplace())) {
      reader_.fault_at("event_ns", "must be a list of whole numbers");
    }
    events(*stamps);
    check_order();
    NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
    return std::move(record_);
  }

  // The fields of each_field. What the line lacks keeps the value of a new record; identities and
  // names must be there.
  template <class Integer>
  void identity(std::string_view key, Integer& value, std::int64_t most) {
    value = static_cast<Integer>(reader_.require_integer(key, up_to(most)));
  }
  template <class Integer>
  void whole(std::string_view key, Integer& value, std::int64_t most) {
    if (const auto found = reader_.integer(key, up_to(most))) value = static_cast<Integer>(*found);
  }
  void stamp(std::string_view key, Nanoseconds& at) { whole(key, at, kLatestStamp); }
  void count(std::string_view key, std::optional<std::int64_t>& value) {
    value = reader_.integer(key, up_to(kMostTokens));
  }
  void boolean(std::string_view key, bool& value) { value = reader_.boolean(key).value_or(value); }
  void boolean_if_known(std::string_view key, std::optional<bool>& value) {
    value = reader_.boolean(key);
  }
  void text(std::string_view key, std::string& value) {
    value = reader_.string(key).value_or(value);
  }
  template <class Enum, class Names>
  void name(std::string_view key, Enum& value, const Names& names) {
    const auto found = from_name<Enum>(names, reader_.require_string(key));
    if (!found) reader_.fault_at(key, fmt::format("is none of {}", fmt::join(names, ", ")));
    value = found.value_or(value);
  }

 private:
  static NumberRange up_to(std::int64_t most) {
    return {.min = 0, .max = static_cast<double>(most)};
  }

  void events(const std::vector<std::int64_t>& stamps) {
    record_.events.resize(stamps.size());
    Nanoseconds at = record_.sent;
    for (std::size_t index = 0; index < stamps.size(); ++index) {
      at = wrapping_sum(at, stamps[index]);
      record_.events[index].at = at;
    }
    const auto tokens = [&](std::size_t index, const Json& value) {
      if (value.is_null()) return true;
      const std::optional<std::int64_t> count = whole_number(value);
      const bool fits = count && *count >= 0 && *count <= kMostOfEvent;
      if (fits) record_.events[index].tokens = static_cast<std::int32_t>(*count);
      return fits;
    };
    const auto kind = [&](std::size_t index, const Json& value) {
      const auto found =
          value.is_string() ? from_name<TokenKind>(kKindNames, value.as_string()) : std::nullopt;
      record_.events[index].kind = found.value_or(TokenKind::kText);
      return found.has_value();
    };
    if (!expand_runs(reader_.array("event_tokens"), stamps.size(), tokens)) {
      reader_.fault_at("event_tokens", "must be runs [count, tokens] of the events");
    }
    if (counted_on_events(record_) > kMostTokens) {
      reader_.fault_at("event_tokens", "add up to more tokens than an answer has");
    }
    if (!expand_runs(reader_.array("event_kinds"), stamps.size(), kind)) {
      reader_.fault_at("event_kinds", "must be runs [count, kind] of the events");
    }
  }
  void check_order() {
    Nanoseconds before = record_.sent;
    for (const TokenEvent& event : record_.events) {
      if (event.at < before || event.at > kLatestStamp) {
        reader_.fault_at("event_ns", "goes back in time");
        return;
      }
      before = event.at;
    }
    if (record_.sent == 0) {
      const bool answered = !record_.events.empty() || record_.first_byte != 0;
      if (answered || record_.outcome == Outcome::kOk) {
        reader_.fault_at("sent_ns", "is missing, and the request was answered");
      }
      return;  // no more stamps to compare
    }
    if (record_.end < before) reader_.fault_at("end_ns", "lies before the last event or the start");
    if (record_.first_byte != 0 && record_.first_byte < record_.sent) {
      reader_.fault_at("first_byte_ns", "lies before the start");
    }
  }

  ObjectReader reader_;
  RequestRecord record_;
};

}  // namespace

std::string_view to_string(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}
std::string_view to_string(TokenKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}
std::string_view to_string(TokenSource source) {
  return kSourceNames[static_cast<std::size_t>(source)];
}

void append_json_line(std::string& out, const RequestRecord& record) {
  out.reserve(out.size() + 700 + 12 * record.events.size());
  out += "{\"v\":1";
  LineWriter line(out);
  each_field(line, record);
  line.runs("event_tokens", record.events, &TokenEvent::tokens);
  line.runs("event_kinds", record.events, &TokenEvent::kind);
  line.event_stamps(record.sent, record.events);
  out += "}\n";
}

Result<RequestRecord> parse_record(std::string_view line, std::string_view origin) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  std::optional<std::vector<std::int64_t>> stamps(std::in_place);
  std::string_view head;
  if (!split_event_stamps(line, head, *stamps)) stamps.reset();
  NIBBLE_ASSIGN_OR_RETURN(
      const Json json, Json::parse(stamps ? std::string(head) + "}" : std::string(line), origin));
  if (!json.is_object()) return input_error("{}: a row must be an object", origin);
  return RowReader(json, origin).read(std::move(stamps));
}

}  // namespace nibble::load
