#include "cli/bench_cuda.h"

#include <algorithm>

#include "base/progress.h"
#include "base/text.h"
#include "bench/cuda_compile.h"
#include "bench/model_shapes.h"
#include "bench/predicted_set.h"
#include "bench/shapes_file.h"
#include "cli/version.h"
#include "machine/roof_cache.h"
#include "model/config.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostCudaTokens = 1 << 20;
constexpr std::int64_t kMostCudaSide = 1 << 20;
constexpr std::int64_t kMostCudaExperts = 1 << 16;
const std::vector<std::int64_t> kCudaTokens = {1, 2, 4, 8, 16, 32, 64, 128};

Result<std::vector<std::int64_t>> cuda_tokens(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const auto given, arguments.integers("--tokens", 1, kMostCudaTokens));
  return given.value_or(kCudaTokens);
}

// --tokens-per-expert T: so many tokens that balanced routing gives each expert T of them.
Result<> set_tokens(const Arguments& arguments, std::vector<BenchShape>& shapes) {
  NIBBLE_ASSIGN_OR_RETURN(const auto each,
                          arguments.integers("--tokens-per-expert", 1, kMostCudaTokens));
  if (!each) return {};
  if (arguments.has("--tokens")) {
    return usage_error("--tokens and --tokens-per-expert exclude each other; give one");
  }
  for (BenchShape& shape : shapes) {
    shape.tokens.clear();
    for (const std::int64_t tokens : *each) {
      const std::int64_t choices = tokens * shape.experts;
      if (choices % shape.top_k != 0 || choices / shape.top_k > kMostCudaTokens) {
        return usage_error(
            "--tokens-per-expert {} is no whole number of tokens with {} experts of which a token "
            "meets {}, or more than {}",
            tokens, shape.experts, shape.top_k, kMostCudaTokens);
      }
      shape.tokens.push_back(choices / shape.top_k);
    }
  }
  return {};
}

Result<Format> cuda_activations(const Arguments& arguments) {
  const std::string name = arguments.text("--activations").value_or("bf16");
  const Format format = format_from_string(name).value();
  const std::vector<Format> taken = {Format::kBf16, Format::kFp16, Format::kNvfp4, Format::kMxfp4};
  if (std::find(taken.begin(), taken.end(), format) != taken.end()) return format;
  return usage_error("--activations is \"{}\"; kernels on a GPU take bf16 or fp16, nvfp4 or mxfp4",
                     name);
}

Result<std::vector<BenchShape>> cuda_given(const Arguments& arguments, BenchOp op) {
  // GLM-5's layer is the one that peers are known for.
  constexpr std::int64_t kExpertsHere = 256, kTopKHere = 8, kInner = 2048, kHidden = 6144;
  BenchShape shape{.op = op, .name = op == BenchOp::kMoe ? "moe" : "gemm"};
  const bool is_moe = op == BenchOp::kMoe;
  shape.format = format_from_string(arguments.text("--format").value_or("nvfp4")).value();
  NIBBLE_ASSIGN_OR_RETURN(shape.activations, cuda_activations(arguments));
  const auto number = [&](const char* name, std::int64_t most,
                          std::int64_t otherwise) -> Result<std::int64_t> {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.integer(name, 1, most));
    return value.value_or(otherwise);
  };
  NIBBLE_ASSIGN_OR_RETURN(shape.experts,
                          number("--experts", kMostCudaExperts, is_moe ? kExpertsHere : 1));
  NIBBLE_ASSIGN_OR_RETURN(shape.top_k,
                          number("--top-k", kMostCudaExperts, std::min(kTopKHere, shape.experts)));
  NIBBLE_ASSIGN_OR_RETURN(shape.n, number("--n", kMostCudaSide, is_moe ? kInner : kHidden));
  NIBBLE_ASSIGN_OR_RETURN(shape.k, number("--k", kMostCudaSide, kHidden));
  NIBBLE_ASSIGN_OR_RETURN(shape.tokens, cuda_tokens(arguments));
  return std::vector<BenchShape>{shape};
}

