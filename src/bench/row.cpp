#include "bench/row.h"

#include <algorithm>

#include "base/units.h"
#include "machine/roof_cache.h"

namespace nibble {
namespace {

// A roof reads so much at a time that its own start and end do not count.
constexpr double kRoofBytes = 32e6;
// It multiplies about as long as half a run, in parts of 40 us: short bursts slip in between what
// other processes do, and long runs do not.
constexpr double kPartSeconds = 40e-6;
constexpr double kLeastParts = 8;
constexpr double kMostParts = 250;

// What the runs of one row gather.
class RowMeter {
 public:
  RowMeter(Rig& rig, bool cold, const RowContext& context, const BenchShape& shape)
      : rig_(rig), cold_(cold), context_(context), shape_(shape) {
    rate_ = context.roofs.rates.at(roof_precision(shape.format, shape.activations)).value * kTera;
    bandwidth_ = context.roofs.read.value * kGiga;
  }

  Result<> begin() {
    return context_.rates.begin_row(shape_.format, shape_.activations,
                                    {context_.read, context_.multiply, usual_rows()});
  }

  void roof() {
    if (cold_) {
      const MemoryParts memory = rig_.cold_memory(std::max(kRoofBytes, rig_.work().weight_bytes));
      // Units shorter than a step of the probe are not read: the roof of the start remains.
      if (const double bytes = bytes_read(memory); bytes > 0) {
        bandwidth_ = bytes / read_seconds(context_.read, memory, context_.pool);
      }
    }
    const double parts = std::clamp(seconds_ / 2 / kPartSeconds, kLeastParts, kMostParts);
    const std::int64_t units = static_cast<std::int64_t>(parts) * context_.pool.threads();
    rate_ = operations_of(context_.multiply, units) /
            multiply_seconds(context_.multiply, units, context_.pool);
    rates_.push_back(rate_ / kTera);
    context_.rates.sample(bandwidth_, rate_);
  }

  void kernel() {
    rig_.draw();
    const double start = steady_now();
    rig_.run();
    seconds_ = steady_now() - start;
    times_us_.push_back(seconds_ * 1e6);
  }

  double share() {
    const Work work = rig_.work();
    const double memory_s = cold_ ? work.bytes / bandwidth_ : 0;
    const double compute_s = work.flop / rate_;
    memory_us_.push_back(memory_s * 1e6);
    compute_us_.push_back(compute_s * 1e6);
    const double floor_s = std::max(memory_s, compute_s);
    runs_.push_back({work, {cold_ ? bandwidth_ / kGiga : 0, rate_ / kTera}});
    bytes_.push_back(work.bytes);
    weight_bytes_.push_back(work.weight_bytes);
    distinct_.push_back(work.distinct);
    flop_ = work.flop;
    return floor_s / seconds_;
  }

  Result<> predict(BenchRow& row) {
    NIBBLE_RETURN_IF_ERROR(context_.rates.end_row(median(rates_)));
    std::vector<double> ratios;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const auto& [work, roofs] = runs_[run];
      const double us = 1e6 * context_.rates.predict_s(work, roofs);
      ratios.push_back(us / row.time_us.values[run]);
    }
    row.predicted = summarize(std::move(ratios), context_.rule.confidence);
    return {};
  }

  // Rows of the product in the middle of all products of the run that was drawn last.
  std::int64_t usual_rows() const {
    std::vector<double> rows;
    const Work work = rig_.work();
    for (const GemmCall& call : work.calls) {
      for (const Product& product : call.products) {
        rows.push_back(static_cast<double>(product.rows));
      }
    }
    return rows.empty() ? 1 : static_cast<std::int64_t>(median(rows));
  }

  void fill(BenchRow& row, double confidence) {
    row.time_us = summarize(std::move(times_us_), confidence);
    row.time_us.stopped = row.share.stopped;
    row.memory_us = median(memory_us_);
    row.compute_us = median(compute_us_);
    row.bytes = mean(bytes_);
    row.weight_bytes = mean(weight_bytes_);
    row.distinct = mean(distinct_);
    row.flop = flop_;
  }

