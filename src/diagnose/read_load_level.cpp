// One level of nibble.load/1: rates of the steady window where there is one, latencies of it where
// it was long enough to be fair to long requests, and what was seen beside it.
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"
#include "diagnose/read_load.h"
#include "diagnose/read_signals.h"

namespace nibble::diagnose {
namespace {

constexpr double kSecond = 1e9;

struct LoadPlan {
  std::optional<double> users;
  std::string name;
};

// Members of a level that are objects; nullptr: absent.
struct LevelParts {
  const Json* steady = nullptr;
  const Json* joined = nullptr;
  const Json* telemetry = nullptr;
  const Json* audit = nullptr;
  const Json* interval = nullptr;
};

// As the load test names its levels.
Result<LoadPlan> plan_in(ObjectReader& reader) {
  const std::optional<double> most = reader.number("max_concurrency", {.min = 0});
  const Json* rate = reader.any("request_rate");
  const bool number = rate != nullptr && rate->is_number();
  if (rate != nullptr && !number && *rate != Json("inf")) {
    return input_error("{}.request_rate is {}, not a number or \"inf\"", reader.where(),
                       rate->kind_name());
  }
  LoadPlan plan;
  if (!number) {
    plan.users = most;
    plan.name = most ? fmt::format("{} user{}", format_compact(*most), *most == 1 ? "" : "s")
                     : std::string("all at once");
    return plan;
  }
  plan.name = fmt::format("{} req/s", format_compact(rate->as_number()));
  if (most) plan.name += fmt::format(", at most {}", format_compact(*most));
  return plan;
}

std::optional<double> over(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || !(*b > 0)) return std::nullopt;
  return *a / *b;
}

// Counts and rates of one object: the level or its steady window.
void put_rates(ObjectReader& reader, const FactWriter& writer) {
  const std::optional<double> ok = reader.number("completed", {.min = 0});
  const std::optional<double> failed = reader.number("failed", {.min = 0});
  writer.put(Fact::kInFlight, reader.number("mean_in_flight", {.min = 0}), "mean_in_flight",
             "requests in flight were not counted");
  writer.put(Fact::kOutputRate, reader.number("output_throughput", {.min = 0}), "output_throughput",
             "no output tokens came");
  writer.put(Fact::kRequestRate, reader.number("request_throughput", {.min = 0}),
             "request_throughput", "no request ended");
  writer.put(Fact::kPromptTokens, over(reader.number("total_input_tokens", {.min = 0}), ok),
             "total_input_tokens", "no request succeeded");
  writer.put(Fact::kOutputTokens, over(reader.number("total_output_tokens", {.min = 0}), ok),
             "total_output_tokens", "no request succeeded");
  writer.put(Fact::kCachedShare, reader.number("cached_fraction", {.min = 0, .max = 1}),
             "cached_fraction", "the server's usage does not tell cached tokens");
  writer.put(Fact::kDegenerateShare, over(reader.number("degenerate", {.min = 0}), ok),
             "degenerate", "no request succeeded");
  const std::optional<double> ended = ok && failed ? std::optional(*ok + *failed) : std::nullopt;
  writer.put(Fact::kFailedShare, over(failed, ended), "failed", "no request ended");
}

void put_latencies(ObjectReader& reader, const FactWriter& writer) {
  constexpr const char* kNone = "no answer gives one";
  writer.put(Fact::kTtft, reader.number("mean_ttft_ms", {.min = 0}), "mean_ttft_ms", kNone);
  writer.put(Fact::kTpot, reader.number("mean_tpot_ms", {.min = 0}), "mean_tpot_ms", kNone);
  writer.put(Fact::kItlP50, reader.number("median_itl_ms", {.min = 0}), "median_itl_ms", kNone);
  writer.put(Fact::kItlP99, reader.number("p99_itl_ms", {.min = 0}), "p99_itl_ms", kNone);
}

Result<> put_client(const Json* audit, const FactWriter& level, const std::string& where) {
  if (audit == nullptr) {
    level.put(Fact::kClientLag, std::nullopt, "", "the client was not watched");
    level.put(Fact::kClientCpu, std::nullopt, "", "the client was not watched");
    return {};
  }
  ObjectReader reader(*audit, where);
  level.put(Fact::kClientLag, reader.number("loop_lag_p99_ms", {.min = 0}),
            "client_overhead.loop_lag_p99_ms", "the client's loops were not watched");
  level.put(Fact::kClientCpu, reader.number("loop_cpu_share", {.min = 0}),
            "client_overhead.loop_cpu_share", "the client's loops were not watched");
  return reader.finish_lenient();
}

Result<> put_noise(const Json* interval, const FactWriter& level, const std::string& where) {
  if (interval == nullptr) {
    level.put(Fact::kRateNoise, std::nullopt, "", "no interval of the rate is told");
    return {};
  }
  ObjectReader reader(*interval, where);
  const std::optional<std::string> reason = reader.string("reason");
  level.put(Fact::kRateNoise, reader.number("half_width", {.min = 0}),
            "output_throughput_ci.half_width", reason.value_or("the rate has no interval"));
  return reader.finish_lenient();
}

// The joined signals have been checked by who joined them; of several GPUs power is a sum, which
// the signals of each replace.
Result<> put_joined(const Json* joined, const FactWriter& level, std::optional<double> ended,
                    const std::string& where) {
  static const Json kNothing = Json::object();
  ObjectReader reader(joined == nullptr ? kNothing : *joined, where);
  const Json* reasons = reader.object("reasons");
  const auto put = [&](Fact fact, const char* member, std::optional<double> value) {
    const Json* reason = reasons == nullptr ? nullptr : reasons->find(member);
    const bool told = reason != nullptr && reason->is_string();
    level.put(fact, value, fmt::format("joined.{}", member),
              told ? reason->as_string() : std::string("not recorded beside the level"));
  };
  const auto share = [&](Fact fact, const char* member) {
    put(fact, member, reader.number(member, {.min = 0, .max = 1}));
  };
  put(Fact::kRunning, "server_running", reader.number("server_running", {.min = 0}));
  put(Fact::kWaiting, "server_waiting", reader.number("server_waiting", {.min = 0}));
  share(Fact::kKvUsage, "server_kv_usage");
  put(Fact::kPreemptions, "server_preemptions",
      over(reader.number("server_preemptions", {.min = 0}), ended));
  share(Fact::kTensor, "gpu_tensor_activity");
  share(Fact::kDram, "gpu_dram_activity");
  share(Fact::kSmActive, "gpu_sm_activity");
  put(Fact::kSmClock, "gpu_sm_clock_mhz", reader.number("gpu_sm_clock_mhz", {.min = 0}));
  share(Fact::kHostCpu, "host_cpu");
  level.level.joules_per_token = reader.number("joules_per_output_token", {.min = 0});
  return reader.finish_lenient();
}

void put_total_power(const Json* joined, const FactWriter& level, const Setting& setting) {
  const Json* total = joined == nullptr ? nullptr : joined->find("gpu_power_w");
  if (total == nullptr || !total->is_number()) return;
  level.put(Fact::kPower, total->as_number() / static_cast<double>(setting.gpus),
            "joined.gpu_power_w over the GPUs", "");
}

void put_window(const SignalTable& table, const Json* steady, const Evidence& evidence,
                LevelEvidence& level) {
  std::int64_t begin = table.window().begin;
  std::int64_t end = table.window().end;
  const auto moment = [&](const char* key) -> std::int64_t {
    const Json* found = steady == nullptr ? nullptr : steady->find(key);
    return found != nullptr && found->is_integer() ? found->as_integer() : 0;
  };
  if (begin == 0) begin = moment("start_ns");
  if (end == 0) end = moment("stop_ns");
  if (evidence.zero_ns == 0 || begin <= 0 || end <= begin) return;
  level.start_s = static_cast<double>(begin - evidence.zero_ns) / kSecond;
  level.end_s = static_cast<double>(end - evidence.zero_ns) / kSecond;
}

// What the server's counters do not tell follows from what the client sent.
void derive_prompt_rate(LevelEvidence& level) {
  const auto requests = level.get(Fact::kRequestRate);
  const auto prompt = level.get(Fact::kPromptTokens);
  if (!requests || !prompt) return;
  const double computed = *requests * *prompt * (1 - level.get(Fact::kCachedShare).value_or(0));
  fill_fact(level, Fact::kPromptRate,
            derived(computed, "requests/s x prompt tokens that were not cached"));
}

// The steady window where it has numbers.
struct Inside {
  ObjectReader reader;
  bool valid = false;
  bool enough = false;  // for latencies, too
};

Inside inside_of(const Json* steady, const std::string& place) {
  static const Json kEmpty = Json::object();
  Inside inside{.reader = ObjectReader(steady == nullptr ? kEmpty : *steady, place + ".steady")};
  inside.valid = !inside.reader.has("reason") && inside.reader.has("output_throughput");
  inside.enough = inside.valid && inside.reader.boolean("enough").value_or(false);
  return inside;
}

// What the client saw.
Result<> put_seen_by_client(ObjectReader& reader, Inside& inside, const FactWriter& of_level) {
  const FactWriter of_window{of_level.level, of_level.context, of_level.where + ".steady"};
  put_rates(inside.valid ? inside.reader : reader, inside.valid ? of_window : of_level);
  put_latencies(inside.enough ? inside.reader : reader, inside.enough ? of_window : of_level);
  const std::string no_repeats =
      reader.string("repeated_prompts_reason").value_or("whether prompts repeat was not recorded");
  of_level.put(Fact::kRepeatedShare, reader.number("repeated_prompts", {.min = 0, .max = 1}),
               "repeated_prompts", no_repeats);
  const std::string no_drift =
      reader.string("rate_drift_reason").value_or("the drift of the rate was not recorded");
  of_level.put(Fact::kRateDrift, reader.number("rate_drift"), "rate_drift", no_drift);
  NIBBLE_RETURN_IF_ERROR(inside.reader.finish_lenient());
  return reader.finish_lenient();
}

// What was seen beside it.
Result<> put_seen_beside(const LevelParts& parts, const FactWriter& of_level,
                         std::optional<double> ended, const std::string& place,
                         Evidence& evidence) {
  NIBBLE_RETURN_IF_ERROR(put_noise(parts.interval, of_level, place + ".output_throughput_ci"));
  NIBBLE_RETURN_IF_ERROR(put_client(parts.audit, of_level, place + ".client_overhead"));
  NIBBLE_RETURN_IF_ERROR(put_joined(parts.joined, of_level, ended, place + ".joined"));
  NIBBLE_ASSIGN_OR_RETURN(const SignalTable table,
                          SignalTable::parse(parts.telemetry, place + ".telemetry"));
  const FactWriter of_signals{of_level.level, of_level.context, of_level.where + ".telemetry"};
  put_machine_facts(table, of_signals, evidence.setting);
  put_total_power(parts.joined, of_level, evidence.setting);
  put_engine_facts(table, of_signals, evidence.setting.engine);
  put_window(table, parts.steady, evidence, of_level.level);
  return {};
}

// Other documents may tell these.
void expect_more(LevelEvidence& level) {
  constexpr const char* kNoFloor = "no model and machine were given for a floor";
  for (const Fact fact : {Fact::kKernels, Fact::kPrefillPerToken}) {
    fill_fact(level, fact, missing("kernels were not measured alone"));
  }
  fill_fact(level, Fact::kFloor, missing(kNoFloor));
  if (!level.floor && level.floor_reason.empty()) level.floor_reason = kNoFloor;
}

}  // namespace