// The ledger's shapes do not depend on the machine; its numbers are not used.
Result<Deployment> deployment_of(const Arguments& arguments) {
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(*arguments.text("--model")));
  NIBBLE_ASSIGN_OR_RETURN(deployment.machine, load_machine("h200"));
  NIBBLE_ASSIGN_OR_RETURN(const auto tp, arguments.integer("--tp", 1, kMostCudaExperts));
  deployment.layout.tp = tp.value_or(1);
  deployment.link = LinkSpeed{1, 1};
  NIBBLE_ASSIGN_OR_RETURN(deployment.activations, cuda_activations(arguments));
  return deployment;
}

Result<std::vector<BenchShape>> cuda_of_model(const Arguments& arguments, BenchOp op,
                                              std::vector<std::string>& notes) {
  constexpr double kAnyMemory = 1e15;  // what does not fit is a row that says so
  for (const char* flag : {"--format", "--n", "--k", "--experts", "--top-k"}) {
    if (!arguments.has(flag)) continue;
    return usage_error("{} cannot stand beside --model: the model names it", flag);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Deployment deployment, deployment_of(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> tokens, cuda_tokens(arguments));
  NIBBLE_ASSIGN_OR_RETURN(ModelShapes found, model_shapes(deployment, tokens, kAnyMemory));
  const Format activations = *deployment.activations;
  for (BenchShape& shape : found.shapes) {
    if (shape.format == Format::kBf16) continue;
    const bool narrow = activations == Format::kNvfp4 || activations == Format::kMxfp4;
    const bool narrow_weights = shape.format == Format::kNvfp4 || shape.format == Format::kMxfp4;
    shape.activations = narrow && !narrow_weights ? Format::kBf16 : activations;
  }
  if (op == BenchOp::kGemm) {
    notes = found.notes;
    return found.shapes;
  }
  return layer_of_model(*arguments.text("--model"), found, "a kernel");
}

Result<std::vector<BenchShape>> cuda_shapes(const Arguments& arguments, const std::string& what,
                                            std::vector<std::string>& notes) {
  if (what == "roof") return std::vector<BenchShape>();
  const BenchOp op = what == "moe" ? BenchOp::kMoe : BenchOp::kGemm;
  const std::vector<std::string> sizes = {"--model", "--format", "--activations",       "--tokens",
                                          "--n",     "--k",      "--tokens-per-expert", "--experts",
                                          "--top-k", "--tp"};
  for (const char* list : {"--set", "--shapes"}) {
    if (!arguments.has(list)) continue;
    for (const std::string& flag : sizes) {
      if (!arguments.has(flag)) continue;
      return usage_error("{} cannot stand beside {}, whose shapes name it", flag, list);
    }
    if (std::string_view(list) == "--shapes") return read_shapes(*arguments.text("--shapes"));
    return predicted_set();
  }
  std::vector<BenchShape> shapes;
  if (arguments.has("--model")) {
    NIBBLE_ASSIGN_OR_RETURN(shapes, cuda_of_model(arguments, op, notes));
  } else {
    if (arguments.has("--tp")) return usage_error("--tp needs --model, whose matrices it cuts");
    NIBBLE_ASSIGN_OR_RETURN(shapes, cuda_given(arguments, op));
  }
  NIBBLE_RETURN_IF_ERROR(set_tokens(arguments, shapes));
  return shapes;
}

Result<CudaBenchRequest> cuda_request(const Arguments& arguments, const std::string& what) {
  CudaBenchRequest request;
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> ordinal, parse_on(*arguments.text("--on")));
  request.ordinal = ordinal.value_or(0);
  if (arguments.has("--hot") && arguments.has("--cold")) {
    return usage_error("--hot and --cold exclude each other; give one");
  }
  request.cold = !arguments.has("--hot");
  request.baselines = !arguments.has("--no-baselines");
  request.check_only = arguments.has("--check-only");
  NIBBLE_ASSIGN_OR_RETURN(request.tuning_file, tuning_file(arguments, what));
  const std::string path = arguments.text("--launches").value_or("auto");
  if (path != "auto") {
    request.path = path == "one" ? LayerPath::kOneLaunch : LayerPath::kSteps;
  }
  const std::string routing = arguments.text("--routing").value_or("random");
  if (std::filesystem::is_regular_file(routing)) {
    return usage_error(
        "--routing is \"{}\", a file: nibble tune takes recorded counts, and bench balanced, "
        "random "
        "or zipf:S",
        printable(routing));
  }
  NIBBLE_ASSIGN_OR_RETURN(request.routing, parse_route_draw(routing));
  NIBBLE_ASSIGN_OR_RETURN(const auto seconds, arguments.number("--seconds", 0.01, 3600));
  request.row_seconds = seconds.value_or(request.row_seconds);
  if (what == "roof") request.roof_seconds = seconds.value_or(0.4);
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  request.seed = static_cast<std::uint64_t>(seed.value_or(1));
  return request;
}

