#include "explain/case.h"

#include <algorithm>
#include <set>
#include <utility>

#include "explain/case_ranges.h"
#include "ledger/tile.h"

namespace nibble {
namespace {

using namespace case_range;

constexpr std::string_view kSchema = "nibble.case/1";

constexpr std::size_t kMostItems = 100;  // of a list: each costs an analysis of its own

// Where a member stands: the file, and the path inside it.
struct Place {
  std::string_view file;
  std::string path;  // "" for the document itself

  std::string text() const {
    return path.empty() ? std::string(file) : fmt::format("{}: {}", file, path);
  }
  Place member(std::string_view key) const {
    return {file, path.empty() ? std::string(key) : fmt::format("{}.{}", path, key)};
  }
  Place item(std::size_t index) const { return {file, fmt::format("{}[{}]", path, index)}; }
};

std::optional<Format> read_format(ObjectReader& reader, std::string_view key) {
  const std::optional<std::string> text = reader.string(key);
  if (!text) return std::nullopt;
  const std::optional<Format> format = format_from_string(*text);
  if (!format) {
    reader.fault_at(key, fmt::format("is \"{}\"; give a number format such as nvfp4, mxfp4, fp8, "
                                     "int8 or bf16",
                                     *text));
  }
  return format;
}

Result<> parse_model_part(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  out.model_name = reader.require_string("name");
  out.experts = reader.integer("experts", kCount);
  out.experts_per_token = reader.integer("experts_per_token", kCount);
  out.hidden = reader.integer("hidden", {.min = 1, .max = 1e6});
  out.moe_intermediate = reader.integer("moe_intermediate", {.min = 1, .max = 1e6});
  out.layers = reader.integer("layers", {.min = 1, .max = 4096});
  if (out.experts && out.experts_per_token && *out.experts_per_token > *out.experts) {
    reader.fault_at("experts_per_token", fmt::format("is {}; the model has {} experts",
                                                     *out.experts_per_token, *out.experts));
  }
  return reader.finish();
}

void read_quoted_peak(ObjectReader& reader, Case& out) {
  out.fp4_tflops_quoted =
      reader.numbers("fp4_tflops_quoted", kTflops).value_or(std::vector<double>{});
  if (out.fp4_tflops_quoted.size() > 2 ||
      !std::is_sorted(out.fp4_tflops_quoted.begin(), out.fp4_tflops_quoted.end())) {
    reader.fault_at("fp4_tflops_quoted", "must be one number or a range [low, high]");
  }
  out.fp4_tflops_quoted_is = reader.string("fp4_tflops_quoted_is").value_or("");
  const std::string& is = out.fp4_tflops_quoted_is;
  if (!is.empty() && !is.starts_with("sparse") && !is.starts_with("dense")) {
    reader.fault_at("fp4_tflops_quoted_is",
                    fmt::format("is \"{}\"; it must begin with \"sparse\" or \"dense\"", is));
  }
  out.fp4_tflops_dense_assumed = reader.number("fp4_tflops_dense_assumed", kTflops);
  // Dense is at most what is quoted, whether that is sparse or dense.
  if (out.fp4_tflops_dense_assumed && !out.fp4_tflops_quoted.empty() &&
      *out.fp4_tflops_dense_assumed > out.fp4_tflops_quoted.back()) {
    reader.fault_at("fp4_tflops_dense_assumed",
                    fmt::format("is {}, more than \"fp4_tflops_quoted\" at {}; a dense rate cannot "
                                "exceed the quoted one",
                                *out.fp4_tflops_dense_assumed, out.fp4_tflops_quoted.back()));
  }
}

Result<> parse_machine_part(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  out.gpu = reader.require_string("gpu");
  out.gpus = reader.integer("gpus", kCount).value_or(1);
  out.link = reader.string("link").value_or("");
  out.link_gb_s = reader.number("link_gb_s", kBandwidth);
  out.link_latency_us = reader.number("link_latency_us", kHop);
  out.sms = reader.number("sms", kSms);
  read_quoted_peak(reader, out);
  out.bandwidth_gb_s = reader.number("bandwidth_gb_s", kBandwidth);
  out.memory_gb = reader.number("memory_gb", kMemory);
  out.shared_memory_per_block_kb_reported =
      reader.numbers("shared_memory_per_block_kb_reported", kSharedMemory)
          .value_or(std::vector<double>{});
  out.power_limit_w = reader.number("power_limit_w", kWatts);
  return reader.finish();
}

void read_layout(ObjectReader& reader, ParallelLayout& layout) {
  layout.tp = reader.integer("tp", kCount).value_or(1);
  layout.pp = reader.integer("pp", kCount).value_or(1);
  layout.dp = reader.integer("dp", kCount).value_or(1);
  layout.ep = reader.integer("ep", kCount).value_or(1);
  layout.dp_attention = reader.boolean("dp_attention").value_or(false);
  layout.microbatches = reader.integer("microbatches", kCount).value_or(0);
}

Result<> parse_server(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  out.engine = reader.string("engine").value_or("");
  if (const Json* layout = reader.object("layout")) {
    const Place layout_place = place.member("layout");
    ObjectReader layout_reader(*layout, layout_place.text());
    read_layout(layout_reader, out.layout);
    NIBBLE_RETURN_IF_ERROR(layout_reader.finish());
    out.layout_stated = true;
    if (out.layout.gpus() != out.gpus) {
      return input_error(
          "{}: tp {} x pp {} x dp {} makes {} GPUs, but machine.gpus is {}; make them agree",
          layout_place.text(), out.layout.tp, out.layout.pp, out.layout.dp, out.layout.gpus(),
          out.gpus);
    }
  }
  out.max_running_requests = reader.integer("max_running_requests", {.min = 1, .max = 1e6});
  out.kv_format = read_format(reader, "kv_format");
  return reader.finish();
}

Result<> parse_kernel(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  MeasuredKernel kernel;
  kernel.path = place.path;
  kernel.op = reader.require_string("op");
  if (!kernel.op.empty() && kernel.op != "gemm") {
    reader.fault_at("op",
                    fmt::format("is \"{}\"; the operation known here is \"gemm\"", kernel.op));
  }
  if (!reader.has("format")) reader.fault_at("format", "is missing");
  kernel.format = read_format(reader, "format").value_or(Format::kBf16);
  kernel.activations = read_format(reader, "activations").value_or(Format::kBf16);
  kernel.library = reader.string("library").value_or("");
  kernel.shape = reader.string("shape").value_or("");
  kernel.m = reader.number("m", kDimension);
  kernel.n = reader.number("n", kDimension);
  kernel.k = reader.number("k", kDimension);
  const int stated =
      int{kernel.m.has_value()} + int{kernel.n.has_value()} + int{kernel.k.has_value()};
  if (stated == 1 || stated == 2) {
    reader.fault_at(!kernel.m   ? "m"
                    : !kernel.n ? "n"
                                : "k",
                    "is missing; give m, n and k together");
  }
  kernel.tflops = reader.number("tflops", kTflops);
  kernel.time_us = reader.number("time_us", kTime);
  if (kernel.tflops.has_value() == kernel.time_us.has_value()) {
    reader.fault_at("tflops", "or \"time_us\" must be given, and not both");
  } else if (kernel.time_us && stated != 3) {
    reader.fault_at("time_us", "needs m, n and k");
  }
  kernel.approximate = reader.boolean("approximate").value_or(false);
  kernel.cold = reader.boolean("cold");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  out.kernels.push_back(std::move(kernel));
  return {};
}

Result<LatencySummary> parse_latency(const Json& json, const Place& place) {
  ObjectReader reader(json, place.text());
  LatencySummary latency;
  latency.mean = reader.number("mean", kTime);
  const std::pair<const char*, std::optional<double>*> ordered[] = {
      {"p50", &latency.p50}, {"p95", &latency.p95}, {"p99", &latency.p99}, {"max", &latency.max}};
  const char* below = nullptr;
  double least = 0;
  for (const auto& [key, value] : ordered) {
    *value = reader.number(key, kTime);
    if (!*value) continue;
    if (below != nullptr && **value < least) {
      reader.fault_at(key, fmt::format("is {}, less than \"{}\" at {}", **value, below, least));
    }
    below = key;
    least = **value;
  }
  if (latency.mean && latency.max && *latency.mean > *latency.max) {
    reader.fault_at("mean",
                    fmt::format("is {}, more than \"max\" at {}", *latency.mean, *latency.max));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return latency;
}

Result<GpuSamples> parse_gpus(const Json& json, const Place& place, std::int64_t gpus) {
  ObjectReader reader(json, place.text());
  GpuSamples samples;
  const auto read = [&](std::string_view key, NumberRange range, std::vector<double>& into) {
    std::optional<std::vector<double>> values = reader.numbers(key, range);
    if (!values) return;
    if (values->size() != static_cast<std::size_t>(gpus)) {
      reader.fault_at(key, fmt::format("has {} numbers for {} GPUs", values->size(), gpus));
    }
    into = *std::move(values);
  };
  read("power_w", kWatts, samples.power_w);
  read("utilization_pct", kPercent, samples.utilization_pct);
  read("sm_mhz", kMegahertz, samples.sm_mhz);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return samples;
}

// Rates that more than one object states: output is a part of the total.
void read_rates(ObjectReader& reader, std::optional<double>& output, std::optional<double>& total) {
  output = reader.number("output_tok_s", kRate);
  total = reader.number("total_tok_s", kRate);
  if (output && total && *output > *total) {
    reader.fault_at("output_tok_s",
                    fmt::format("is {}, more than \"total_tok_s\" at {}", *output, *total));
  }
}

Result<MeasuredLevel> parse_level(const Json& json, const Place& place, std::int64_t gpus) {
  ObjectReader reader(json, place.text());
  MeasuredLevel level;
  level.path = place.path;
  level.concurrency = reader.require_number("concurrency", kConcurrency);
  read_rates(reader, level.output_tok_s, level.total_tok_s);
  level.queue_length = reader.number("queue_length", kQueue);
  if (const Json* itl = reader.object("itl_ms")) {
    NIBBLE_ASSIGN_OR_RETURN(level.itl_ms, parse_latency(*itl, place.member("itl_ms")));
  }
  if (const Json* ttft = reader.object("ttft_ms")) {
    NIBBLE_ASSIGN_OR_RETURN(level.ttft_ms, parse_latency(*ttft, place.member("ttft_ms")));
  }
  if (const Json* samples = reader.object("gpus")) {
    NIBBLE_ASSIGN_OR_RETURN(level.gpus, parse_gpus(*samples, place.member("gpus"), gpus));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return level;
}

Result<> parse_levels(const Json& list, const Place& place, std::int64_t gpus,
                      std::vector<MeasuredLevel>& levels) {
  if (list.as_array().size() > kMostItems) {
    return input_error("{} has {} levels; the most is {}", place.text(), list.as_array().size(),
                       kMostItems);
  }
  std::set<double> seen;
  for (std::size_t index = 0; index < list.as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(MeasuredLevel level,
                            parse_level(list.as_array()[index], place.item(index), gpus));
    if (!seen.insert(level.concurrency).second) {
      return input_error(
          "{}: \"concurrency\" is {}, which an earlier level has too; keep one of them",
          place.item(index).text(), level.concurrency);
    }
    levels.push_back(std::move(level));
  }
  std::stable_sort(
      levels.begin(), levels.end(),
      [](const MeasuredLevel& a, const MeasuredLevel& b) { return a.concurrency < b.concurrency; });
  return {};
}

void read_request_rate(ObjectReader& reader, Case& out) {
  const Json* rate = reader.any("request_rate");
  if (rate == nullptr) return;
  if (rate->is_number()) {
    out.request_rate = fmt::format("{}", reader.number("request_rate", kRate).value_or(0));
  } else if (rate->is_string() && rate->as_string() == "inf") {
    out.request_rate = "inf";
  } else {
    reader.fault_at("request_rate", "must be a number of requests per second, or \"inf\"");
  }
}

Result<> parse_load(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  out.dataset = reader.string("dataset").value_or("");
  out.input_len = reader.number("input_len", kTokens);
  out.output_len = reader.number("output_len", kTokens);
  read_request_rate(reader, out);
  if (const Json* levels = reader.array("levels")) {
    NIBBLE_RETURN_IF_ERROR(parse_levels(*levels, place.member("levels"), out.gpus, out.levels));
  }
  if (const Json* tuned = reader.array("after_tuning")) {
    NIBBLE_RETURN_IF_ERROR(
        parse_levels(*tuned, place.member("after_tuning"), out.gpus, out.after_tuning));
  }
  return reader.finish();
}

Result<> parse_compared_layout(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  MeasuredLayout compared;
  compared.path = place.path;
  read_layout(reader, compared.layout);
  compared.concurrency = reader.require_number("concurrency", kConcurrency);
  read_rates(reader, compared.output_tok_s, compared.total_tok_s);
  compared.approximate = reader.boolean("approximate").value_or(false);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  out.layouts_compared.push_back(compared);
  return {};
}

Result<> parse_claim(const Json& json, const Place& place, Case& out) {
  ObjectReader reader(json, place.text());
  Claim claim;
  claim.path = place.path;
  claim.what = reader.require_string("what");
  claim.value = reader.require_number("value", kClaim);
  claim.unit = reader.string("unit").value_or("");
  claim.source = reader.require_string("source");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  out.claims.push_back(std::move(claim));
  return {};
}

using ItemParser = Result<> (*)(const Json&, const Place&, Case&);

Result<> parse_items(ObjectReader& reader, const Place& place, std::string_view key,
                     ItemParser parse, Case& out) {
  const Json* list = reader.array(key);
  if (list == nullptr) return {};
  if (list->as_array().size() > kMostItems) {
    return input_error("{} has {} items; the most is {}", place.member(key).text(),
                       list->as_array().size(), kMostItems);
  }
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    NIBBLE_RETURN_IF_ERROR(parse(list->as_array()[index], place.member(key).item(index), out));
  }
  return {};
}

Result<> parse_note(const Json& json, const Place& place, Case& out) {
  if (!json.is_string()) {
    return input_error("{} must be a string, found {}", place.text(), json.kind_name());
  }
  out.notes.push_back(json.as_string());
  return {};
}

Result<> parse_failed_tactic(const Json& json, const Place& place, Case& out) {
  if (!json.is_string()) {
    return input_error("{} must be a tile such as \"128x256\", found {}", place.text(),
                       json.kind_name());
  }
  const Result<TileShape> tile = parse_tile(json.as_string());
  if (!tile) return input_error("{}: {}", place.text(), tile.error().message);
  out.tactics_failed.push_back(json.as_string());
  return {};
}

const Json& required_object(ObjectReader& reader, std::string_view key) {
  static const Json kEmpty = Json::object();
  if (!reader.has(key)) reader.fault_at(key, "is missing");
  const Json* found = reader.object(key);
  return found != nullptr ? *found : kEmpty;
}

}  // namespace

Result<Case> parse_case(const Json& json, std::string_view where) {
  const Place place{where, ""};
  ObjectReader reader(json, std::string(where));
  Case out;
  const std::string schema = reader.require_string("schema");
  if (!schema.empty() && schema != kSchema) {
    reader.fault_at("schema", fmt::format("is \"{}\"; this program reads \"{}\"", schema, kSchema));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  out.name = reader.require_string("name");
  out.source = reader.string("source").value_or("");
  const Json& model = required_object(reader, "model");
  const Json& machine = required_object(reader, "machine");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  NIBBLE_RETURN_IF_ERROR(parse_model_part(model, place.member("model"), out));
  NIBBLE_RETURN_IF_ERROR(parse_machine_part(machine, place.member("machine"), out));
  out.layout.tp = out.gpus;
  if (const Json* server = reader.object("server")) {
    NIBBLE_RETURN_IF_ERROR(parse_server(*server, place.member("server"), out));
  }
  NIBBLE_RETURN_IF_ERROR(parse_items(reader, place, "kernels", parse_kernel, out));
  NIBBLE_RETURN_IF_ERROR(parse_items(reader, place, "tactics_failed", parse_failed_tactic, out));
  if (const Json* load = reader.object("load")) {
    NIBBLE_RETURN_IF_ERROR(parse_load(*load, place.member("load"), out));
  }
  NIBBLE_RETURN_IF_ERROR(
      parse_items(reader, place, "layouts_compared", parse_compared_layout, out));
  NIBBLE_RETURN_IF_ERROR(parse_items(reader, place, "claims", parse_claim, out));
  NIBBLE_RETURN_IF_ERROR(parse_items(reader, place, "notes", parse_note, out));
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return out;
}

}  // namespace nibble
