#include "bench/bench.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "bench/memory_need.h"
#include "kernels/gemm/gemm.h"
#include "tactics/tune/cpu_layer.h"
#include "tactics/tune/cpu_site.h"

namespace nibble {
namespace {

constexpr int kScalingPasses = 7;
constexpr int kProbePasses = 5;
constexpr double kProbeBytes = 64e6;

// No other pool may live meanwhile: it would keep this thread, and so the roofs' threads, on one
// processor.
Result<> measure_roofs(const BenchRequest& request, const BenchProgress& progress,
                       BenchReport& report) {
  progress("roofs", 0);
  const MachineState before = read_machine_state();
  report.cpu = probe_cpu();
  CpuRoofRequest wanted = roof_request(report.cpu);
  if (request.threads == report.cpu.cores) {
    NIBBLE_ASSIGN_OR_RETURN(report.roofs, measure_this_cpu(report.cpu));
  } else {
    wanted.threads = request.threads;
    report.roofs.taken_unix_s = unix_now();
    NIBBLE_ASSIGN_OR_RETURN(report.roofs.roofs, measure_cpu_roofs(wanted));
  }
  report.roofs.conditions.busy_share = busy_share(change_between(before, read_machine_state()));
  if (!request.scaling) return {};
  progress("roofs by threads", 0);
  NIBBLE_ASSIGN_OR_RETURN(
      report.scaling, measure_thread_scaling(request.threads, wanted.buffer_bytes, kScalingPasses));
  return {};
}

// The rows, with roofs that have been measured.
class Bench {
 public:
  Bench(const BenchRequest& request, const BenchProgress& progress, BenchReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        start_(read_machine_state()),
        pool_(request.threads) {}

  // Every key that the run needs is asked for before anything is measured.
  void run(tune::TuningTable* tuning) {
    for (const BenchShape& shape : request_.shapes) {
      choices_.push_back(chosen(shape, tuning));
    }
    if (tuning != nullptr) {
      for (std::string& line : tuning->report()) report_.notes.push_back(std::move(line));
    }
    rates_.emplace(
        RatesSetup{.pool = pool_,
                   .isa = choices_.empty() ? request_.isa.value_or(best_isa()) : choices_[0].isa,
                   .ring_bytes = reference_bytes(),
                   .most_seconds = request_.row_seconds});
    for (const BenchShape& shape : request_.shapes) {
      const std::size_t rows = report_.rows.size();
      const Result<> measured = measure_shape(shape);
      if (!measured.ok()) add_failed(shape, report_.rows.size() - rows, measured.error().message);
    }
    report_.kernel_rates = rates_->to_json();
  }

 private:
  tune::CpuLayerChoices chosen(const BenchShape& shape, tune::TuningTable* tuning) const {
    if (tuning == nullptr || shape.op != BenchOp::kMoe) {
      return {.isa = request_.isa.value_or(best_isa())};
    }
    return choose_cpu_layer(*tuning, {.experts = shape.experts,
                                      .top_k = shape.top_k,
                                      .hidden = shape.k,
                                      .intermediate = shape.n,
                                      .format = shape.format,
                                      .activations = shape.activations,
                                      .tokens = shape.tokens,
                                      .isa = request_.isa,
                                      .threads = pool_.threads()});
  }

  // Two rings of references together are as long as a cold one has to be.
  double reference_bytes() const {
    if (!request_.cold) return 0;
    const double cache_bytes = report_.cpu.last_level_cache_mb.value_or(0) * kMega;
    return std::min(cold_bytes(cache_bytes) / 2, available_memory_bytes() / 8);
  }

  const tune::CpuLayerChoices& choices_of(const BenchShape& shape) const {
    return choices_[static_cast<std::size_t>(&shape - request_.shapes.data())];
  }

  // The rows of a shape that failed, from the one that did.
  void add_failed(const BenchShape& shape, std::size_t done, const std::string& why) {
    for (std::size_t at = done; at < shape.tokens.size(); ++at) {
      report_.rows.push_back(
          {.shape = shape,
           .tokens = shape.tokens[at],
           .threads = pool_.threads(),
           .cold = request_.cold,
           .kernel = gemm_name(shape.format, shape.activations, choices_of(shape).isa),
           .error = why});
      ++done_;
    }
  }

  // Processor time is counted in ticks of 10 ms: a short row is judged by all that came before it.
  StateChange meanwhile(const MachineState& before) const {
    constexpr double kLeastSeconds = 1;
    const MachineState now = read_machine_state();
    const bool long_enough =
        before.time && now.time && now.time->total - before.time->total >= kLeastSeconds;
    return change_between(long_enough ? before : start_, now);
  }

  Result<> measure_shape(const BenchShape& shape) {
    const BenchSetup setup{.pool = pool_,
                           .isa = choices_of(shape).isa,
                           .cold = request_.cold,
                           .cache_bytes = report_.cpu.last_level_cache_mb.value_or(0) * kMega,
                           .available_bytes = available_memory_bytes(),
                           .seed = request_.seed,
                           .threads = choices_of(shape).threads};
    progress_(fmt::format("{}: weights", shape.name), done_);
    NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> rig, shape.op == BenchOp::kGemm
                                                                ? make_gemm_rig(shape, setup)
                                                                : make_moe_rig(shape, setup));
    const CpuRoofs& roofs = report_.roofs.roofs;
    const std::string& path = roofs.rates.at(roof_precision(shape.format, shape.activations)).path;
    const MultiplyProbe multiply = find_multiply_probe(path).value();
    const RowContext context{
        .pool = pool_,
        .roofs = roofs,
        .read = fastest_read([&] { return rig->cold_memory(kProbeBytes); }, kProbePasses, pool_),
        .multiply = multiply,
        .rates = *rates_,
        .cache_bytes = setup.cache_bytes,
        .rule = {.budget_s = request_.row_seconds}};
    for (const std::int64_t tokens : shape.tokens) {
      progress_(fmt::format("{} {} x {}, {} tokens", shape.name, to_string(shape.format),
                            to_string(shape.activations), tokens),
                done_);
      const MachineState before = read_machine_state();
      NIBBLE_ASSIGN_OR_RETURN(BenchRow row,
                              measure_row(*rig, shape, tokens, request_.cold, context));
      judge_row(row, meanwhile(before));
      report_.rows.push_back(std::move(row));
      ++done_;
    }
    return {};
  }

