#include "bench/step.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "base/huge_buffer.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "bench/bench.h"
#include "bench/row.h"
#include "ledger/step.h"
#include "machine/probe_parse.h"
#include "measure/machine_state.h"
#include "model/config.h"

namespace nibble {
namespace {

constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kPrefillRows = 256;
constexpr double kWindowBytes = 64e6;  // a pass: long enough that its start and end do not count
constexpr int kReadPasses = 5;

// Memory that no cache holds, read in windows that follow each other.
class ColdMemory {
 public:
  static Result<ColdMemory> make(const CpuStatus& cpu) {
    ColdMemory cold;
    const double bytes =
        read_buffer_bytes(cpu.last_level_cache_mb.value_or(0) * kMega, available_memory_bytes());
    NIBBLE_ASSIGN_OR_RETURN(cold.buffer_, HugeBuffer::allocate(static_cast<std::size_t>(bytes)));
    // Untouched pages are all one page of zeros, which the cache holds.
    std::fill(cold.buffer_.bytes().begin(), cold.buffer_.bytes().end(), std::byte{1});
    return cold;
  }

  MemoryParts next() {
    const auto window = std::min(buffer_.size(), static_cast<std::size_t>(kWindowBytes));
    if (at_ + window > buffer_.size()) at_ = 0;
    const std::span<const std::byte> all = buffer_.bytes();
    MemoryParts parts = {all.subspan(at_, window)};
    at_ += window;
    return parts;
  }

 private:
  HugeBuffer buffer_;
  std::size_t at_ = 0;
};

// How long each operation of a step took, all layers together.
class OpClock : public engine::StepProbe {
 public:
  void begin() {
    times_s_.clear();
    last_ = steady_now();
  }
  void op(std::string_view name) override {
    const double now = steady_now();
    times_s_[std::string(name)] += now - last_;
    last_ = now;
  }
  const std::map<std::string, double>& times_s() const { return times_s_; }

 private:
  std::map<std::string, double> times_s_;
  double last_ = 0;
};

// A model with `sequences` sequences of `context` tokens in its cache.
class Decoder {
 public:
  Decoder(engine::Model& model, ThreadPool& pool, std::int64_t most, std::int64_t context,
          std::uint64_t seed)
      : model_(model),
        pool_(pool),
        context_(context),
        random_(seed),
        logits_(static_cast<std::size_t>(most * model.info().vocabulary)) {
    const std::int64_t blocks = context / kBlockTokens + 1;
    for (std::int64_t sequence = 0; sequence < most; ++sequence) {
      std::vector<std::int32_t>& own = blocks_.emplace_back();
      for (std::int64_t block = 0; block < blocks; ++block) {
        own.push_back(static_cast<std::int32_t>(sequence * blocks + block));
      }
    }
  }

  static engine::Reservation reservation(std::int64_t most, std::int64_t context) {
    return {.blocks = most * (context / kBlockTokens + 1),
            .block_tokens = kBlockTokens,
            .most_rows = std::max(kPrefillRows, most),
            .most_logits = most};
  }

  // Random prompts, chunk by chunk; no logits are wanted.
  void fill() {
    for (const std::vector<std::int32_t>& blocks : blocks_) {
      for (std::int64_t done = 0; done < context_; done += kPrefillRows) {
        const std::int64_t rows = std::min(kPrefillRows, context_ - done);
        draw(rows);
        const engine::SequenceRows chunk{.rows = rows, .context = done, .blocks = blocks};
        model_.forward({.tokens = tokens_, .sequences = {&chunk, 1}}, {}, pool_);
      }
    }
  }

  // The tokens of the steps that follow, one of each sequence.
  void draw(std::int64_t rows) {
    std::uniform_int_distribution<text::TokenId> any(
        0, static_cast<text::TokenId>(model_.info().vocabulary - 1));
    tokens_.resize(static_cast<std::size_t>(rows));
    for (text::TokenId& token : tokens_) token = any(random_);
  }

  // Each sequence gets its next token, at the same position every time.
  void step(std::int64_t sequences, OpClock& clock) {
    rows_.clear();
    for (std::int64_t at = 0; at < sequences; ++at) {
      rows_.push_back({.first_row = at,
                       .rows = 1,
                       .context = context_,
                       .blocks = blocks_[static_cast<std::size_t>(at)],
                       .logit_rows = 1});
    }
    const std::size_t count = static_cast<std::size_t>(sequences * model_.info().vocabulary);
    clock.begin();
    model_.forward({.tokens = tokens_, .sequences = rows_}, {logits_.data(), count}, pool_, &clock);
  }

