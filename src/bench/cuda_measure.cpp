#include "bench/cuda_measure.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace nibble {
namespace {

// The replays of one row.
class CudaRowMeter {
 public:
  CudaRowMeter(CudaRig& rig, const CudaContext& context, CudaRoofsNow roofs, bool cold)
      : rig_(rig), context_(context), roofs_(roofs), cold_(cold) {}

  // A graph for each copy of the weights, each run once: the first launch of a graph is no
  // measurement.
  Result<> capture() {
    cuda::Stream& stream = context_.timer.stream();
    for (int copy = 0; copy < rig_.copies(); ++copy) {
      if (const Result<CudaWork> drawn = rig_.draw(stream); !drawn.ok()) return drawn.error();
      NIBBLE_ASSIGN_OR_RETURN(cuda::Graph graph,
                              stream.capture([&] { return rig_.enqueue(copy, stream); }));
      graphs_.push_back(std::move(graph));
      NIBBLE_RETURN_IF_ERROR(graphs_.back().launch(stream));
    }
    return stream.synchronize();
  }

  int nodes() const { return static_cast<int>(graphs_.front().nodes()); }

  Sample collect_runs() {
    return collect(context_.rule, steady_now, [this] {
      const Result<double> us = failed_.ok() ? one_run() : Result<double>(0.0);
      if (!us.ok()) failed_ = us.error();
      return us.ok() ? *us : 0.0;
    });
  }

  const Result<>& failed() const { return failed_; }
  const std::vector<CudaRun>& runs() const { return runs_; }

 private:
  Result<double> one_run() {
    CudaRun run;
    const std::size_t copy = next_++ % graphs_.size();
    NIBBLE_ASSIGN_OR_RETURN(run.us, context_.timer.time_us(graphs_[copy], [&]() -> Result<> {
      NIBBLE_ASSIGN_OR_RETURN(run.work, rig_.draw(context_.timer.stream()));
      return {};
    }));
    if (!(run.us > 0)) return run_error("the GPU's clock says that a run took no time");
    run.floor = floor_of(run.work, roofs_, cold_);
    runs_.push_back(run);
    return run.us;
  }