 private:
  Rig& rig_;
  bool cold_;
  const RowContext& context_;
  const BenchShape& shape_;
  std::vector<std::pair<Work, RoofsNow>> runs_;
  double bandwidth_ = 0;  // bytes a second, of the last roof
  double rate_ = 0;       // operations a second
  double seconds_ = 0;    // of the last run
  double flop_ = 0;
  std::vector<double> rates_, times_us_, memory_us_, compute_us_, bytes_, weight_bytes_, distinct_;
};

void add_flags(BenchRow& row, const RowContext& context, const Ring& ring) {
  if (!ring.note.empty()) row.flags.push_back(ring.note);
  if (row.cold && ring.bytes <= context.cache_bytes) {
    row.as_called = false;
    row.flags.push_back("the weights fit in the last-level cache: not cold");
  }
  if (!row.cold && row.weight_bytes > context.cache_bytes) {
    row.as_called = false;
    row.flags.push_back("the weights of a run exceed the last-level cache: not hot");
  }
  const auto two_modes = [&row](const char* name, const Modes& modes, const auto& text) {
    if (!modes.two) return;
    row.flags.push_back(fmt::format("{} have two modes: {} in {} of the runs, else {}", name,
                                    text(modes.low), format_share(modes.low_share),
                                    text(modes.high)));
  };
  two_modes("times", row.time_us.modes, [](double us) { return format_time_us(us); });
  two_modes("shares of the roof", row.share.modes,
            [](double share) { return format_share(share); });
  if (!row.share.interval) row.flags.push_back("too few runs for an interval");
}

Json interval_json(const std::optional<Interval>& interval) {
  if (!interval) return {};
  return Json::array({interval->low, interval->high});
}

Json modes_json(const Modes& modes) {
  if (!modes.two) return {};
  return Json::object()
      .set("low", modes.low)
      .set("high", modes.high)
      .set("low_share", modes.low_share);
}

}  // namespace

Precision roof_precision(Format weights, Format activations) {
  if (weights == Format::kBf16 || activations == Format::kBf16) return Precision::kBf16;
  return Precision::kInt8;  // 4-bit codes are multiplied as 8-bit integers
}

void make_consistent(BenchRow& row) {
  const double median_floor = std::max(row.memory_us, row.compute_us);
  row.floor_us = row.time_us.median * row.share.median;
  row.predicted_us = row.time_us.median * row.predicted.median;
  if (!(median_floor > 0)) return;
  // Both roofs by the same factor, so that the one that binds remains the one that binds.
  const double factor = row.floor_us / median_floor;
  row.memory_us *= factor;
  row.compute_us *= factor;
  row.roof_gb_s = row.memory_us > 0 ? row.bytes / row.memory_us * 1e-3 : 0;
  row.roof_tops = row.compute_us > 0 ? row.flop / row.compute_us * 1e-6 : 0;
}

std::string accounting_error(const Sample& share) {
  if (!share.interval || share.interval->low <= 1) return "";
  return fmt::format(
      "accounting error: {} of the roof ({} to {}); more than 100 % cannot be, so bytes, FLOP or "
      "the roof are wrong: please report it",
      format_percent(share.median), format_percent(share.interval->low),
      format_percent(share.interval->high));
}

void judge_row(BenchRow& row, const StateChange& meanwhile) {
  if (!row.timed()) return;
  row.disturbed = busy_share(meanwhile) > kBusyShare;
  if (row.disturbed) {
    row.flags.push_back(fmt::format(
        "busy machine: others took {} of the processor time; not trustworthy, measure again when "
        "it is idle",
        format_percent(busy_share(meanwhile))));
  }
  if (row.share.median <= 1) return;
  const std::string error = accounting_error(row.share);
  if (!error.empty() && !row.disturbed) {
    row.error = error;
    return;
  }
  row.flags.push_back(
      fmt::format("faster than its roof ({} of it): roof and run met different load{}",
                  format_percent(row.share.median),
                  row.disturbed ? " on the busy machine" : ", within the width of the interval"));
}