// A layer is two rows, a matrix one and its baselines.
double rows_of(const BenchShape& shape, bool baselines) {
  constexpr double kBaselineRows = 3;
  const double each = shape.op == BenchOp::kMoe         ? 2
                      : shape.experts == 1 && baselines ? 1 + kBaselineRows
                                                        : 1;
  return each * static_cast<double>(shape.tokens.size());
}

// What has no meaning where nothing is measured and one line is printed.
Result<> check_compile_only(const Arguments& arguments) {
  for (const char* flag :
       {"--check-only", "--json", "--tuning", "--no-baselines", "--hot", "--cold", "--seconds"}) {
    if (!arguments.has(flag)) continue;
    return usage_error(
        "{} cannot stand beside --compile-for, which measures nothing and prints one line; leave "
        "it out",
        flag);
  }
  return {};
}

Result<int> compile_only(const CudaBenchRequest& request, const std::string& arch) {
  Progress progress("compiling", static_cast<double>(request.shapes.size()), stderr, "");
  NIBBLE_ASSIGN_OR_RETURN(
      const CompiledAhead done,
      compile_ahead(request, arch, [&](std::string_view now, double) { progress.note(now); }));
  const std::string said = fmt::format("{} programs for {}, {} of them from the cache",
                                       done.programs, done.arch, done.cached);
  if (!done.spilling.empty()) {
    return run_error("{}; {} spill registers, and their times would be of that: {}", said,
                     done.spilling.size(), join(done.spilling, "; "));
  }
  fmt::print("{}\n", said);
  // It is there to be checked: nothing is timed with it (docs/measuring.md).
  if (!done.software_spilling.empty()) {
    fmt::print(
        "{} of them spill registers, which is no fault of the software body of the FP4 "
        "instruction, since it is only checked: {}\n",
        done.software_spilling.size(), join(done.software_spilling, "; "));
  }
  return 0;
}

void print_document(const Json& body, const Arguments& arguments) {
  Json json = Json::object();
  json.set("schema", "nibble.bench/1").set("version", version());
  json.set("command", join(arguments.command_line, " "));
  for (const Json::Member& member : body.as_object()) json.set(member.first, member.second);
  fmt::print("{}\n", json.dump());
}

}  // namespace

Result<std::filesystem::path> tuning_file(const Arguments& arguments, const std::string& what) {
  const auto file = arguments.text("--tuning");
  if (!file) return std::filesystem::path();
  if (!std::filesystem::exists(*file)) {
    return input_error("{}: there is no such tuning file; nibble tune writes one", *file);
  }
  if (what != "moe") return usage_error("--tuning is of layers: nibble bench moe");
  return std::filesystem::path(*file);
}