  const BenchRequest& request_;
  const BenchProgress& progress_;
  BenchReport& report_;
  MachineState start_;
  ThreadPool pool_;
  std::optional<KernelRates> rates_;            // of the first shape's instruction set
  std::vector<tune::CpuLayerChoices> choices_;  // by shape
  double done_ = 0;
};

Json scaling_json(const std::vector<CpuRoofs>& scaling) {
  Json list = Json::array();
  for (const CpuRoofs& roofs : scaling) list.push(to_json(roofs));
  return list;
}

}  // namespace

bool BenchReport::failed() const {
  return std::any_of(rows.begin(), rows.end(),
                     [](const BenchRow& row) { return !row.error.empty(); });
}

Result<BenchReport> run_bench(const BenchRequest& request, const BenchProgress& progress) {
  const double available = available_memory_bytes();
  for (const BenchShape& shape : request.shapes) {
    NIBBLE_RETURN_IF_ERROR(check_shape(shape));
    NIBBLE_RETURN_IF_ERROR(check_memory(shape, available));
  }
  std::optional<tune::TuningTable> tuning;
  if (!request.tuning_file.empty()) {
    NIBBLE_ASSIGN_OR_RETURN(tune::TuningFile file, tune::read_tuning(request.tuning_file));
    NIBBLE_ASSIGN_OR_RETURN(
        tuning, tune::TuningTable::for_run(std::move(file), request.tuning_file.string(),
                                           tune::cpu_tuning_site()));
  }
  const MachineState before = read_machine_state();
  BenchReport report;
  NIBBLE_RETURN_IF_ERROR(measure_roofs(request, progress, report));
  Bench(request, progress, report).run(tuning ? &*tuning : nullptr);
  const MachineState after = read_machine_state();
  report.state = state_json(before, after);
  for (std::string& note : state_notes(before, after)) report.notes.push_back(std::move(note));
  return report;
}

Json machine_json(const CpuStatus& cpu) {
  Json isa = Json::array();
  for (const std::string& name : cpu.isa) isa.push(name);
  return Json::object()
      .set("title", cpu.title)
      .set("cores", cpu.cores)
      .set("memory_gb", cpu.memory_gb)
      .set("last_level_cache_mb", cpu.last_level_cache_mb)
      .set("isa", std::move(isa));
}

Json to_json(const BenchReport& report) {
  Json json = Json::object();
  json.set("schema", "nibble.bench/1");
  json.set("machine", machine_json(report.cpu));
  json.set("taken_unix_s", report.roofs.taken_unix_s);
  json.set("state", report.state);
  json.set("roofs", to_json(report.roofs.roofs));
  json.set("scaling", scaling_json(report.scaling));
  json.set("kernel_rates", report.kernel_rates);
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) rows.push(to_json(row));
  json.set("rows", std::move(rows));
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push(note);
  json.set("notes", std::move(notes));
  return json;
}