 private:
  engine::Model& model_;
  ThreadPool& pool_;
  std::int64_t context_;
  std::mt19937_64 random_;
  std::vector<float> logits_;
  std::vector<std::vector<std::int32_t>> blocks_;  // of each sequence
  std::vector<text::TokenId> tokens_;
  std::vector<engine::SequenceRows> rows_;
};

double op_floor_us(const Op& op, double bytes_per_s) {
  return op.count * std::max(op.bytes.dram() / bytes_per_s * 1e6, op.compute_us);
}

double step_floor_us(const Step& step, double bytes_per_s) {
  double us = 0;
  for (const Op& op : step.ops) us += op_floor_us(op, bytes_per_s);
  return us;
}

class StepBench {
 public:
  StepBench(const StepRequest& request, StepReport& report, engine::Model& model, Ledger ledger,
            ColdMemory cold)
      : request_(request),
        report_(report),
        pool_(request.threads),
        ledger_(std::move(ledger)),
        cold_(std::move(cold)),
        decoder_(model, pool_, most(request), request.context, request.seed),
        read_(fastest_read([&] { return cold_.next(); }, kReadPasses, pool_)) {
    decoder_.fill();
  }

  static std::int64_t most(const StepRequest& request) {
    return *std::max_element(request.sequences.begin(), request.sequences.end());
  }

  Result<StepLevel> measure(std::int64_t sequences) {
    NIBBLE_ASSIGN_OR_RETURN(const Step step, ledger_.decode(static_cast<double>(sequences)));
    StepLevel level{.sequences = sequences, .context = request_.context};
    std::vector<double> times_us;
    std::map<std::string, std::vector<double>> op_times_us;
    double bandwidth = 0;
    OpClock clock;
    const MachineState before = read_machine_state();
    level.share = collect_pairs(
        {.budget_s = request_.seconds}, steady_now,
        [&] {
          const MemoryParts memory = cold_.next();
          bandwidth = bytes_read(memory) / read_seconds(read_, memory, pool_);
        },
        [&] {
          decoder_.draw(sequences);
          if (!request_.cold) decoder_.step(sequences, clock);
          const double start = steady_now();
          decoder_.step(sequences, clock);
          times_us.push_back((steady_now() - start) * 1e6);
          for (const auto& [name, s] : clock.times_s()) op_times_us[name].push_back(s * 1e6);
        },
        [&] { return step_floor_us(step, bandwidth) / times_us.back(); });
    level.time_us = summarize(std::move(times_us), StopRule().confidence);
    level.time_us.stopped = level.share.stopped;
    level.floor_us = level.time_us.median * level.share.median;
    level.bytes = step.weight_bytes + step.kv_bytes + step.activation_bytes;
    level.flop = step.flop;
    fill_ops(level, step, op_times_us);
    judge(level, busy_share(change_between(before, read_machine_state())));
    return level;
  }

 private:
  // The floors of the operations: of the bandwidth at which they add up to the level's.
  void fill_ops(StepLevel& level, const Step& step,
                std::map<std::string, std::vector<double>>& times_us) {
    double low = 1e6;
    double high = 1e15;
    for (int halving = 0; halving < 100; ++halving) {
      const double middle = (low + high) / 2;
      (step_floor_us(step, middle) > level.floor_us ? low : high) = middle;
    }
    for (const Op& op : step.ops) {
      StepOp shown{.name = op.name,
                   .count = op.count,
                   .floor_us = op_floor_us(op, high),
                   .bytes = op.bytes.dram() * op.count,
                   .flop = op.flop * op.count};
      if (const auto found = times_us.find(op.name); found != times_us.end()) {
        shown.time_us = median(std::move(found->second));
        times_us.erase(found);
      }
      level.ops.push_back(std::move(shown));
    }
    for (auto& [name, values] : times_us) {
      level.ops.push_back({.name = name, .time_us = median(std::move(values))});
    }
  }

  void judge(StepLevel& level, double busy) {
    const double cache = report_.cpu.last_level_cache_mb.value_or(0) * kMega;
    const double resident = checkpoint_bytes(ledger_.deployment().model);
    if (resident < cache) {
      level.flags.push_back(fmt::format(
          "all weights ({}) fit in the last-level cache ({}), while the floor reads them from "
          "memory",
          format_bytes(resident), format_bytes(cache)));
    } else if (busy <= kBusyShare) {
      level.error = accounting_error(level.share);
    }
    if (busy > kBusyShare) {
      level.flags.push_back(
          fmt::format("others took {} of the processors' time", format_share(busy)));
    }
    if (!level.share.interval) level.flags.push_back("too few steps for an interval");
  }