std::vector<OptionDef> bench_cuda_options() {
  return {
      {.name = "--routing",
       .value = "KIND",
       .kind = ValueKind::kText,
       .help = "on a GPU: how tokens choose experts: balanced, random or zipf:S",
       .default_text = "random"},
      {.name = "--tokens-per-expert",
       .value = "LIST",
       .kind = ValueKind::kIntegerList,
       .help = "on a GPU: tokens by what each expert gets of balanced routing"},
      {.name = "--set",
       .value = "NAME",
       .kind = ValueKind::kChoice,
       .help = "on a GPU: layers that were drawn beforehand, to hold predictions against",
       .choices = {"predicted"}},
      {.name = "--launches",
       .value = "KIND",
       .kind = ValueKind::kChoice,
       .help = "on a GPU: a layer with few tokens in one launch where that can be, in a launch a "
               "step, or as the library chooses",
       .default_text = "auto",
       .choices = {"one", "steps", "auto"}},
      {.name = "--compile-for",
       .value = "ARCH",
       .kind = ValueKind::kText,
       .help = "with --on cuda:N, where no GPU need be: compile for an architecture, as sm_90a, "
               "into the cache, and measure nothing"},
      {.name = "--tuning",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "of \"moe\": take the choices that nibble tune wrote there"},
      {.name = "--no-baselines", .help = "on a GPU: without cuBLASLt's products"},
      {.name = "--check-only",
       .help = "on a GPU: hold the kernels against double precision, and time nothing"},
      {.name = "--import",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "read the CSV of flashinfer_benchmark.py instead of measuring"}};
}

std::vector<std::string> bench_cuda_takes(const std::string& what) {
  if (what == "roof") return {"--on", "--seconds", "--json"};
  std::vector<std::string> takes = {"--on",
                                    "--format",
                                    "--activations",
                                    "--n",
                                    "--k",
                                    "--experts",
                                    "--top-k",
                                    "--tokens",
                                    "--model",
                                    "--tp",
                                    "--shapes",
                                    "--cold",
                                    "--hot",
                                    "--seconds",
                                    "--seed",
                                    "--json",
                                    "--routing",
                                    "--tokens-per-expert",
                                    "--no-baselines",
                                    "--tuning",
                                    "--check-only",
                                    "--compile-for"};
  if (what == "moe") takes.insert(takes.end(), {"--set", "--launches"});
  return takes;
}

Result<bool> is_on_cuda(const Arguments& arguments) {
  const auto on = arguments.text("--on");
  if (!on) return false;
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> ordinal, parse_on(*on));
  return ordinal.has_value();
}

Result<int> run_bench_cuda(const Arguments& arguments, const std::string& what) {
  if (arguments.has("--compile-for")) NIBBLE_RETURN_IF_ERROR(check_compile_only(arguments));
  NIBBLE_ASSIGN_OR_RETURN(CudaBenchRequest request, cuda_request(arguments, what));
  std::vector<std::string> notes;
  NIBBLE_ASSIGN_OR_RETURN(request.shapes, cuda_shapes(arguments, what, notes));
  if (const auto arch = arguments.text("--compile-for")) return compile_only(request, *arch);
  double total = 1;
  for (const BenchShape& shape : request.shapes) total += rows_of(shape, request.baselines);
  Progress progress("measuring", total, stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(CudaBenchReport report,
                          run_cuda_bench(request, [&](std::string_view now, double rows) {
                            progress.advance(rows - done);
                            done = rows;
                            progress.note(now);
                          }));
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  // Short roofs, of a run that is for its rows, do not replace longer ones.
  if (what == "roof") {
    const Result<> kept = keep_gpu_roofs(gpu_roof_cache_path(), report.roofs);
    if (!kept.ok()) report.notes.push_back("the roofs are not kept: " + kept.error().message);
  }
  if (arguments.has("--json")) {
    print_document(to_json(report), arguments);
  } else {
    const Style style = Style::for_stdout();
    fmt::print("{}",
               request.check_only ? cuda_check_text(report, style) : cuda_text(report, style));
  }
  return report.failed() ? 1 : 0;
}

Result<int> run_bench_import(const Arguments& arguments) {
  for (const auto& [name, values] : arguments.given) {
    if (name == "--import" || name == "--json") continue;
    return usage_error(
        "{} does not apply to \"bench --import\", which measures nothing; leave it out",
        name == "WHAT" ? values.front() : name);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Imported imported, import_flashinfer(*arguments.text("--import")));
  if (arguments.has("--json")) {
    print_document(to_json(imported), arguments);
  } else {
    fmt::print("{}", imported_text(imported, Style::for_stdout()));
  }
  return 0;
}

}  // namespace nibble::cli
