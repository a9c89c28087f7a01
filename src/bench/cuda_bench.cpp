#include "bench/cuda_bench.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "bench/cuda_measure.h"
#include "bench/cuda_roofs.h"
#include "bench/cuda_tactics.h"
#include "bench/cuda_w4a16_rig.h"
#include "bench/cuda_w4a4_rig.h"
#include "bench/tune_cuda.h"
#include "cuda/compile.h"
#include "tactics/tune/table.h"

namespace nibble {
namespace {

constexpr LtFormat kBaselines[] = {LtFormat::kBf16, LtFormat::kFp8, LtFormat::kFp4};

Format format_of(LtFormat format) {
  switch (format) {
    case LtFormat::kBf16:
      return Format::kBf16;
    case LtFormat::kFp16:
      return Format::kFp16;
    case LtFormat::kFp8:
      return Format::kFp8;
    case LtFormat::kFp4:
      break;
  }
  return Format::kNvfp4;
}

class CudaBench {
 public:
  CudaBench(const CudaBenchRequest& request, const BenchProgress& progress, CudaBenchReport& report,
            const cuda::Device& gpu, const CudaProbes& probes, CudaTimer timer,
            tune::TuningTable* tuning)
      : request_(request),
        progress_(progress),
        report_(report),
        gpu_(gpu),
        setup_{.gpu = gpu,
               .probes = probes,
               .cold = request.cold,
               .routing = request.routing,
               .seed = request.seed,
               .tuning = tuning,
               .path = request.path},
        timer_(std::move(timer)),
        watch_(gpu.info().pci) {}

  void run() {
    for (const BenchShape& shape : request_.shapes) {
      if (shape.op == BenchOp::kMoe) {
        measure_layer(shape);
      } else if (is_four_bit(shape.format)) {
        measure_product(shape);
      } else {
        measure_wide_product(shape);
      }
    }
  }

 private:
  CudaContext context() {
    return {.timer = timer_,
            .watch = watch_,
            .roofs = report_.roofs,
            .rule = {.half_width = 0.005, .most = 400, .budget_s = request_.row_seconds},
            .l2_bytes = gpu_.info().l2_bytes};
  }

  CudaRow identity(const BenchShape& shape, std::string part) const {
    CudaRow row{.on = fmt::format("cuda:{}", request_.ordinal), .part = std::move(part)};
    row.row.shape = shape;
    row.row.cold = request_.cold;
    if (shape.experts > 1) row.routing = to_string(request_.routing);
    return row;
  }

  // One row for each number of tokens; a rig that could not be made fails them all.
  void measure_rows(Result<std::unique_ptr<CudaRig>> rig, const CudaRow& identity,
                    Precision precision, std::vector<CudaRow>& rows) {
    for (const std::int64_t tokens : identity.row.shape.tokens) {
      progress_(fmt::format("{} {}, {} tokens", identity.row.shape.name, identity.part, tokens),
                done_);
      CudaRow row = identity;
      row.row.tokens = tokens;
      if (!rig.ok()) {
        row.row.error = rig.error().message;
      } else if (!lost_.empty()) {
        row.row.error = lost_;
      } else {
        row = request_.check_only
                  ? check_cuda_row(**rig, std::move(row), tokens, timer_.stream())
                  : measure_cuda_row(**rig, std::move(row), tokens, precision, context());
        note_lost();
      }
      rows.push_back(std::move(row));
      ++done_;
    }
  }

  // After some errors a context answers nothing any more: what follows would fail of that alone.
  void note_lost() {
    const Result<> alive = gpu_.synchronize();
    if (alive.ok()) return;
    lost_ = "the GPU's context was lost before: " + alive.error().message;
    report_.notes.push_back(lost_);
  }

  // Both parts at one number of tokens before the next: they share buffers and the check.
  void measure_layer(const BenchShape& shape) {
    for (const std::int64_t tokens : shape.tokens) {
      for (const LayerPart part : {LayerPart::kLayer, LayerPart::kProducts}) {
        CudaRow row = identity(shape, std::string(to_string(part)));
        row.row.shape.tokens = {tokens};
        if (part == LayerPart::kProducts) row.row.shape.name += ".products";
        measure_rows(layer_rig(shape, part), row, our_precision(shape), report_.rows);
      }
    }
    part_of_layer_ = nullptr;
  }

  // Both parts of a layer run on the same weights, which are made once.
  Result<std::unique_ptr<CudaRig>> layer_rig(const BenchShape& shape, LayerPart part) {
    if (!part_of_layer_) {
      progress_(fmt::format("{}: weights", shape.name), done_);
      NIBBLE_RETURN_IF_ERROR(is_w4a4(shape) ? keep_layer(make_w4a4_layer_rig(shape, setup_))
                                            : keep_layer(make_layer_rig(shape, setup_)));
    }
    return part_of_layer_(part);
  }

  template <class LayerRig>
  Result<> keep_layer(Result<std::shared_ptr<LayerRig>> made) {
    if (!made.ok()) return made.error();
    part_of_layer_ = [layer = std::move(made).value()](LayerPart part) {
      return part_of(layer, part);
    };
    return {};
  }

