#include "bench/cuda_row.h"

#include "base/stats.h"

namespace nibble {
namespace {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

template <class Get>
double mean_of(const std::vector<CudaRun>& runs, Get get) {
  double sum = 0;
  for (const CudaRun& run : runs) sum += get(run);
  return runs.empty() ? 0 : sum / static_cast<double>(runs.size());
}

}  // namespace

void set_runs(CudaRow& row, const std::vector<CudaRun>& runs, const Sample& times,
              const CudaRoofsNow& roofs) {
  constexpr double kConfidence = 0.95;
  BenchRow& bench = row.row;
  bench.time_us = times;
  std::vector<double> shares, predicted;
  for (const CudaRun& run : runs) {
    shares.push_back(run.floor.us() / run.us);
    if (row.predicted_us) predicted.push_back(*row.predicted_us / run.us);
  }
  bench.share = summarize(std::move(shares), kConfidence);
  bench.share.stopped = times.stopped;
  if (!predicted.empty()) bench.predicted = summarize(std::move(predicted), kConfidence);
  bench.weight_bytes = mean_of(runs, [](const CudaRun& run) { return run.work.weight_bytes; });
  bench.bytes = mean_of(runs, [](const CudaRun& run) { return run.work.bytes(); });
  bench.flop = mean_of(runs, [](const CudaRun& run) { return run.work.flop; });
  bench.distinct = mean_of(runs, [](const CudaRun& run) { return run.work.distinct; });
  bench.rows_per_expert = mean_of(runs, [](const CudaRun& run) { return run.work.slots; }) /
                          std::max(1.0, bench.distinct);
  bench.memory_us = mean_of(runs, [](const CudaRun& run) { return run.floor.memory_us; });
  bench.compute_us = mean_of(runs, [](const CudaRun& run) { return run.floor.compute_us; });
  bench.floor_us = bench.time_us.median * bench.share.median;
  bench.predicted_us = bench.time_us.median * bench.predicted.median;
  bench.roof_gb_s = bench.cold ? roofs.read_gb_s : 0;
  bench.roof_tops = roofs.matrix_tflops;
}

std::optional<double> launch_floor_us(const GpuRoofs& roofs, int launches) {
  const auto one = roofs.value("graph_launch_us");
  // Our kernels are launched programmatically where the GPU can do it.
  auto gap = roofs.value("graph_gap_programmatic_us");
  if (!gap) gap = roofs.value("graph_gap_us");
  if (!one || !gap || launches < 1) return std::nullopt;
  return *one + *gap * (launches - 1);
}

Json to_json(const CudaRow& row) {
  Json json = to_json(row.row);
  const bool timed = row.row.timed();
  if (row.row.share.values.empty()) {  // no floor is known
    for (const char* key : {"floor_us", "memory_us", "compute_us", "bound_by", "roof_share",
                            "roof_gb_s", "roof_tops", "m", "weight_bytes", "distinct_experts"}) {
      json.set(key, Json());
    }
    json.set("bytes", row.bytes).set("flop", row.flop);
    const double us = row.row.time_us.median;
    json.set("reached_gb_s", timed && row.bytes ? Json(*row.bytes / us * 1e-3) : Json());
    json.set("reached_tops", timed && row.flop ? Json(*row.flop / us * 1e-6) : Json());
  }
  if (timed && !(row.row.roof_tops > 0)) {  // no matrix rate is known
    json.set("compute_us", Json()).set("roof_tops", Json()).set("bound_by", Json());
  }
  if (row.row.predicted.values.empty()) {
    json.set("predicted_us", Json()).set("predicted_ratio", Json());
  }
  json.set("on", text_or_null(row.on)).set("part", text_or_null(row.part));
  json.set("routing", text_or_null(row.routing)).set("tactic", text_or_null(row.tactic));
  json.set("imported", text_or_null(row.imported));
  json.set("launches", row.launches > 0 ? Json(row.launches) : Json());
  json.set("launch_floor_us", row.launch_floor_us);
  const double launch = row.launch_floor_us.value_or(0);
  json.set("time_over_floors", timed && row.launch_floor_us && row.row.floor_us > 0
                                   ? Json(row.row.time_us.median / (row.row.floor_us + launch))
                                   : Json());
  json.set("conditions", row.imported.empty() ? to_json(row.conditions) : Json());
  return json;
}

}  // namespace nibble
