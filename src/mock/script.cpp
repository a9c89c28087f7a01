#include "mock/script.h"

#include <cmath>

#include "base/file.h"
#include "mock/names.h"

namespace nibble::mock {
namespace {

constexpr std::string_view kSchema = "nibble.mock/1";
constexpr std::size_t kMostScriptBytes = 64 << 20;
constexpr std::int64_t kMostChunkBytes = 16 << 20;
constexpr std::size_t kMostFaults = 64;  // each is asked for every request
constexpr std::size_t kLongestName = 256;
constexpr DistributionRange kMilliseconds{0, kMostMs};
constexpr DistributionRange kTokens{1, kMostTokens};

// The fields of a script are listed once, in fields_of(); these two archives read and write them.
class Reading {
 public:
  Reading(const Json& json, std::string where, std::string file)
      : reader_(json, std::move(where)), file_(std::move(file)) {}

  ObjectReader& reader() { return reader_; }
  void number(const char* key, double& target, NumberRange range) {
    if (const auto value = reader_.number(key, range)) target = *value;
  }
  void number(const char* key, std::optional<double>& target, NumberRange range) {
    if (const auto value = reader_.number(key, range)) target = *value;
  }
  template <class Integer>
  void integer(const char* key, Integer& target, double min, double max) {
    if (const auto value = reader_.integer(key, {.min = min, .max = max})) {
      target = static_cast<Integer>(*value);
    }
  }
  void flag(const char* key, bool& target) {
    if (const auto value = reader_.boolean(key)) target = *value;
  }
  void text(const char* key, std::string& target) {
    const auto value = reader_.string(key);
    if (!value) return;
    const bool plain = value->size() <= kLongestName && printable(*value, kLongestName) == *value;
    if (!plain) reader_.fault_at(key, "is no short line of printable text");
    target = *value;
  }
  template <class Table, class Enum>
  void choice(const char* key, const Table& table, Enum& target) {
    read_choice(reader_, key, table, target);
  }
  void distribution(const char* key, Distribution& target, DistributionRange range) {
    const Json* found = reader_.any(key);
    if (found == nullptr) return;
    auto read = distribution_from_json(*found, place(key), range);
    if (read) {
      target = std::move(*read);
    } else {
      reader_.fault(read.error());
    }
  }
  void numbers(const char* key, std::vector<double>& target, NumberRange range) {
    if (auto values = reader_.numbers(key, range)) target = std::move(*values);
  }
  void integers(const char* key, std::vector<std::int64_t>& target) {
    const auto values = reader_.numbers(key, {.min = 0, .max = 1e15});
    if (!values) return;
    target.clear();
    for (const double value : *values) {
      if (std::floor(value) != value) reader_.fault_at(key, "must hold whole numbers only");
      target.push_back(static_cast<std::int64_t>(value));
    }
  }
  template <class Part>
  void object(const char* key, Part& part) {
    const Json* found = reader_.object(key);
    if (found == nullptr) return;
    Reading inner(*found, place(key), file_);
    fields_of(inner, part);
    if (const Result<> done = inner.reader().finish(); !done) reader_.fault(done.error());
  }
  void objects(const char* key, std::vector<Fault>& parts);

 private:
  std::string place(std::string_view key) const {
    return fmt::format("{}{}{}", reader_.where(), reader_.where() == file_ ? ": " : ".", key);
  }

  ObjectReader reader_;
  std::string file_;
};

class Writing {
 public:
  Json take() { return std::move(json_); }
  void number(const char* key, double value, NumberRange) { json_.set(key, value); }
  void number(const char* key, const std::optional<double>& value, NumberRange) {
    json_.set(key, value);
  }
  template <class Integer>
  void integer(const char* key, Integer value, double, double) {
    json_.set(key, static_cast<std::int64_t>(value));
  }
  void flag(const char* key, bool value) { json_.set(key, value); }
  void text(const char* key, const std::string& value) { json_.set(key, value); }
  template <class Table, class Enum>
  void choice(const char* key, const Table& table, Enum value) {
    json_.set(key, name_of(table, value));
  }
  void distribution(const char* key, const Distribution& value, DistributionRange) {
    json_.set(key, to_json(value));
  }
  void numbers(const char* key, const std::vector<double>& values, NumberRange) {
    json_.set(key, list(values));
  }
  void integers(const char* key, const std::vector<std::int64_t>& values) {
    json_.set(key, list(values));
  }
  template <class Part>
  void object(const char* key, const Part& part) {
    json_.set(key, object_of(part));
  }
  void objects(const char* key, const std::vector<Fault>& parts) {
    Json all = Json::array();
    for (const Fault& part : parts) all.push(object_of(part));
    json_.set(key, std::move(all));
  }