  const StepRequest& request_;
  StepReport& report_;
  ThreadPool pool_;
  Ledger ledger_;
  ColdMemory cold_;
  Decoder decoder_;
  ReadProbe read_;
};

Result<std::unique_ptr<engine::Model>> load(const StepRequest& request) {
  std::unique_ptr<engine::Model> model;
  {
    ThreadPool pool(request.threads);
    NIBBLE_ASSIGN_OR_RETURN(model,
                            engine::load_checkpoint_model(request.folder, request.options, pool));
  }
  if (request.context + 1 > model->info().max_context) {
    return usage_error(
        "--context is {}; the model has room for {} tokens and a step needs one more",
        request.context, model->info().max_context);
  }
  NIBBLE_RETURN_IF_ERROR(
      model->reserve(Decoder::reservation(StepBench::most(request), request.context)));
  return model;
}

Json interval_json(const Sample& sample) {
  if (!sample.interval) return {};
  return Json::array({sample.interval->low, sample.interval->high});
}

Json level_json(const StepLevel& level) {
  Json ops = Json::array();
  for (const StepOp& op : level.ops) {
    ops.push(Json::object()
                 .set("op", op.name)
                 .set("count", op.count)
                 .set("time_us", op.time_us)
                 .set("floor_us", op.floor_us)
                 .set("bytes", op.bytes)
                 .set("flop", op.flop));
  }
  Json flags = Json::array();
  for (const std::string& flag : level.flags) flags.push(flag);
  return Json::object()
      .set("sequences", level.sequences)
      .set("context", level.context)
      .set("time_us", level.time_us.median)
      .set("time_us_interval", interval_json(level.time_us))
      .set("floor_us", level.floor_us)
      .set("roof_share", level.share.median)
      .set("roof_share_interval", interval_json(level.share))
      .set("samples", static_cast<std::int64_t>(level.time_us.values.size()))
      .set("bytes", level.bytes)
      .set("flop", level.flop)
      .set("error", level.error)
      .set("flags", std::move(flags))
      .set("ops", std::move(ops));
}

}  // namespace

bool StepReport::failed() const {
  return std::any_of(levels.begin(), levels.end(),
                     [](const StepLevel& level) { return !level.error.empty(); });
}

Result<Ledger> step_ledger(const StepRequest& request, const CpuStatus& cpu,
                           const CpuRoofs& roofs) {
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(request.folder.string()));
  deployment.machine = machine_of_cpu(cpu, roofs, "measured just now");
  deployment.link = LinkSpeed{1, 1};  // one rank has none
  deployment.launch_gap_us = 0;
  deployment.context = static_cast<double>(request.context);
  deployment.kv_format = request.options.kv_format;
  // What the kernels multiply 15-bit integers with is held against the 16-bit rate.
  deployment.activations =
      request.options.activations == Format::kFp32 ? Format::kBf16 : request.options.activations;
  return Ledger::make(std::move(deployment));
}

Result<StepReport> measure_step(const StepRequest& request, const StepProgress& progress) {
  StepReport report{.threads = request.threads, .cold = request.cold};
  const MachineState before = read_machine_state();
  report.cpu = probe_cpu();
  progress("weights", 0);
  NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Model> model, load(request));
  progress("roofs", 0);
  CpuRoofRequest wanted = roof_request(report.cpu);
  wanted.threads = request.threads;
  report.roofs.taken_unix_s = unix_now();
  NIBBLE_ASSIGN_OR_RETURN(report.roofs.roofs, measure_cpu_roofs(wanted));
  NIBBLE_ASSIGN_OR_RETURN(Ledger ledger, step_ledger(request, report.cpu, report.roofs.roofs));
  report.model = ledger.deployment().model.title;
  NIBBLE_ASSIGN_OR_RETURN(ColdMemory cold, ColdMemory::make(report.cpu));
  StepBench bench(request, report, *model, std::move(ledger), std::move(cold));
  for (const std::int64_t sequences : request.sequences) {
    progress(fmt::format("{} sequences", sequences), static_cast<double>(report.levels.size()));
    NIBBLE_ASSIGN_OR_RETURN(StepLevel level, bench.measure(sequences));
    report.levels.push_back(std::move(level));
  }
  const MachineState after = read_machine_state();
  report.state = state_json(before, after);
  report.notes = state_notes(before, after);
  return report;
}

Json to_json(const StepReport& report) {
  Json steps = Json::array();
  for (const StepLevel& level : report.levels) steps.push(level_json(level));
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push(note);
  return Json::object()
      .set("schema", "nibble.bench/1")
      .set("machine", machine_json(report.cpu))
      .set("taken_unix_s", report.roofs.taken_unix_s)
      .set("state", report.state)
      .set("roofs", to_json(report.roofs.roofs))
      .set("scaling", Json::array())
      .set("kernel_rates", Json::array())
      .set("rows", Json::array())
      .set("model", report.model)
      .set("threads", report.threads)
      .set("cold", report.cold)
      .set("steps", std::move(steps))
      .set("notes", std::move(notes));
}

}  // namespace nibble