  static Precision our_precision(const BenchShape& shape) {
    return is_w4a4(shape) ? Precision::kFp4 : Precision::kBf16;
  }

  // A grouped product of a layer, or one matrix, with 4-bit weights; for a single matrix also what
  // cuBLASLt makes of its shape.
  void measure_product(const BenchShape& shape) {
    const bool grouped = shape.experts > 1;
    const char* part = !grouped ? "dense" : shape.name == "moe.gate_up" ? "gate_up" : "down";
    measure_rows(
        is_w4a4(shape) ? make_w4a4_product_rig(shape, setup_) : make_product_rig(shape, setup_),
        identity(shape, part), our_precision(shape), report_.rows);
    if (!request_.baselines || request_.check_only || grouped) return;
    for (const LtFormat format : kBaselines) baseline(shape, format, report_.baselines);
  }

  // Weights of 16 or 8 bits have no kernel of ours on a GPU: the row is cuBLASLt's.
  void measure_wide_product(const BenchShape& shape) {
    if (shape.experts > 1) {
      measure_rows(run_error("no kernel takes grouped products of {} weights on a GPU",
                             to_string(shape.format)),
                   identity(shape, "down"), Precision::kBf16, report_.rows);
      return;
    }
    const bool fp8 = shape.format == Format::kFp8;
    baseline(shape, fp8 ? LtFormat::kFp8 : LtFormat::kBf16, report_.rows);
  }

  void baseline(const BenchShape& shape, LtFormat format, std::vector<CudaRow>& rows) {
    CudaRow row = identity(shape, "dense");
    row.row.shape.format = row.row.shape.activations = format_of(format);
    row.row.kernel = fmt::format("cuBLASLt {}", to_string(format));
    measure_rows(make_cublaslt_rig(shape, format, setup_), row,
                 format == LtFormat::kFp8 ? Precision::kFp8 : Precision::kBf16, rows);
  }