 private:
  template <class Part>
  static Json object_of(const Part& part) {
    Writing inner;
    Part copy = part;
    fields_of(inner, copy);
    return inner.take();
  }
  template <class Number>
  static Json list(const std::vector<Number>& values) {
    Json all = Json::array();
    for (const Number value : values) all.push(value);
    return all;
  }

  Json json_ = Json::object();
};

template <class Archive>
void fields_of(Archive& archive, EarlyEnd& part) {
  archive.number("probability", part.probability, {.min = 0, .max = 1});
  archive.distribution("tokens", part.tokens, kTokens);
}

template <class Archive>
void fields_of(Archive& archive, SlowStart& part) {
  archive.integer("requests", part.requests, 0, 1e9);
  archive.number("factor", part.factor, {.min = 0, .max = 1e4});
}

template <class Archive>
void fields_of(Archive& archive, LoadCurve& part) {
  archive.choice("kind", kCurveKinds, part.kind);
  archive.number("knee", part.knee, {.min = 1, .max = 1e6});
  archive.number("sigma", part.sigma, {.min = 0, .max = 1});
  archive.number("kappa", part.kappa, {.min = 0, .max = 1});
  archive.numbers("running", part.running, {.min = 1, .max = 1e6});
  archive.numbers("factors", part.factors, {.min = 0, .max = 1e6});
  archive.number("noise", part.noise, {.min = 0, .max = 1});
  archive.number("noise_period_ms", part.noise_period_ms, {.min = 1, .max = kMostMs});
}

template <class Archive>
void fields_of(Archive& archive, TextForm& part) {
  archive.choice("kind", kTextKinds, part.kind);
  archive.integer("chunk_bytes", part.chunk_bytes, 0, static_cast<double>(kMostChunkBytes));
}

template <class Archive>
void fields_of(Archive& archive, Fields& part) {
  archive.distribution("reasoning_tokens", part.reasoning_tokens, {0, kMostTokens});
  archive.text("reasoning_field", part.reasoning_field);
  archive.flag("tool_calls", part.tool_calls);
}

template <class Archive>
void fields_of(Archive& archive, StreamForm& part) {
  archive.choice("mode", kStreamModes, part.mode);
  archive.choice("role", kRoleDeltas, part.role);
  archive.integer("empty_every", part.empty_every, 0, 1e9);
  archive.choice("finish", kFinishForms, part.finish);
}

template <class Archive>
void fields_of(Archive& archive, UsageForm& part) {
  archive.choice("when", kUsageWhens, part.when);
  archive.number("cached_share", part.cached_share, {.min = 0, .max = 1});
  archive.integer("template_tokens", part.template_tokens, 0, kMostTokens);
  archive.flag("stream_options", part.stream_options);
}

template <class Archive>
void fields_of(Archive& archive, SseForm& part) {
  archive.choice("line_end", kLineEnds, part.line_end);
  archive.flag("byte_order_mark", part.byte_order_mark);
  archive.flag("space_after_colon", part.space_after_colon);
  archive.flag("multi_line", part.multi_line);
  archive.text("event", part.event);
  archive.flag("id", part.id);
  archive.integer("retry_ms", part.retry_ms, 0, kMostMs);
  archive.integer("comment_every", part.comment_every, 0, 1e9);
  archive.number("keep_alive_ms", part.keep_alive_ms, {.min = 0, .max = kMostMs});
  archive.choice("done", kDoneForms, part.done);
  archive.flag("final_newline", part.final_newline);
  archive.integer("cut_bytes", part.cut_bytes, 0, 1e9);
  archive.flag("cut_characters", part.cut_characters);
  archive.number("cut_pause_ms", part.cut_pause_ms, {.min = 0, .max = 1e4});
  archive.choice("framing", kFramings, part.framing);
}

template <class Archive>
void fields_of(Archive& archive, Fault& part) {
  archive.choice("kind", kFaultKinds, part.kind);
  archive.integers("requests", part.requests);
  archive.integer("every", part.every, 0, 1e15);
  archive.number("probability", part.probability, {.min = 0, .max = 1});
  archive.integer("after_tokens", part.after_tokens, 0, kMostTokens);
  archive.integer("status", part.status, 400, 599);
  archive.number("ms", part.ms, {.min = 0, .max = kMostMs});
  archive.flag("head", part.head);
}

template <class Archive>
void fields_of(Archive& archive, MockScript& script) {
  archive.integer("seed", script.seed, 0, 9007199254740991.0);
  archive.text("model", script.model);
  archive.integer("max_model_len", script.max_model_len, 1, 1e12);
  archive.distribution("ttft_ms", script.ttft_ms, kMilliseconds);
  archive.number("ttft_ms_per_prompt_token", script.ttft_ms_per_prompt_token,
                 {.min = 0, .max = 1e3});
  archive.distribution("itl_ms", script.itl_ms, kMilliseconds);
  archive.distribution("tokens_per_chunk", script.tokens_per_chunk, kTokens);
  archive.integer("first_chunk_tokens", script.first_chunk_tokens, 1, kMostTokens);
  archive.distribution("output_tokens", script.output_tokens, kTokens);
  archive.object("early_end", script.early_end);
  archive.object("slow_start", script.slow_start);
  archive.integer("capacity", script.capacity, 0, 1e9);
  archive.object("load_curve", script.load_curve);
  archive.object("text", script.text);
  archive.object("fields", script.fields);
  archive.object("stream", script.stream);
  archive.object("usage", script.usage);
  archive.object("sse", script.sse);
  archive.integer("body_padding_bytes", script.body_padding_bytes, 0, 1e6);
  archive.objects("faults", script.faults);
  archive.choice("metrics_style", kMetricsStyles, script.metrics_style);
  archive.integer("kv_capacity_tokens", script.kv_capacity_tokens, 1, 1e15);
}

void Reading::objects(const char* key, std::vector<Fault>& parts) {
  const Json* found = reader_.array(key);
  if (found == nullptr) return;
  if (found->as_array().size() > kMostFaults) {
    reader_.fault_at(
        key, fmt::format("has {} entries; the most is {}", found->as_array().size(), kMostFaults));
    return;
  }
  parts.clear();
  for (std::size_t index = 0; index < found->as_array().size(); ++index) {
    Reading inner(found->as_array()[index], fmt::format("{}[{}]", place(key), index), file_);
    Fault fault;
    inner.reader().require_string("kind");
    fields_of(inner, fault);
    if (fault.requests.empty() && fault.every == 0 && fault.probability == 0) {
      inner.reader().fault_at("kind",
                              "hits no request; give \"requests\", \"every\" or \"probability\"");
    }
    if (fault.kind == FaultKind::kRefuse && !fault.ms) fault.ms = 1000;
    if (const Result<> done = inner.reader().finish(); !done) reader_.fault(done.error());
    parts.push_back(std::move(fault));
  }
}

// Points of a curve: as many factors as places, ascending.
void check_points(ObjectReader& reader, const LoadCurve& curve) {
  if (curve.kind != CurveKind::kPoints) return;
  if (curve.running.empty() || curve.running.size() != curve.factors.size()) {
    reader.fault_at("load_curve", "needs as many numbers in \"factors\" as in \"running\"");
  }
  for (std::size_t index = 1; index < curve.running.size(); ++index) {
    if (curve.running[index] > curve.running[index - 1]) continue;
    reader.fault_at("load_curve", "needs \"running\" in ascending order");
  }
}

void check_whole(ObjectReader& reader, const MockScript& script) {
  if (script.fields.reasoning_field != "reasoning_content" &&
      script.fields.reasoning_field != "reasoning") {
    reader.fault_at("fields",
                    "has a reasoning_field that is neither reasoning_content nor reasoning");
  }
  if (script.model.empty()) reader.fault_at("model", "is empty");
  if (script.sse.framing == Framing::kClose) {
    for (const Fault& fault : script.faults) {
      if (fault.kind != FaultKind::kBadFraming && fault.kind != FaultKind::kTruncate) continue;
      reader.fault_at("faults", fmt::format("has \"{}\", which needs the framing \"chunked\"",
                                            to_string(fault.kind)));
    }
  }
  check_points(reader, script.load_curve);
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return name_of(kFaultKinds, kind);
}

std::string_view to_string(MetricsStyle style) {
  return name_of(kMetricsStyles, style);
}

std::optional<MetricsStyle> metrics_style_from_string(std::string_view name) {
  return value_of(kMetricsStyles, name);
}

Result<MockScript> parse_script(const Json& json, std::string_view where) {
  Reading reading(json, std::string(where), std::string(where));
  MockScript script;
  if (const auto schema = reading.reader().string("schema"); schema && *schema != kSchema) {
    reading.reader().fault_at(
        "schema", fmt::format("is \"{}\"; a script has \"{}\"", printable(*schema), kSchema));
  }
  fields_of(reading, script);
  check_whole(reading.reader(), script);
  NIBBLE_RETURN_IF_ERROR(reading.reader().finish());
  return script;
}

Result<MockScript> load_script(const std::filesystem::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostScriptBytes));
  const std::string where = printable(path.string());
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, where));
  return parse_script(json, where);
}

Json to_json(const MockScript& script) {
  Writing writing;
  MockScript copy = script;
  fields_of(writing, copy);
  Json json = Json::object().set("schema", kSchema);
  const Json fields = writing.take();
  for (const Json::Member& member : fields.as_object()) json.set(member.first, member.second);
  return json;
}

}  // namespace nibble::mock