Result<BenchRow> measure_row(Rig& rig, const BenchShape& shape, std::int64_t tokens, bool cold,
                             const RowContext& context) {
  BenchRow row{.shape = shape,
               .tokens = tokens,
               .threads = context.pool.threads(),
               .cold = cold,
               .kernel = rig.kernel()};
  row.ring_bytes = rig.ring().bytes;
  NIBBLE_RETURN_IF_ERROR(rig.set_tokens(tokens));
  if (const Result<> right = rig.check(); !right.ok()) {
    row.error = right.error().message;
    return row;
  }
  RowMeter meter(rig, cold, context, shape);
  NIBBLE_RETURN_IF_ERROR(meter.begin());
  row.share = collect_pairs(
      context.rule, steady_now, [&] { meter.roof(); }, [&] { meter.kernel(); },
      [&] { return meter.share(); });
  meter.fill(row, context.rule.confidence);
  NIBBLE_RETURN_IF_ERROR(meter.predict(row));
  make_consistent(row);
  row.rows_per_expert = static_cast<double>(tokens * shape.top_k) / std::max(1.0, row.distinct);
  add_flags(row, context, rig.ring());
  return row;
}

Json to_json(const BenchRow& row) {
  const BenchShape& shape = row.shape;
  const bool timed = row.timed();
  const auto number = [timed](double value) { return timed ? Json(value) : Json(); };
  Json json = Json::object();
  json.set("op", shape.name);
  json.set("kind", shape.op == BenchOp::kGemm ? "gemm" : "moe");
  json.set("format", to_string(shape.format)).set("activations", to_string(shape.activations));
  json.set("experts", shape.experts).set("top_k", shape.top_k);
  json.set("m", number(row.rows_per_expert)).set("n", shape.n).set("k", shape.k);
  json.set("tokens", row.tokens).set("threads", row.threads).set("cold", row.cold);
  json.set("kernel", row.kernel);
  json.set("error", row.error.empty() ? Json() : Json(row.error));
  json.set("time_us", number(row.time_us.median));
  json.set("time_interval_us", interval_json(row.time_us.interval));
  json.set("time_modes_us", modes_json(row.time_us.modes));
  json.set("samples", static_cast<std::int64_t>(row.time_us.values.size()));
  json.set("stopped", timed ? Json(to_string(row.share.stopped)) : Json());
  json.set("floor_us", number(row.floor_us));
  json.set("memory_us", timed && row.cold ? Json(row.memory_us) : Json());
  json.set("compute_us", number(row.compute_us));
  json.set("bound_by", timed ? Json(row.memory_bound() ? "memory" : "compute") : Json());
  json.set("roof_share", number(row.share.median));
  json.set("roof_share_interval", interval_json(row.share.interval));
  json.set("predicted_us", number(row.predicted_us));
  json.set("predicted_ratio", number(row.predicted.median));
  json.set("predicted_ratio_interval", interval_json(row.predicted.interval));
  json.set("bytes", number(row.bytes)).set("weight_bytes", number(row.weight_bytes));
  json.set("distinct_experts", number(row.distinct)).set("flop", number(row.flop));
  json.set("ring_bytes", row.ring_bytes);
  json.set("roof_gb_s", timed && row.cold ? Json(row.roof_gb_s) : Json());
  json.set("roof_tops", number(row.roof_tops));
  json.set("reached_gb_s", timed ? Json(row.reached_gb_s()) : Json());
  json.set("reached_tops", timed ? Json(row.reached_tops()) : Json());
  json.set("disturbed", row.disturbed);
  Json flags = Json::array();
  for (const std::string& flag : row.flags) flags.push(flag);
  if (!shape.note.empty()) flags.push(shape.note);
  json.set("flags", std::move(flags));
  return json;
}

}  // namespace nibble
