#include "load/record_json.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "base/json.h"

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
constexpr double kMostTokens = 1e15;  // sums of such counts stay exact in a double

template <class Enum, std::size_t n>
std::optional<Enum> from_name(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t value = 0; value < n; ++value) {
    if (names[value] == name) return static_cast<Enum>(value);
  }
  return std::nullopt;
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

  void integer(std::string_view key, std::int64_t value) {
    fmt::format_to(std::back_inserter(out_), ",\"{}\":{}", key, value);
  }
  void optional(std::string_view key, const std::optional<std::int64_t>& value) {
    if (value) return integer(key, *value);
    fmt::format_to(std::back_inserter(out_), ",\"{}\":null", key);
  }
  void stamp(std::string_view key, Nanoseconds at) {
    optional(key, at == 0 ? std::nullopt : std::optional(at));
  }
  void boolean(std::string_view key, bool value) {
    fmt::format_to(std::back_inserter(out_), ",\"{}\":{}", key, value);
  }
  void text(std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(out_), ",\"{}\":{}", key, Json(value).dump(0));
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
  static std::int32_t written(std::int32_t tokens) { return tokens; }
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
    stamps.push_back(value);
    at = stop + 1;
  }
  return true;
}

bool list_of_integers(const Json* list, std::vector<std::int64_t>& values) {
  if (list == nullptr) return false;
  for (const Json& item : list->as_array()) {
    if (!item.is_integer()) return false;
    values.push_back(item.as_integer());
  }
  return true;
}