namespace {

// Names of formats, kernels and operations hold neither commas nor quotes.
std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.as_string() : value.dump(0);
}

std::string quoted_cell(std::string_view text) {
  std::string cell = "\"";
  for (const char letter : text) cell += letter == '"' ? "\"\"" : std::string(1, letter);
  return cell + "\"";
}

// A column of the rows; an interval is two of them.
std::vector<std::pair<std::string, Json>> csv_columns(const Json& row) {
  constexpr const char* kColumns[] = {"op",
                                      "kind",
                                      "format",
                                      "activations",
                                      "experts",
                                      "top_k",
                                      "m",
                                      "n",
                                      "k",
                                      "tokens",
                                      "threads",
                                      "cold",
                                      "time_us",
                                      "time_interval_us",
                                      "floor_us",
                                      "bound_by",
                                      "roof_share",
                                      "roof_share_interval",
                                      "predicted_us",
                                      "bytes",
                                      "flop",
                                      "samples",
                                      "stopped",
                                      "roof_gb_s",
                                      "roof_tops",
                                      "reached_gb_s",
                                      "reached_tops",
                                      "disturbed",
                                      "kernel"};
  constexpr std::string_view kInterval = "_interval";
  std::vector<std::pair<std::string, Json>> columns;
  for (const std::string_view column : kColumns) {
    const Json& value = *row.find(column);
    const std::size_t at = column.find(kInterval);
    if (at == std::string_view::npos) {
      columns.emplace_back(column, value);
      continue;
    }
    const std::string before(column.substr(0, at));
    const std::string after(column.substr(at + kInterval.size()));
    columns.emplace_back(before + "_low" + after, value.is_null() ? Json() : value.as_array()[0]);
    columns.emplace_back(before + "_high" + after, value.is_null() ? Json() : value.as_array()[1]);
  }
  return columns;
}

}  // namespace

std::string to_csv(const std::vector<BenchRow>& rows) {
  std::vector<std::string> names;
  for (const auto& [name, value] : csv_columns(to_json(BenchRow{}))) names.push_back(name);
  std::string text = join(names, ",") + "\n";
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : csv_columns(to_json(row))) cells.push_back(csv_cell(value));
    text += join(cells, ",") + "\n";
  }
  return text;
}

std::string roofs_csv(const BenchReport& report) {
  std::string text = "threads,roof,value,unit,measured_with\n";
  const auto add = [&text](int threads, std::string_view name, const CpuRoof& roof,
                           std::string_view unit) {
    text += fmt::format("{},{},{},{},{}\n", threads, name, Json(roof.value).dump(0), unit,
                        quoted_cell(roof.path));
  };
  for (const CpuRoofs& roofs : report.scaling) {
    add(roofs.threads, "read", roofs.read, "GB/s");
    for (const auto& [precision, roof] : roofs.rates) {
      add(roofs.threads, to_string(precision), roof, "TFLOPS");
    }
  }
  return text;
}

}  // namespace nibble
