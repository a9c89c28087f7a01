#include "mock/script.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "mock/names.h"
#include "mock/script_archive.h"

namespace nibble::mock {
namespace {

constexpr std::string_view kSchema = "nibble.mock/1";
constexpr std::size_t kMostScriptBytes = 64 << 20;
constexpr std::int64_t kMostChunkBytes = 16 << 20;
constexpr std::size_t kMostFaults = 64;  // each is asked for every request
constexpr DistributionRange kMilliseconds{0, kMostMs};
constexpr DistributionRange kTokens{1, kMostTokens};
// Every step reads the weights, so that no step is without length: even noise leaves 5 us.
constexpr double kLeastWeightsMs = 0.05;
// What scripts the times of a request: with steps, times follow from the engine.
constexpr std::array kTimesOfRequests = {
    "ttft_ms",          "ttft_ms_per_prompt_token", "itl_ms",
    "tokens_per_chunk", "first_chunk_tokens",       "slow_start",
    "load_curve"};

}  // namespace

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
void fields_of(Archive& archive, Collectives& part) {
  archive.integer("count", part.count, 0, 1e6);
  archive.number("latency_us", part.latency_us, {.min = 0, .max = 1e6});
  archive.number("bytes_per_row", part.bytes_per_row, {.min = 0, .max = 1e12});
  archive.number("gb_s", part.gb_s, {.min = 1e-3, .max = 1e6});
}

template <class Archive>
void fields_of(Archive& archive, StepsScript& part) {
  archive.integer("prefill_chunk_tokens", part.prefill_chunk_tokens, 1, kMostTokens);
  archive.number("weights_ms", part.weights_ms, {.min = kLeastWeightsMs, .max = kMostMs});
  archive.number("kv_ms_per_1k_tokens", part.kv_ms_per_1k_tokens, {.min = 0, .max = 1e3});
  archive.number("per_sequence_ms", part.per_sequence_ms, {.min = 0, .max = 1e3});
  archive.number("prefill_ms_per_token", part.prefill_ms_per_token, {.min = 0, .max = 1e3});
  archive.object("collectives", part.collectives);
  archive.number("host_gap_ms", part.host_gap_ms, {.min = 0, .max = kMostMs});
  archive.integer("ranks", part.ranks, 1, 64);
  archive.number("slow_rank_factor", part.slow_rank_factor, {.min = 1, .max = 1e3});
  archive.number("clock_factor", part.clock_factor, {.min = 0.05, .max = 1});
  archive.number("noise", part.noise, {.min = 0, .max = 1});
}

template <class Archive>
void fields_of(Archive& archive, Heat& part) {
  archive.number("ambient_c", part.ambient_c, {.min = -50, .max = 100});
  archive.number("c_per_w", part.c_per_w, {.min = 0, .max = 1});
  archive.number("seconds", part.seconds, {.min = 0.01, .max = 1e5});
  archive.number("limit_c", part.limit_c, {.min = 0, .max = 149});
}

template <class Archive>
void fields_of(Archive& archive, GpuScript& part) {
  const NumberRange watts{.min = 0, .max = 5000};
  archive.text("name", part.name);
  archive.number("idle_w", part.idle_w, watts);
  archive.number("copy_w", part.copy_w, watts);
  archive.number("matrix_w", part.matrix_w, watts);
  archive.number("waiting_w", part.waiting_w, watts);
  archive.number("limit_w", part.limit_w, watts);
  archive.number("power_cap_w", part.power_cap_w, watts);
  archive.object("heat", part.heat);
  archive.number("clock_mhz", part.clock_mhz, {.min = 1, .max = 10000});
  archive.integer("link_generation", part.link_generation, 1, 10);
  archive.integer("link_generation_max", part.link_generation_max, 1, 10);
  archive.integer("link_width", part.link_width, 1, 32);
  archive.integer("link_width_max", part.link_width_max, 1, 32);
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
  archive.object("steps", script.steps);
  archive.object("gpu", script.gpu);
}

void ScriptReader::objects(const char* key, std::vector<Fault>& parts) {
  const Json* found = reader_.array(key);
  if (found == nullptr) return;
  if (found->as_array().size() > kMostFaults) {
    reader_.fault_at(
        key, fmt::format("has {} entries; the most is {}", found->as_array().size(), kMostFaults));
    return;
  }
  parts.clear();
  for (std::size_t index = 0; index < found->as_array().size(); ++index) {
    ScriptReader inner(found->as_array()[index], fmt::format("{}[{}]", place(key), index), file_);
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

namespace {

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

void check_gpu(ObjectReader& reader, const GpuScript& gpu) {
  const double parts = std::min({gpu.copy_w, gpu.matrix_w, gpu.waiting_w});
  if (parts < gpu.idle_w) {
    reader.fault_at("gpu", "draws less at work than idle; idle_w must be the least of its watts");
  }
  if (power_limit_w(gpu) <= gpu.idle_w) {
    reader.fault_at("gpu", "may draw no more than it draws idle; raise limit_w and power_cap_w");
  }
  if (gpu.link_generation > gpu.link_generation_max || gpu.link_width > gpu.link_width_max) {
    reader.fault_at("gpu", "has a link above its own maximum");
  }
}

void check_steps(ObjectReader& reader, const MockScript& script) {
  if (!script.steps) {
    if (reader.has("gpu")) {
      reader.fault_at("gpu", "belongs to an engine with \"steps\"; give both or neither");
    }
    return;
  }
  for (const char* key : kTimesOfRequests) {
    if (!reader.has(key)) continue;
    reader.fault_at(key, "contradicts \"steps\", from which all times follow; leave one out");
  }
  if (script.stream.empty_every > 0) {
    reader.fault_at("stream",
                    "has empty_every, which needs to know the next token's time; with "
                    "\"steps\" nobody does");
  }
  for (const Fault& fault : script.faults) {
    if (fault.kind != FaultKind::kHang && fault.kind != FaultKind::kEmpty) continue;
    reader.fault_at(
        "faults", fmt::format("has \"{}\", which moves times; with \"steps\" they are the engine's",
                              to_string(fault.kind)));
  }
  if (script.steps->ranks == 1 && script.steps->slow_rank_factor > 1) {
    reader.fault_at("steps", "has a slow_rank_factor and one rank; nobody waits for it");
  }
  check_gpu(reader, script.gpu);
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
  check_steps(reader, script);
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
  ScriptReader reading(json, std::string(where), std::string(where));
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
  const auto fields_of_script = [](MockScript copy) {
    ScriptWriter writing;
    fields_of(writing, copy);
    return writing.take();
  };
  const Json fields = fields_of_script(script);
  const Json defaults = fields_of_script({});
  // Times of requests do nothing in an engine of steps; where one was given all the same, whoever
  // reads this refuses it.
  const auto left_out = [&](std::string_view key) {
    if (*fields.find(key) != *defaults.find(key)) return false;
    if (!script.steps) return key == "steps" || key == "gpu";
    return std::find(kTimesOfRequests.begin(), kTimesOfRequests.end(), key) !=
           kTimesOfRequests.end();
  };
  Json json = Json::object().set("schema", kSchema);
  for (const Json::Member& member : fields.as_object()) {
    if (!left_out(member.first)) json.set(member.first, member.second);
  }
  return json;
}

}  // namespace nibble::mock
