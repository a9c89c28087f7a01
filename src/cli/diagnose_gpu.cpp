#include "cli/diagnose_gpu.h"

#include <algorithm>

#include "base/progress.h"
#include "bench/cuda_bench.h"
#include "cli/diagnose_options.h"
#include "cli/load_flags.h"
#include "cuda/device.h"
#include "diagnose/read_cover.h"
#include "diagnose/read_evidence.h"
#include "model/config.h"

namespace nibble::cli {
namespace {

using diagnose::Evidence;
using diagnose::GpuBeside;
using diagnose::ProductToTime;

// Enough for a median; a step of GLM-5 has fourteen products at each level.
constexpr double kRowSeconds = 0.15;
constexpr double kRoofSeconds = 0.2;
// Shapes do not depend on the machine; its numbers are replaced by measured ones.
constexpr const char* kAnyGpu = "h200";

// Roofs that a flag states are measured here.
Result<> refuse_roofs(const Arguments& arguments) {
  for (const char* flag : {"--peak", "--peak-is", "--set", "--bandwidth-efficiency"}) {
    if (!arguments.has(flag)) continue;
    return usage_error(
        "{} states what is measured on the GPU; leave it out, or the GPU's measurement", flag);
  }
  return {};
}

// What may be said again beside a case, if it is the same.
Result<> check_beside_case(const Arguments& arguments, const Deployment& deployment) {
  const ParallelLayout& layout = deployment.layout;
  for (const auto& [flag, ranks] : {std::pair{"--tp", layout.tp},
                                    {"--pp", layout.pp},
                                    {"--ep", layout.ep},
                                    {"--dp", layout.dp}}) {
    NIBBLE_ASSIGN_OR_RETURN(const auto given, arguments.integer(flag, 1));
    if (!given || *given == ranks) continue;
    return usage_error("{} is {}, and the case ran with {}; leave it out", flag, *given, ranks);
  }
  for (const char* flag : {"--model-config", "--model"}) {
    if (!arguments.has(flag)) continue;
    NIBBLE_ASSIGN_OR_RETURN(const ModelSpec model, load_model(*arguments.text(flag)));
    if (model.title == deployment.model.title) continue;
    return usage_error("{} is {}, and the case ran {}; leave it out", flag, model.title,
                       deployment.model.title);
  }
  if (!arguments.has("--machine")) return {};
  NIBBLE_ASSIGN_OR_RETURN(const MachineSpec machine, load_machine(*arguments.text("--machine")));
  if (diagnose::is_same_gpu(machine.title, deployment.machine.title)) return {};
  return usage_error("--gpu is {}, and the case ran on {}; leave it out", machine.title,
                     deployment.machine.title);
}

// What served, by the case or by flags; nullopt: neither says it.
Result<std::optional<GpuBeside>> described(const Arguments& arguments,
                                           const std::optional<CaseAnalysis>& analysis,
                                           const std::string& gpu) {
  if (analysis) {
    NIBBLE_RETURN_IF_ERROR(check_beside_case(arguments, analysis->deployment));
    return std::optional(GpuBeside{analysis->deployment, analysis->deployment.machine.title});
  }
  Arguments load = load_arguments(arguments);
  const bool tells = load.has("--machine");
  if (!tells && !load.has("--model-config")) {
    // The name under which a server is asked says nothing of a model's shape.
    const bool known = load.has("--model") && load_model(*load.text("--model")).ok();
    const bool asked = load.has("--model") && arguments.has("--on");
    if (!known && !asked) return std::optional<GpuBeside>();
  }
  if (!tells) {
    const auto found = find_in_catalog(gpu);
    load.given["--machine"] = {found ? found->name : kAnyGpu};
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<Ledger> ledger, ledger_from(load, std::nullopt));
  const Deployment& deployment = ledger->deployment();
  return std::optional(GpuBeside{deployment, tells ? deployment.machine.title : std::string()});
}

// What a case says and what is concluded must stand on the same roofs.
Result<> explain_anew(const diagnose::GpuEvidence& gpu, std::optional<CaseAnalysis>& analysis) {
  if (!analysis) return {};
  const CaseOptions options = {.adjust = [&gpu](Deployment& deployment) -> Result<> {
    diagnose::apply_measured_roofs(gpu, deployment.machine);
    return {};
  }};
  NIBBLE_ASSIGN_OR_RETURN(analysis, explain_case(analysis->source, options));
  return {};
}

BenchShape shape_of(const ProductToTime& product, const Deployment& deployment) {
  const diagnose::RankProduct& of = product.product;
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  return {.op = of.part == "layer" ? BenchOp::kMoe : BenchOp::kGemm,
          .name = product.name,
          .format = of.format,
          .activations = Format::kBf16,
          .experts = whole(of.experts),
          .top_k = whole(of.top_k),
          .n = whole(of.n),
          .k = whole(of.k),
          .tokens = product.tokens,
          .where = fmt::format("{} of {}", product.name, deployment.model.title)};
}

Result<RouteDraw> routing_from(const Arguments& arguments) {
  const std::string word = arguments.text("--routing").value_or("uniform");
  if (word == "uniform") return RouteDraw{};
  if (word.starts_with("zipf:")) return parse_route_draw(word);
  return usage_error("--routing is \"{}\"; on a GPU kernels are timed with uniform or zipf:S",
                     word);
}

}  // namespace

Result<GpuRun> GpuRun::prepare(const Arguments& arguments,
                               const std::optional<CaseAnalysis>& analysis,
                               const Evidence& evidence) {
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> ordinal,
                          parse_on(arguments.text("--on").value_or("")));
  if (evidence.gpu) {
    return usage_error(
        "{} has kernels of {}, and --on would time them again; leave one of them out",
        evidence.gpu->source, evidence.gpu->roofs.title);
  }
  NIBBLE_RETURN_IF_ERROR(refuse_roofs(arguments));
  NIBBLE_ASSIGN_OR_RETURN(std::optional<GpuBeside> beside, described(arguments, analysis, ""));
  if (!beside) {
    return usage_error(
        "--on times the kernels of a model; name it, as --model glm-5-nvfp4 --tp 8, or give a "
        "--case");
  }
  GpuRun run(ordinal.value_or(0), beside->deployment);
  NIBBLE_ASSIGN_OR_RETURN(run.routing_, routing_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Device gpu, cuda::Device::open(run.ordinal_));
  run.title_ = gpu.info().name;
  return run;
}

