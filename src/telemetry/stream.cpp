#include "telemetry/stream.h"

#include <fmt/format.h>
#include <iterator>

#include "base/json.h"

namespace nibble::telemetry {

StreamEncoder::StreamEncoder(std::string_view host) {
  lines_ = Json::object()
               .set("schema", "nibble.telemetry/1")
               .set("host", host)
               .set("clock", "CLOCK_MONOTONIC")
               .set("unit", "ns")
               .dump(0);
  lines_ += '\n';
}

void StreamEncoder::close_line() {
  if (open_.empty()) return;
  lines_ += open_;
  lines_ += "}}\n";
  open_.clear();
}

void StreamEncoder::on_signal(SignalId id, const Signal& signal) {
  close_line();
  if (keys_.size() <= id) keys_.resize(id + 1);
  keys_[id].text = Json(signal.name).dump(0) + ":";
  lines_ += Json::object().set("signal", signal_json(signal)).dump(0);
  lines_ += '\n';
}

void StreamEncoder::on_value(SignalId id, const Point& point) {
  Key& key = keys_[id];
  // A second value of one moment has a line of its own: a reader takes no key twice.
  if (!open_.empty() && open_at_ == point.at && key.line != open_line_) {
    open_ += ',';
  } else {
    close_line();
    ++open_line_;
    fmt::format_to(std::back_inserter(open_), "{{\"t\":{},\"v\":{{", point.at);
    open_at_ = point.at;
  }
  key.line = open_line_;
  open_ += key.text;
  fmt::format_to(std::back_inserter(open_), "{}", point.value);
}

std::string StreamEncoder::take() {
  close_line();
  return std::exchange(lines_, {});
}

LineFeed::LineFeed(std::shared_ptr<SampleStore> store, std::string_view host,
                   std::size_t most_pending_bytes)
    : store_(std::move(store)), most_pending_bytes_(most_pending_bytes), encoder_(host) {
  subscription_ = store_->subscribe(
      [this](SignalId id, const Signal& signal) {
        const std::lock_guard lock(mutex_);
        if (has_room()) encoder_.on_signal(id, signal);
      },
      [this](SignalId id, const Point& point) {
        const std::lock_guard lock(mutex_);
        if (has_room()) encoder_.on_value(id, point);
      });
}

LineFeed::~LineFeed() {
  store_->unsubscribe(subscription_);
}

// For good: a signal whose description was lost must not be followed by its values.
bool LineFeed::has_room() {
  overrun_ = overrun_ || encoder_.pending_bytes() > most_pending_bytes_;
  return !overrun_;
}

std::string LineFeed::take() {
  const std::lock_guard lock(mutex_);
  return encoder_.take();
}

bool LineFeed::overrun() const {
  const std::lock_guard lock(mutex_);
  return overrun_;
}

namespace {

// Some 127 years of uptime: times within can be subtracted from each other.
constexpr double kLatestTime = 4e18;

Result<StreamLine> parse_values(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  StreamValues values;
  values.at = reader.require_integer("t", {.min = 0, .max = kLatestTime});
  const Json* object = reader.object("v");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (object == nullptr) return input_error("{}: the line has neither \"signal\" nor \"v\"", where);
  for (const auto& [name, value] : object->as_object()) {
    if (value.is_number()) values.values.emplace_back(name, value.as_number());
  }
  return StreamLine(std::move(values));
}

}  // namespace

Result<StreamLine> parse_stream_line(std::string_view line) {
  const std::string where = "stream of samples";
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(line, where));
  if (!json.is_object()) return input_error("{}: a line is {}", where, json.kind_name());
  if (const Json* schema = json.find("schema")) {
    if (!schema->is_string() || schema->as_string() != "nibble.telemetry/1") {
      return input_error("{}: its schema is not nibble.telemetry/1", where);
    }
    StreamHeader header;
    const Json* host = json.find("host");
    if (host != nullptr && host->is_string()) header.host = host->as_string();
    return StreamLine(std::move(header));
  }
  if (const Json* signal = json.find("signal")) {
    NIBBLE_ASSIGN_OR_RETURN(Signal parsed, parse_signal(*signal, where));
    return StreamLine(std::move(parsed));
  }
  return parse_values(json, where);
}

}  // namespace nibble::telemetry
