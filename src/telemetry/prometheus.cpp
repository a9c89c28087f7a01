#include "telemetry/prometheus.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace nibble::telemetry {
namespace {

void skip_blanks(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(" \t");
  rest.remove_prefix(begin == std::string_view::npos ? rest.size() : begin);
}

bool take(std::string_view& rest, char letter) {
  if (rest.empty() || rest.front() != letter) return false;
  rest.remove_prefix(1);
  return true;
}

// A name ends where a blank, a brace or what comes after a label's name begins.
std::string_view take_name(std::string_view& rest) {
  const std::size_t end = std::min(rest.find_first_of(" \t{}=,\""), rest.size());
  const std::string_view name = rest.substr(0, end);
  rest.remove_prefix(end);
  return name;
}

// "text" with \\, \" and \n; other escapes stand for themselves, as Prometheus reads them.
std::optional<std::string> take_quoted(std::string_view& rest) {
  if (!take(rest, '"')) return std::nullopt;
  std::string text;
  while (!rest.empty()) {
    const char letter = rest.front();
    rest.remove_prefix(1);
    if (letter == '"') return text;
    if (letter != '\\' || rest.empty()) {
      text += letter;
      continue;
    }
    const char escaped = rest.front();
    rest.remove_prefix(1);
    if (escaped == 'n') {
      text += '\n';
    } else if (escaped == '\\' || escaped == '"') {
      text += escaped;
    } else {
      text += '\\';
      text += escaped;
    }
  }
  return std::nullopt;
}

// Between the braces; a quoted text without "=" is the name of the metric.
bool take_labels(std::string_view& rest, MetricSample& sample) {
  while (true) {
    skip_blanks(rest);
    if (take(rest, '}')) return true;
    std::string key;
    if (!rest.empty() && rest.front() == '"') {
      std::optional<std::string> quoted = take_quoted(rest);
      if (!quoted) return false;
      key = std::move(*quoted);
    } else {
      key = take_name(rest);
      if (key.empty()) return false;
    }
    skip_blanks(rest);
    if (take(rest, '=')) {
      skip_blanks(rest);
      std::optional<std::string> value = take_quoted(rest);
      if (!value) return false;
      sample.labels.emplace_back(std::move(key), std::move(*value));
    } else if (sample.name.empty()) {
      sample.name = std::move(key);
    } else {
      return false;
    }
    skip_blanks(rest);
    if (!take(rest, ',') && (rest.empty() || rest.front() != '}')) return false;
  }
}

// Name, labels, value; a timestamp and an exemplar may follow and are not needed: samples are
// stamped when the page came.
std::optional<MetricSample> parse_sample(std::string_view line) {
  MetricSample sample;
  sample.name = take_name(line);
  skip_blanks(line);
  if (take(line, '{') && !take_labels(line, sample)) return std::nullopt;
  if (sample.name.empty()) return std::nullopt;
  skip_blanks(line);
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::optional<double> value = metric_number(line.substr(0, end));
  if (!value) return std::nullopt;
  sample.value = *value;
  line.remove_prefix(end);
  skip_blanks(line);
  if (!line.empty() && line.front() != '#') {
    const std::size_t stop = std::min(line.find_first_of(" \t"), line.size());
    if (!metric_number(line.substr(0, stop))) return std::nullopt;
  }
  return sample;
}

void parse_comment(std::string_view line, MetricsPage& page) {
  line.remove_prefix(1);
  skip_blanks(line);
  if (!line.starts_with("TYPE")) return;
  line.remove_prefix(4);
  skip_blanks(line);
  const std::string_view name = take_name(line);
  skip_blanks(line);
  if (!name.empty()) page.types.insert_or_assign(std::string(name), std::string(trim(line)));
}

// nibble_power_watts and the like: the units' names as Prometheus' conventions want them.
std::string_view unit_suffix(std::string_view unit) {
  if (unit == "W") return "_watts";
  if (unit == "J") return "_joules";
  if (unit == "C") return "_celsius";
  if (unit == "MHz") return "_megahertz";
  if (unit == "%") return "_percent";
  if (unit == "B") return "_bytes";
  if (unit == "B/s") return "_bytes_per_second";
  if (unit == "s") return "_seconds";
  if (unit == "/s") return "_per_second";
  if (unit == "tok/s") return "_tokens_per_second";
  if (unit == "cores") return "_cores";
  return "";
}

std::string metric_name(const Signal& signal) {
  std::string name = fmt::format("nibble_{}{}", quantity_of(signal.name), unit_suffix(signal.unit));
  if (signal.kind == SignalKind::kCounter) name += "_total";
  for (char& letter : name) {
    const bool fine = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || letter == '_';
    if (!fine) letter = '_';
  }
  return name;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') out += '\\';
    if (letter == '\n') {
      out += "\\n";
    } else {
      out += letter;
    }
  }
  return out;
}

}  // namespace

std::optional<std::string_view> MetricSample::label(std::string_view key) const {
  for (const auto& [own_key, own_value] : labels) {
    if (own_key == key) return own_value;
  }
  return std::nullopt;
}

std::optional<double> metric_number(std::string_view word) {
  const std::string lower = to_lower(word);
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower == "+inf" || lower == "inf") return std::numeric_limits<double>::infinity();
  if (lower == "-inf") return -std::numeric_limits<double>::infinity();
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') word.remove_prefix(1);
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string series_key(const MetricSample& sample, std::span<const std::string_view> drop) {
  Labels labels;
  for (const auto& label : sample.labels) {
    if (std::find(drop.begin(), drop.end(), label.first) == drop.end()) labels.push_back(label);
  }
  std::sort(labels.begin(), labels.end());
  std::string text;
  for (const auto& [key, value] : labels) text += key + '\0' + value + '\0';
  return text;
}

MetricsPage parse_metrics(std::string_view text) {
  std::string unquoted;
  if (trim(text).starts_with('"')) {
    const Result<Json> json = Json::parse(text, "metrics");
    if (json && json->is_string()) {
      unquoted = json->as_string();
      text = unquoted;
    }
  }
  MetricsPage page;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (line.front() == '#') {
      parse_comment(line, page);
    } else if (std::optional<MetricSample> sample = parse_sample(line)) {
      page.samples.push_back(std::move(*sample));
    } else if (page.bad_lines++ == 0) {
      page.first_bad_line = printable(line);
    }
  }
  return page;
}

std::string signals_page(std::span<const SignalState> states) {
  // All samples of a metric stand together, as the format demands.
  std::map<std::string, std::vector<const SignalState*>> by_name;
  for (const SignalState& state : states) by_name[metric_name(state.signal)].push_back(&state);
  std::string page;
  for (const auto& [name, group] : by_name) {
    const bool counter = group.front()->signal.kind == SignalKind::kCounter;
    page += fmt::format("# TYPE {} {}\n", name, counter ? "counter" : "gauge");
    for (const SignalState* state : group) {
      if (!state->signal.available || !state->latest) continue;
      page += fmt::format("{}{{owner=\"{}\",source=\"{}\"}} {}\n", name,
                          escaped(owner_of(state->signal.name)), escaped(state->signal.source),
                          state->latest->value);
    }
  }
  page += "# TYPE nibble_signal_available gauge\n";
  for (const SignalState& state : states) {
    page += fmt::format("nibble_signal_available{{signal=\"{}\",reason=\"{}\"}} {}\n",
                        escaped(state.signal.name), escaped(state.signal.reason),
                        state.signal.available ? 1 : 0);
  }
  return page;
}

}  // namespace nibble::telemetry
