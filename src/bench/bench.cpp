#include "bench/bench.h"

#include <algorithm>

#include "base/units.h"

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
  report.cpu = probe_cpu();
  CpuRoofRequest wanted = roof_request(report.cpu);
  if (request.threads == report.cpu.cores) {
    NIBBLE_ASSIGN_OR_RETURN(report.roofs, measure_this_cpu(report.cpu));
  } else {
    wanted.threads = request.threads;
    report.roofs.taken_unix_s = unix_now();
    NIBBLE_ASSIGN_OR_RETURN(report.roofs.roofs, measure_cpu_roofs(wanted));
  }
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
        pool_(request.threads),
        rates_(pool_, request.isa, request.row_seconds) {}

  Result<> run() {
    for (const BenchShape& shape : request_.shapes) NIBBLE_RETURN_IF_ERROR(measure_shape(shape));
    report_.kernel_rates = rates_.to_json();
    return {};
  }

 private:
  Result<> measure_shape(const BenchShape& shape) {
    const BenchSetup setup{.pool = pool_,
                           .isa = request_.isa,
                           .cold = request_.cold,
                           .cache_bytes = report_.cpu.last_level_cache_mb.value_or(0) * kMega,
                           .available_bytes = available_memory_bytes(),
                           .seed = request_.seed};
    progress_(fmt::format("{}: weights", shape.name), done_);
    NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> rig, shape.op == BenchOp::kGemm
                                                                ? make_gemm_rig(shape, setup)
                                                                : make_moe_rig(shape, setup));
    const CpuRoofs& roofs = report_.roofs.roofs;
    const std::string& path = roofs.rates.at(roof_precision(shape.format, shape.activations)).path;
    const MultiplyProbe multiply = find_multiply_probe(path).value();
    RateRoofs against{.multiply = multiply, .cache_bytes = setup.cache_bytes};
    if (request_.cold) against.read = find_read_probe(roofs.read.path);
    const RowContext context{
        .pool = pool_,
        .roofs = roofs,
        .read = fastest_read([&] { return rig->cold_memory(kProbeBytes); }, kProbePasses, pool_),
        .multiply = multiply,
        .rates = rates_,
        .against = against,
        .cache_bytes = setup.cache_bytes,
        .rule = {.budget_s = request_.row_seconds}};
    for (const std::int64_t tokens : shape.tokens) {
      progress_(fmt::format("{} {} x {}, {} tokens", shape.name, to_string(shape.format),
                            to_string(shape.activations), tokens),
                done_);
      NIBBLE_ASSIGN_OR_RETURN(BenchRow row,
                              measure_row(*rig, shape, tokens, request_.cold, context));
      report_.rows.push_back(std::move(row));
      ++done_;
    }
    return {};
  }

  const BenchRequest& request_;
  const BenchProgress& progress_;
  BenchReport& report_;
  ThreadPool pool_;
  KernelRates rates_;
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
  for (const BenchShape& shape : request.shapes) NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  const MachineState before = read_machine_state();
  BenchReport report;
  NIBBLE_RETURN_IF_ERROR(measure_roofs(request, progress, report));
  NIBBLE_RETURN_IF_ERROR(Bench(request, progress, report).run());
  const MachineState after = read_machine_state();
  report.state = state_json(before, after);
  report.notes = state_notes(before, after);
  return report;
}

Json to_json(const BenchReport& report) {
  Json json = Json::object();
  json.set("schema", "nibble.bench/1");
  Json isa = Json::array();
  for (const std::string& name : report.cpu.isa) isa.push(name);
  json.set("machine", Json::object()
                          .set("title", report.cpu.title)
                          .set("cores", report.cpu.cores)
                          .set("memory_gb", report.cpu.memory_gb)
                          .set("last_level_cache_mb", report.cpu.last_level_cache_mb)
                          .set("isa", std::move(isa)));
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

std::string to_csv(const std::vector<BenchRow>& rows) {
  constexpr const char* kColumns[] = {
      "op",      "kind",     "format",   "activations",    "experts",      "top_k",
      "m",       "n",        "k",        "tokens",         "threads",      "cold",
      "time_us", "floor_us", "bound_by", "roof_share",     "predicted_us", "bytes",
      "flop",    "samples",  "stopped",  "bandwidth_gb_s", "tops",         "kernel"};
  std::string text;
  for (const char* column : kColumns) text += fmt::format("{}{}", text.empty() ? "" : ",", column);
  text += "\n";
  for (const BenchRow& row : rows) {
    const Json json = to_json(row);
    std::string line;
    for (const char* column : kColumns) {
      const Json& value = *json.find(column);
      // Names of formats, kernels and operations hold neither commas nor quotes.
      const std::string cell = value.is_null()     ? ""
                               : value.is_string() ? value.as_string()
                                                   : value.dump(0);
      line += (column == kColumns[0] ? "" : ",") + cell;
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace nibble