  const CudaBenchRequest& request_;
  const BenchProgress& progress_;
  CudaBenchReport& report_;
  const cuda::Device& gpu_;
  CudaSetup setup_;
  CudaTimer timer_;
  GpuWatch watch_;
  std::function<std::unique_ptr<CudaRig>(LayerPart)> part_of_layer_;  // of the layer being measured
  std::string lost_;                                                  // why nothing runs any more
  double done_ = 0;
};

Json rows_json(const std::vector<CudaRow>& rows) {
  Json list = Json::array();
  for (const CudaRow& row : rows) list.push(to_json(row));
  return list;
}

bool any_w4a4(const CudaBenchRequest& request) {
  return std::any_of(request.shapes.begin(), request.shapes.end(), is_w4a4);
}

// Asked before anything is made: who wants W4A4's time is not to wait for roofs.
Result<> check_instruction(const CudaBenchRequest& request, const cuda::DeviceInfo& info) {
  if (request.check_only || !any_w4a4(request)) return {};
  const std::string why = why_w4a4_is_not_timed(info);
  return why.empty() ? Result<>() : run_error("{}", why);
}

std::string check_note(const CudaBenchRequest& request, const cuda::DeviceInfo& info) {
  std::string note = "every row was checked against double precision, and none was timed";
  if (!any_w4a4(request)) return note;
  return note + (why_w4a4_is_not_timed(info).empty()
                     ? "; W4A4 multiplied with the FP4 instruction"
                     : "; W4A4 multiplied with the software body of the FP4 instruction");
}

// The roofs in the form that readers of a CPU's know.
Json plain_roofs_json(const GpuRoofs& roofs) {
  const auto one = [&](const char* key) {
    const auto found = roofs.roofs.find(key);
    if (found == roofs.roofs.end() || !found->second.reason.empty()) return Json();
    double value = found->second.value;
    Json passes = Json::array();
    for (const double pass : found->second.passes) passes.push(pass);
    return Json::object()
        .set("value", value)
        .set("path", found->second.path)
        .set("passes", std::move(passes));
  };
  Json rates = Json::object();
  Json bf16 = one("bf16_tflops");
  if (bf16.is_null()) bf16 = one("mma_bf16_tflops");
  if (!bf16.is_null()) rates.set("bf16", std::move(bf16));
  if (Json fp8 = one("fp8_tflops"); !fp8.is_null()) rates.set("fp8", std::move(fp8));
  Json read = one("read_gb_s");
  if (read.is_null()) return {};
  return Json::object()
      .set("threads", 1)
      .set("buffer_bytes", roofs.memory_bytes)
      .set("read_gb_s", std::move(read))
      .set("tflops", std::move(rates));
}

}  // namespace

bool CudaBenchReport::failed() const {
  return std::any_of(rows.begin(), rows.end(),
                     [](const CudaRow& row) { return !row.row.error.empty(); });
}

Result<std::optional<int>> parse_on(std::string_view word) {
  if (word == "cpu") return std::optional<int>();
  constexpr std::string_view kCuda = "cuda:";
  if (word == "cuda") return std::optional<int>(0);
  if (word.starts_with(kCuda)) {
    const std::string_view digits = word.substr(kCuda.size());
    int ordinal = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    constexpr int kMostGpus = 1024;
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (whole && ordinal >= 0 && ordinal < kMostGpus && digits.front() != '-') {
      return std::optional<int>(ordinal);
    }
  }
  return usage_error("--on is \"{}\"; give cpu, or cuda:N with the number of a GPU",
                     printable(word));
}

Result<> check_cuda_shape(const BenchShape& shape) {
  const std::string where = shape.where.empty() ? "" : shape.where + ": ";
  constexpr std::int64_t kMultiple = 2;
  if (shape.top_k > shape.experts) {
    return usage_error("{}--top-k is {}, more than the {} of --experts", where, shape.top_k,
                       shape.experts);
  }
  if (shape.op == BenchOp::kMoe && !is_four_bit(shape.format)) {
    return usage_error("{}layers on a GPU have nvfp4 or mxfp4 weights, not {}", where,
                       to_string(shape.format));
  }
  if (is_w4a4(shape)) return check_w4a4_shape(shape);
  if (shape.activations != Format::kBf16 && shape.activations != Format::kFp16) {
    return usage_error("{}kernels on a GPU take bf16, fp16, nvfp4 or mxfp4 activations, not {}",
                       where, to_string(shape.activations));
  }
  if (shape.k % kMultiple != 0 || shape.n % kMultiple != 0) {
    return usage_error("{}--n and --k must be even: two values share a byte", where);
  }
  return {};
}

Result<CudaBenchReport> run_cuda_bench(const CudaBenchRequest& request,
                                       const BenchProgress& progress) {
  for (const BenchShape& shape : request.shapes) NIBBLE_RETURN_IF_ERROR(check_cuda_shape(shape));
  std::optional<tune::TuningFile> tuning_file;
  if (!request.tuning_file.empty()) {
    NIBBLE_ASSIGN_OR_RETURN(tuning_file, tune::read_tuning(request.tuning_file));
  }
  const MachineState before = read_machine_state();
  CudaBenchReport report{.ordinal = request.ordinal};
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Device gpu, cuda::Device::open(request.ordinal));
  NIBBLE_RETURN_IF_ERROR(check_instruction(request, gpu.info()));
  // Every key that the run needs is asked for before anything is measured.
  std::optional<tune::TuningTable> tuning;
  if (tuning_file) {
    NIBBLE_ASSIGN_OR_RETURN(tune::TuningSite here, cuda_tuning_site(gpu.info()));
    NIBBLE_ASSIGN_OR_RETURN(tuning,
                            tuning_of_layers(*std::move(tuning_file), request.tuning_file.string(),
                                             std::move(here), request.shapes));
  }
  NIBBLE_ASSIGN_OR_RETURN(report.compiler, cuda::compiler());
  NIBBLE_ASSIGN_OR_RETURN(const CudaProbes probes, CudaProbes::load(gpu));
  if (request.check_only) {
    report.roofs = describe_gpu(gpu.info());
    report.notes.push_back(check_note(request, gpu.info()));
  } else {
    NIBBLE_ASSIGN_OR_RETURN(report.roofs,
                            measure_gpu_roofs(gpu, probes, {.seconds = request.roof_seconds},
                                              [&](std::string_view what) {
                                                progress(fmt::format("roofs: {}", what), 0);
                                              }));
  }
  NIBBLE_ASSIGN_OR_RETURN(CudaTimer timer, CudaTimer::make(probes));
  CudaBench(request, progress, report, gpu, probes, std::move(timer), tuning ? &*tuning : nullptr)
      .run();
  if (tuning) {
    for (std::string& line : tuning->report()) report.notes.push_back(std::move(line));
  }
  const MachineState after = read_machine_state();
  report.state = state_json(before, after);
  return report;
}

Json to_json(const CudaBenchReport& report) {
  const GpuRoofs& gpu = report.roofs;
  Json isa = Json::array();
  isa.push(gpu.arch);
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push(note);
  return Json::object()
      .set("schema", "nibble.bench/1")
      .set("machine", Json::object()
                          .set("title", gpu.title)
                          .set("cores", gpu.sms)
                          .set("memory_gb", gpu.memory_bytes / kGiga)
                          .set("last_level_cache_mb", gpu.l2_bytes / kMega)
                          .set("isa", std::move(isa)))
      .set("on", fmt::format("cuda:{}", report.ordinal))
      .set("compiler", report.compiler)
      .set("taken_unix_s", gpu.taken_unix_s)
      .set("state", report.state)
      .set("roofs", plain_roofs_json(gpu))
      .set("gpu_roofs", to_json(gpu))
      .set("scaling", Json::array())
      .set("kernel_rates", Json::array())
      .set("rows", rows_json(report.rows))
      .set("baselines", rows_json(report.baselines))
      .set("notes", std::move(notes));
}

}  // namespace nibble