Result<> GpuRun::measure(const std::vector<double>& sequences, Evidence& evidence) {
  CudaBenchRequest request{.ordinal = ordinal_,
                           .routing = routing_,
                           .row_seconds = kRowSeconds,
                           .roof_seconds = kRoofSeconds,
                           .baselines = false};
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<ProductToTime> products,
                          diagnose::products_to_time(deployment_, evidence, sequences));
  double rows = 1;
  for (const ProductToTime& product : products) {
    BenchShape shape = shape_of(product, deployment_);
    if (const Result<> fits = check_cuda_shape(shape); !fits.ok()) {
      evidence.setting.notes.push_back("not timed: " + fits.error().message);
      continue;
    }
    // A layer's products are timed once more by themselves.
    const double times = shape.op == BenchOp::kMoe ? 2 : 1;
    rows += times * static_cast<double>(shape.tokens.size());
    request.shapes.push_back(std::move(shape));
  }
  Progress progress("kernels on the GPU", rows, stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(const CudaBenchReport report,
                          run_cuda_bench(request, [&](std::string_view now, double measured) {
                            progress.advance(measured - done);
                            done = measured;
                            progress.note(now);
                          }));
  return diagnose::read_bench(to_json(report),
                              {.name = fmt::format("nibble bench on cuda:{}", ordinal_),
                               .origin = diagnose::Origin::kMeasured},
                              evidence);
}

Result<> fill_from_gpu(const Arguments& arguments, std::optional<CaseAnalysis>& analysis,
                       Evidence& evidence) {
  const std::string title = evidence.gpu->roofs.title;
  NIBBLE_ASSIGN_OR_RETURN(std::optional<GpuBeside> beside, described(arguments, analysis, title));
  if (!beside) {
    evidence.gpu->steps_reason = "which model is served is not told (--model-config)";
    return {};
  }
  // What the document itself names counts where no flag does.
  const diagnose::Setting& setting = evidence.setting;
  if (beside->served_on.empty() && !setting.is_cpu) beside->served_on = setting.machine;
  const bool same = beside->served_on.empty() || diagnose::is_same_gpu(beside->served_on, title);
  if (same) {
    NIBBLE_RETURN_IF_ERROR(refuse_roofs(arguments));
    NIBBLE_RETURN_IF_ERROR(explain_anew(*evidence.gpu, analysis));
  } else if (!analysis && arguments.has("--machine")) {
    NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(beside->deployment));
    diagnose::fill_floor(ledger, evidence);
  }
  diagnose::fill_gpu(*beside, evidence);
  return {};
}

}  // namespace nibble::cli