// Calls each(index, value) for every event; false when the runs are malformed or of another number.
template <class Each>
bool expand_runs(const Json* runs, std::size_t events, Each&& each) {
  if (runs == nullptr) return false;
  std::size_t index = 0;
  for (const Json& run : runs->as_array()) {
    if (!run.is_array() || run.as_array().size() != 2 || !run.as_array()[0].is_integer())
      return false;
    const std::int64_t count = run.as_array()[0].as_integer();
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

  Result<RequestRecord> read(std::vector<std::int64_t> stamps, bool have_stamps) {
    if (reader_.require_integer("v") != 1) reader_.fault_at("v", "is of a version other than 1");
    identity();
    times();
    tokens();
    outcome();
    if (!have_stamps && !list_of_integers(reader_.array("event_ns"), stamps)) {
      reader_.fault_at("event_ns", "must be a list of whole numbers");
    }
    events(stamps);
    check_order();
    NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
    return std::move(record_);
  }

 private:
  static constexpr NumberRange kStampRange = {.min = 0, .max = static_cast<double>(kLatestStamp)};

  Nanoseconds stamp(std::string_view key) { return reader_.integer(key, kStampRange).value_or(0); }
  std::optional<std::int64_t> count(std::string_view key) {
    return reader_.integer(key, {.min = 0, .max = kMostTokens});
  }
  void identity() {
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    record_.level =
        static_cast<std::int32_t>(reader_.require_integer("level", {.min = 0, .max = kMost}));
    record_.index = reader_.require_integer("index", {.min = 0, .max = kMostTokens});
    record_.warmup = reader_.boolean("warmup").value_or(false);
  }
  void times() {
    record_.scheduled = stamp("scheduled_ns");
    record_.sent = stamp("sent_ns");
    record_.first_byte = stamp("first_byte_ns");
    record_.end = stamp("end_ns");
    record_.connected_anew = reader_.boolean("connected_anew").value_or(false);
    record_.connect_time = stamp("connect_ns");
  }
  void tokens() {
    record_.prompt_tokens_asked = count("prompt_tokens_asked").value_or(0);
    record_.output_tokens_asked = count("output_tokens_asked").value_or(0);
    record_.prompt_tokens = count("prompt_tokens");
    record_.output_tokens = count("output_tokens");
    record_.cached_tokens = count("cached_tokens");
    record_.reasoning_tokens = count("reasoning_tokens");
    record_.counted_tokens = count("counted_tokens");
    const auto source =
        from_name<TokenSource>(kSourceNames, reader_.require_string("token_source"));
    if (!source) reader_.fault_at("token_source", "names no source of token counts");
    record_.token_source = source.value_or(TokenSource::kEvents);
  }
  void outcome() {
    const auto found = from_name<Outcome>(kOutcomeNames, reader_.require_string("outcome"));
    if (!found) reader_.fault_at("outcome", "names no outcome of a request");
    record_.outcome = found.value_or(Outcome::kOk);
    record_.http_status =
        static_cast<int>(reader_.integer("http_status", {.min = 0, .max = 999}).value_or(0));
    record_.message = reader_.string("message").value_or("");
    record_.finish_reason = reader_.string("finish_reason").value_or("");
    record_.streamed = reader_.boolean("streamed").value_or(true);
    record_.saw_done = reader_.boolean("saw_done").value_or(false);
    record_.data_after_done = reader_.boolean("data_after_done").value_or(false);
    record_.degenerate = reader_.boolean("degenerate").value_or(false);
  }
  void events(const std::vector<std::int64_t>& stamps) {
    record_.events.resize(stamps.size());
    Nanoseconds at = record_.sent;
    for (std::size_t index = 0; index < stamps.size(); ++index) {
      at = wrapping_sum(at, stamps[index]);
      record_.events[index].at = at;
    }
    const bool counted = expand_runs(
        reader_.array("event_tokens"), stamps.size(), [&](std::size_t index, const Json& value) {
          if (!value.is_integer()) return false;
          const std::int64_t number = value.as_integer();
          record_.events[index].tokens = static_cast<std::int32_t>(number);
          return number >= 0 && number <= std::numeric_limits<std::int32_t>::max();
        });
    if (!counted) reader_.fault_at("event_tokens", "must be runs [count, tokens] of the events");
    const bool named = expand_runs(
        reader_.array("event_kinds"), stamps.size(), [&](std::size_t index, const Json& value) {
          if (!value.is_string()) return false;
          const auto kind = from_name<TokenKind>(kKindNames, value.as_string());
          record_.events[index].kind = kind.value_or(TokenKind::kText);
          return kind.has_value();
        });
    if (!named) reader_.fault_at("event_kinds", "must be runs [count, kind] of the events");
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
    if (record_.sent == 0) return;  // never sent: no more stamps to compare
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
  line.integer("level", record.level);
  line.integer("index", record.index);
  line.boolean("warmup", record.warmup);
  line.text("outcome", to_string(record.outcome));
  line.integer("http_status", record.http_status);
  line.stamp("scheduled_ns", record.scheduled);
  line.stamp("sent_ns", record.sent);
  line.stamp("first_byte_ns", record.first_byte);
  line.stamp("end_ns", record.end);
  line.boolean("connected_anew", record.connected_anew);
  line.integer("connect_ns", record.connect_time);
  line.integer("prompt_tokens_asked", record.prompt_tokens_asked);
  line.integer("output_tokens_asked", record.output_tokens_asked);
  line.optional("prompt_tokens", record.prompt_tokens);
  line.optional("output_tokens", record.output_tokens);
  line.optional("cached_tokens", record.cached_tokens);
  line.optional("reasoning_tokens", record.reasoning_tokens);
  line.optional("counted_tokens", record.counted_tokens);
  line.text("token_source", to_string(record.token_source));
  line.text("message", record.message);
  line.text("finish_reason", record.finish_reason);
  line.boolean("streamed", record.streamed);
  line.boolean("saw_done", record.saw_done);
  line.boolean("data_after_done", record.data_after_done);
  line.boolean("degenerate", record.degenerate);
  line.runs("event_tokens", record.events, &TokenEvent::tokens);
  line.runs("event_kinds", record.events, &TokenEvent::kind);
  line.event_stamps(record.sent, record.events);
  out += "}\n";
}

Result<RequestRecord> parse_record(std::string_view line, std::string_view origin) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::int64_t> stamps;
  std::string_view head;
  const bool split = split_event_stamps(line, head, stamps);
  if (!split) stamps.clear();
  NIBBLE_ASSIGN_OR_RETURN(const Json json,
                          Json::parse(split ? std::string(head) + "}" : std::string(line), origin));
  if (!json.is_object()) return input_error("{}: a row must be an object", origin);
  return RowReader(json, origin).read(std::move(stamps), split);
}

}  // namespace nibble::load
