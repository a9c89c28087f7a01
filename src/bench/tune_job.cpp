#include "bench/tune_job.h"

#include "bench/cuda_bench.h"
#include "bench/route_draw.h"
#include "bench/tune_cpu.h"
#include "bench/tune_cuda.h"
#include "tactics/tune/cpu_site.h"

namespace nibble {

Json to_json(const TuneJob& job) {
  Json tokens = Json::array();
  for (const std::int64_t count : job.tokens) tokens.push(count);
  return Json::object()
      .set("on", job.on)
      .set("routing", job.routing)
      .set("tokens", std::move(tokens))
      .set("experts", job.experts)
      .set("seed", static_cast<std::int64_t>(job.seed));
}

Result<TuneJob> parse_tune_job(const Json& json) {
  constexpr double kMost = 1 << 24;
  ObjectReader reader(json, "the tuner's job");
  TuneJob job;
  job.on = reader.require_string("on");
  job.routing = reader.require_string("routing");
  for (const double count : reader.numbers("tokens", {1, kMost}).value_or(std::vector<double>())) {
    job.tokens.push_back(static_cast<std::int64_t>(count));
  }
  job.experts = reader.require_integer("experts", {1, kMost});
  job.seed = static_cast<std::uint64_t>(reader.require_integer("seed", {.min = 0}));
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return job;
}

Result<tune::WorkerService> make_tune_service(const Json& json) {
  NIBBLE_ASSIGN_OR_RETURN(const TuneJob job, parse_tune_job(json));
  NIBBLE_ASSIGN_OR_RETURN(const RouteDraw routing, parse_routing_or_file(job.routing, job.experts));
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> gpu, parse_on(job.on));
  if (!gpu) {
    return tune::WorkerService{.backend = make_cpu_tuner({.routing = routing, .seed = job.seed})};
  }
  return make_cuda_tuner(
      {.ordinal = *gpu, .routing = routing, .tokens = job.tokens, .seed = job.seed});
}

Result<tune::TuningSite> tuning_site(const std::string& on) {
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> gpu, parse_on(on));
  if (!gpu) return tune::cpu_tuning_site();
  return cuda_tuning_site(*gpu);
}

}  // namespace nibble