  CudaRig& rig_;
  const CudaContext& context_;
  CudaRoofsNow roofs_;
  bool cold_;
  std::vector<cuda::Graph> graphs_;
  std::vector<CudaRun> runs_;
  std::size_t next_ = 0;
  Result<> failed_;
};

// The median of a prediction for every routing that takes its turn.
std::optional<double> predicted_us(CudaRig& rig, const GpuRoofs& roofs, double clock_ghz,
                                   cuda::Stream& stream) {
  const std::optional<CudaRates> rates = rates_of(roofs, clock_ghz);
  if (!rates) return std::nullopt;
  std::vector<double> all;
  for (int draw = 0; draw < kTurns; ++draw) {
    if (!rig.draw(stream).ok()) return std::nullopt;
    const std::optional<double> us = rig.predict_us(*rates);
    if (!us) return std::nullopt;
    all.push_back(*us);
  }
  return median(all);
}

void add_cuda_flags(CudaRow& row, const CudaRig& rig, const CudaContext& context) {
  BenchRow& bench = row.row;
  const double touched = bench.weight_bytes * rig.copies();
  if (bench.cold && std::max(touched, bench.weight_bytes) < 2 * context.l2_bytes) {
    bench.as_called = false;
    bench.flags.push_back(
        fmt::format("the weights of all copies take {}, the L2 cache {}: not cold",
                    format_bytes(touched), format_bytes(context.l2_bytes)));
  }
  if (!bench.cold && bench.weight_bytes > context.l2_bytes) {
    bench.as_called = false;
    bench.flags.push_back("the weights of a run exceed the L2 cache: not hot");
  }
  if (bench.time_us.modes.two) {
    bench.flags.push_back(fmt::format("times have two modes: {} in {} of the runs, else {}",
                                      format_time_us(bench.time_us.modes.low),
                                      format_share(bench.time_us.modes.low_share),
                                      format_time_us(bench.time_us.modes.high)));
  }
  if (!bench.time_us.interval) bench.flags.push_back("too few runs for an interval");
  if (!row.conditions.throttled.empty()) {
    bench.flags.push_back("throttled meanwhile: " + join(row.conditions.throttled, ", "));
  }
}

Result<> check_into(CudaRow& row, CudaRig& rig, cuda::Stream& stream) {
  NIBBLE_RETURN_IF_ERROR(rig.set_tokens(row.row.tokens));
  row.row.kernel = rig.kernel();
  row.row.ring_bytes = rig.ring_bytes();
  row.tactic = rig.tactic();
  return rig.check(stream);
}

Result<> measure_into(CudaRow& row, CudaRig& rig, Precision precision, const CudaContext& context) {
  BenchRow& bench = row.row;
  NIBBLE_RETURN_IF_ERROR(check_into(row, rig, context.timer.stream()));
  if (const std::string why = rig.why_not_timed(); !why.empty()) return run_error("{}", why);
  const CudaRoofsNow roofs = roofs_for(context.roofs, precision);
  CudaRowMeter meter(rig, context, roofs, bench.cold);
  NIBBLE_RETURN_IF_ERROR(meter.capture());
  context.watch.start();
  const Sample times = meter.collect_runs();
  row.conditions = context.watch.stop();
  NIBBLE_RETURN_IF_ERROR(meter.failed());
  row.launches = meter.nodes();
  row.launch_floor_us = launch_floor_us(context.roofs, row.launches);
  const auto mma = context.roofs.roofs.find("mma_bf16_tflops");
  const auto clock = mma == context.roofs.roofs.end() ? row.conditions.clock_mhz
                                                      : mma->second.conditions.clock_mhz;
  if (clock) {
    row.predicted_us = predicted_us(rig, context.roofs, *clock * 1e-3, context.timer.stream());
  }
  set_runs(row, meter.runs(), times, roofs);
  add_cuda_flags(row, rig, context);
  if (!(roofs.matrix_tflops > 0)) {
    bench.flags.push_back(
        fmt::format("no {} matrix rate of this GPU was measured: the floor is that of memory alone",
                    to_string(precision)));
  }
  const std::string wrong = accounting_error(bench.share);
  if (!wrong.empty() && bench.cold) bench.error = wrong;
  return {};
}

}  // namespace

CudaRoofsNow roofs_for(const GpuRoofs& roofs, Precision precision) {
  CudaRoofsNow now{.read_gb_s = roofs.value("read_gb_s").value_or(0)};
  const double mma = roofs.value("mma_bf16_tflops").value_or(0);
  now.matrix_tflops = std::max(roofs.value("bf16_tflops").value_or(0), mma);
  if (precision == Precision::kFp8) {
    now.matrix_tflops = roofs.value("fp8_tflops").value_or(now.matrix_tflops);
  }
  // A bf16 rate is no bound of FP4 products, which may be eight times as fast.
  if (precision == Precision::kFp4) now.matrix_tflops = roofs.value("fp4_tflops").value_or(0);
  return now;
}

CudaRow check_cuda_row(CudaRig& rig, CudaRow row, std::int64_t tokens, cuda::Stream& stream) {
  row.row.tokens = tokens;
  const Result<> checked = check_into(row, rig, stream);
  if (!checked.ok()) row.row.error = checked.error().message;
  return row;
}

CudaRow measure_cuda_row(CudaRig& rig, CudaRow row, std::int64_t tokens, Precision precision,
                         const CudaContext& context) {
  row.row.tokens = tokens;
  const Result<> measured = measure_into(row, rig, precision, context);
  if (!measured.ok()) row.row.error = measured.error().message;
  return row;
}

}  // namespace nibble