Result<> read_load_level(const Json& json, const std::string& where, const ReadContext& context,
                         Evidence& evidence) {
  const std::string place = place_in(context, where);
  ObjectReader reader(json, place);
  NIBBLE_ASSIGN_OR_RETURN(const LoadPlan plan, plan_in(reader));
  const LevelParts parts{.steady = reader.object("steady"),
                         .joined = reader.object("joined"),
                         .telemetry = reader.object("telemetry"),
                         .audit = reader.object("client_overhead"),
                         .interval = reader.object("output_throughput_ci")};
  const bool complete = reader.boolean("complete").value_or(true);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  LevelEvidence& level = evidence.levels[find_or_add_level(evidence, plan.name, plan.users)];
  if (level[Fact::kOutputRate].known()) {
    return input_error("{}: {} was measured in {} too; give one of them, or compare two diagnoses",
                       place, plan.name, level[Fact::kOutputRate].source);
  }
  const FactWriter of_level{level, context, where};
  of_level.put(Fact::kUsers, plan.users, "max_concurrency", "an open loop has no users");
  Inside inside = inside_of(parts.steady, place);
  NIBBLE_RETURN_IF_ERROR(put_seen_by_client(reader, inside, of_level));
  const std::optional<double> ended = (inside.valid ? inside.reader : reader).number("completed");
  NIBBLE_RETURN_IF_ERROR(put_seen_beside(parts, of_level, ended, place, evidence));
  derive_prompt_rate(level);
  derive_power_facts(level, evidence.setting);
  level.counts = complete || inside.valid;
  expect_more(level);
  return {};
}

}  // namespace nibble::diagnose
