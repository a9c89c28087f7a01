#include "cli/bench.h"

#include <algorithm>
#include <map>

#include "base/progress.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "bench/model_shapes.h"
#include "bench/shapes_file.h"
#include "cli/bench_cuda.h"
#include "cli/bench_link.h"
#include "cli/bench_model.h"
#include "cli/version.h"
#include "machine/probe.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostSide = 1 << 20;
constexpr std::int64_t kMostCount = 1 << 16;

// An expert of a mid-sized model: 1.2 MB in NVFP4, so that a ring of them is soon made.
constexpr std::int64_t kExperts = 64;
constexpr std::int64_t kTopK = 8;
constexpr std::int64_t kN = 1024;
constexpr std::int64_t kK = 2048;
const std::vector<std::int64_t> kTokens = {1, 4, 64};

// The activations to measure for weights of a format.
Result<std::vector<Format>> activation_formats(const Arguments& arguments, Format weights) {
  if (const auto given = arguments.text("--activations")) {
    return std::vector<Format>{format_from_string(*given).value()};
  }
  if (weights == Format::kBf16) return std::vector<Format>{Format::kBf16};
  return std::vector<Format>{Format::kBf16, Format::kInt8};
}

Result<std::vector<std::int64_t>> token_list(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const auto given, arguments.integers("--tokens", 1, kMostCount));
  return given.value_or(kTokens);
}

Result<> set_sizes(const Arguments& arguments, BenchShape& shape) {
  struct Flag {
    const char* name;
    std::int64_t* target;
    std::int64_t most;
  };
  for (const Flag& flag :
       {Flag{"--experts", &shape.experts, kMostCount}, Flag{"--top-k", &shape.top_k, kMostCount},
        Flag{"--n", &shape.n, kMostSide}, Flag{"--k", &shape.k, kMostSide}}) {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.integer(flag.name, 1, flag.most));
    if (value) *flag.target = *value;
  }
  // A single matrix is met by every token; a smaller layer by as many experts as it has.
  if (!arguments.has("--top-k")) shape.top_k = std::min(shape.top_k, shape.experts);
  return {};
}

Result<std::vector<BenchShape>> given_shapes(const Arguments& arguments, BenchOp op) {
  BenchShape shape{.op = op,
                   .name = op == BenchOp::kMoe ? "moe" : "gemm",
                   .experts = kExperts,
                   .top_k = kTopK,
                   .n = kN,
                   .k = kK};
  shape.format = format_from_string(arguments.text("--format").value_or("nvfp4")).value();
  NIBBLE_RETURN_IF_ERROR(set_sizes(arguments, shape));
  NIBBLE_ASSIGN_OR_RETURN(shape.tokens, token_list(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const auto activations, activation_formats(arguments, shape.format));
  std::vector<BenchShape> shapes;
  for (const Format format : activations) {
    shape.activations = format;
    shapes.push_back(shape);
  }
  return shapes;
}

Result<std::vector<BenchShape>> shapes_of_model(const Arguments& arguments, BenchOp op,
                                                std::vector<std::string>& notes) {
  for (const char* flag : {"--format", "--n", "--k", "--experts", "--top-k"}) {
    if (!arguments.has(flag)) continue;
    return usage_error("{} cannot stand beside --model: the model names it", flag);
  }
  CpuRank rank{.model = *arguments.text("--model"), .available_bytes = available_memory_bytes()};
  NIBBLE_ASSIGN_OR_RETURN(const auto tp, arguments.integer("--tp", 1, kMostCount));
  rank.tp = tp.value_or(1);
  if (const auto given = arguments.text("--activations")) {
    rank.activations = format_from_string(*given);
  }
  NIBBLE_ASSIGN_OR_RETURN(rank.tokens, token_list(arguments));
  NIBBLE_ASSIGN_OR_RETURN(ModelShapes found, shapes_on_cpu(rank));
  notes = found.notes;
  if (op == BenchOp::kMoe) return layer_of_model(*arguments.text("--model"), found, "a CPU kernel");
  return found.shapes;
}

// What the same work takes on a GPU; without a word for the work, what any takes there.
bool is_of_cuda(const std::string& name, const std::string& what) {
  const auto takes = [&name](const std::string& work) {
    const std::vector<std::string> taken = bench_cuda_takes(work);
    return std::find(taken.begin(), taken.end(), name) != taken.end();
  };
  if (what.empty()) return takes("roof") || takes("gemm") || takes("moe");
  return (what == "roof" || what == "gemm" || what == "moe") && takes(what);
}

Error needs_cuda(const std::string& name, const std::string& of) {
  return usage_error("{} does not apply to \"{}\" on a CPU: {} needs {}--on cuda:N{}", name, of,
                     name, of == "bench" ? "moe or gemm with " : "",
                     name == "--compile-for" ? ", though no GPU need be there for it" : "");
}

// The options that what is measured takes: others would be ignored, and are refused.
Result<> check_applicable(const Arguments& arguments, const std::string& what, bool on_cuda) {
  const std::vector<std::string> kernels = {
      "--format", "--activations", "--n",      "--k",    "--experts", "--top-k",   "--tokens",
      "--model",  "--tp",          "--shapes", "--cold", "--hot",     "--seconds", "--isa",
      "--seed",   "--threads",     "--csv",    "--json", "--on",      "--tuning"};
  const std::map<std::string, std::vector<std::string>> takes = {
      {"", kernels},
      {"gemm", kernels},
      {"moe", kernels},
      {"roof", {"--threads", "--csv", "--json", "--on"}},
      {"link", bench_link_takes()},
      {"step",
       {"--model", "--activations", "--kv-format", "--concurrency", "--context", "--seconds",
        "--isa", "--seed", "--threads", "--json"}},
      {"perplexity",
       {"--model", "--activations", "--kv-format", "--text", "--window", "--isa", "--threads",
        "--json"}}};
  const std::vector<std::string> taken = on_cuda ? bench_cuda_takes(what) : takes.at(what);
  for (const auto& [name, values] : arguments.given) {
    if (name == "WHAT" || std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    const std::string of = fmt::format("bench{}{}", what.empty() ? "" : " ", what);
    if (!on_cuda && is_of_cuda(name, what)) return needs_cuda(name, of);
    return usage_error("{} does not apply to \"{}\"{}; leave it out", name, of,
                       on_cuda ? " on a GPU" : "");
  }
  if (on_cuda) return {};
  if (arguments.text("--activations").value_or("") == "mxfp4") {
    return usage_error("--activations mxfp4 is of --on cuda:N: no CPU kernel takes it");
  }
  if (what.empty() || what == "gemm" || what == "moe") {
    if (arguments.text("--activations").value_or("") == "fp32") {
      return usage_error("--activations fp32 is of \"bench step\" and \"bench perplexity\"");
    }
    if (arguments.text("--activations").value_or("") == "fp16") {
      return usage_error("--activations fp16 is of --on cuda:N: no CPU kernel takes it");
    }
  }
  return {};
}

// A processor that has not the wanted instructions would die of them.
Result<> check_isa(const Arguments& arguments) {
  const auto name = arguments.text("--isa");
  if (!name || is_usable(isa_from_string(*name).value())) return {};
  std::vector<std::string> usable;
  for (const Isa isa : usable_isas()) usable.emplace_back(to_string(isa));
  return usage_error("--isa is \"{}\", which this processor has not; it has {}", *name,
                     join(usable, ", "));
}

Result<std::vector<BenchShape>> wanted_shapes(const Arguments& arguments, const std::string& what,
                                              std::vector<std::string>& notes) {
  if (what == "roof") return std::vector<BenchShape>();
  const BenchOp op = what == "moe" ? BenchOp::kMoe : BenchOp::kGemm;
  if (const auto file = arguments.text("--shapes")) {
    for (const char* flag : {"--model", "--format", "--activations", "--tokens", "--n", "--k",
                             "--experts", "--top-k"}) {
      if (!arguments.has(flag)) continue;
      return usage_error("{} cannot stand beside --shapes: the file names it", flag);
    }
    return read_shapes(*file);
  }
  if (arguments.has("--model")) return shapes_of_model(arguments, op, notes);
  if (arguments.has("--tp")) return usage_error("--tp needs --model, whose matrices it cuts");
  return given_shapes(arguments, op);
}

Result<BenchRequest> request_from(const Arguments& arguments, const std::string& what) {
  BenchRequest request;
  NIBBLE_ASSIGN_OR_RETURN(request.threads, bench_threads(arguments));
  if (arguments.has("--hot") && arguments.has("--cold")) {
    return usage_error("--hot and --cold exclude each other; give one");
  }
  request.cold = !arguments.has("--hot");
  request.scaling = what == "roof";
  NIBBLE_ASSIGN_OR_RETURN(const auto seconds, arguments.number("--seconds", 0.01, 3600));
  request.row_seconds = seconds.value_or(1);
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  request.seed = static_cast<std::uint64_t>(seed.value_or(1));
  if (const auto name = arguments.text("--isa")) request.isa = isa_from_string(*name).value();
  NIBBLE_ASSIGN_OR_RETURN(request.tuning_file, tuning_file(arguments, what));
  return request;
}

// The file is a convenience: that it cannot be written spoils no measurement.
void keep(BenchReport& report) {
  if (report.roofs.roofs.threads != report.cpu.cores) {
    report.notes.push_back("the roofs are of fewer or more threads than processors: not kept");
    return;
  }
  const std::string worse = worse_than_kept(roof_cache_path(), report.cpu, report.roofs);
  if (!worse.empty()) {
    report.notes.push_back(worse);
    return;
  }
  const Result<> kept = keep_roofs(roof_cache_path(), report.cpu, report.roofs);
  if (!kept.ok()) report.notes.push_back("the roofs are not kept: " + kept.error().message);
}

void print_json(const BenchReport& report, const Arguments& arguments) {
  const Json body = to_json(report);
  Json json = Json::object();
  json.set("schema", "nibble.bench/1").set("version", version());
  json.set("command", join(arguments.command_line, " "));
  for (const Json::Member& member : body.as_object()) json.set(member.first, member.second);
  fmt::print("{}\n", json.dump());
}

Result<int> execute_bench(const Arguments& arguments) {
  if (arguments.has("--json") && arguments.has("--csv")) {
    return usage_error("--json and --csv exclude each other; give one");
  }
  if (arguments.has("--import")) return run_bench_import(arguments);
  const std::string what = arguments.text("WHAT").value_or("");
  const bool is_cuda_work = what == "roof" || what == "gemm" || what == "moe";
  bool on_cuda = false;
  if (is_cuda_work) {
    NIBBLE_ASSIGN_OR_RETURN(on_cuda, is_on_cuda(arguments));
  }
  if (what.empty()) {
    NIBBLE_ASSIGN_OR_RETURN(const bool wants_gpu, is_on_cuda(arguments));
    if (wants_gpu) return usage_error("bench --on cuda:N needs what to measure: roof, gemm or moe");
  }
  NIBBLE_RETURN_IF_ERROR(check_applicable(arguments, what, on_cuda));
  if (on_cuda) return run_bench_cuda(arguments, what);
  NIBBLE_RETURN_IF_ERROR(check_isa(arguments));
  if (what == "step") return run_bench_step(arguments);
  if (what == "perplexity") return run_bench_perplexity(arguments);
  if (what == "link") return run_bench_link(arguments);
  NIBBLE_ASSIGN_OR_RETURN(BenchRequest request, request_from(arguments, what));
  std::vector<std::string> notes;
  NIBBLE_ASSIGN_OR_RETURN(request.shapes, wanted_shapes(arguments, what, notes));
  double total = 1;
  for (const BenchShape& shape : request.shapes) total += static_cast<double>(shape.tokens.size());
  Progress progress("measuring", total, stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(BenchReport report,
                          run_bench(request, [&](std::string_view now, double rows) {
                            progress.advance(rows - done);
                            done = rows;
                            progress.note(now);
                          }));
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  keep(report);
  if (arguments.has("--json")) {
    print_json(report, arguments);
  } else if (arguments.has("--csv")) {
    fmt::print("{}", request.scaling ? roofs_csv(report) : to_csv(report.rows));
  } else {
    fmt::print("{}", bench_text(report, Style::for_stdout()));
  }
  return report.failed() ? 1 : 0;
}

std::vector<OptionDef> shape_options() {
  const auto number = [](std::string name, std::string help, std::int64_t value) {
    return OptionDef{.name = std::move(name),
                     .value = "N",
                     .kind = ValueKind::kInteger,
                     .help = std::move(help),
                     .default_text = fmt::format("{}", value)};
  };
  return {
      {.name = "--format",
       .value = "FORMAT",
       .kind = ValueKind::kChoice,
       .help = "number format of the weights",
       .default_text = "nvfp4",
       .choices = {"nvfp4", "mxfp4", "bf16"}},
      {.name = "--activations",
       .value = "FORMAT",
       .kind = ValueKind::kChoice,
       .help = "number format of the activations",
       .default_text = "bf16 and int8; with --model the checkpoint's; of step and perplexity fp32",
       .choices = {"bf16", "int8", "nvfp4", "mxfp4", "fp32", "fp16"}},
      number("--n", "output features of a matrix; of a layer, the intermediate size", kN),
      number("--k", "input features of a matrix; of a layer, the hidden size", kK),
      number("--experts", "matrices; 1 is an ordinary product", kExperts),
      number("--top-k", "experts that a token meets", kTopK),
      {.name = "--tokens",
       .value = "LIST",
       .kind = ValueKind::kIntegerList,
       .help = "tokens of a run: 1,8,64 or 1..256 (powers of two)",
       .default_text = "1,4,64"},
      {.name = "--model",
       .value = "NAME|FILE|DIR",
       .kind = ValueKind::kModel,
       .help = "the model's own matrices on one rank"},
      {.name = "--tp",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "ranks that the model is split over",
       .default_text = "1"},
      {.name = "--shapes",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "shapes chosen beforehand (nibble.shapes/1)"}};
}

std::vector<OptionDef> run_options() {
  return {{.name = "--threads",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "threads, at most four for each processor",
           .default_text = "the processors of this process"},
          {.name = "--cold", .help = "weights come from memory in every run (the default)"},
          {.name = "--hot", .help = "weights stay in the caches where they fit"},
          {.name = "--seconds",
           .value = "S",
           .kind = ValueKind::kNumber,
           .help = "most time for a row, unless its interval is narrow sooner",
           .default_text = "1"},
          {.name = "--isa",
           .value = "NAME",
           .kind = ValueKind::kChoice,
           .help = "instructions of the kernels",
           .default_text = "the best that this processor has",
           .choices = {"portable", "avx2", "avx512"}},
          {.name = "--seed",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "seed of weights, activations and routing",
           .default_text = "1"},
          {.name = "--csv",
           .help = "print the rows, or the roofs of \"roof\", as comma-separated values"}};
}

}  // namespace

CommandDef bench_command() {
  std::vector<OptionDef> options = shape_options();
  for (OptionDef& option : run_options()) options.push_back(std::move(option));
  for (OptionDef& option : bench_model_options()) options.push_back(std::move(option));
  for (OptionDef& option : bench_link_options()) options.push_back(std::move(option));
  for (OptionDef& option : bench_cuda_options()) options.push_back(std::move(option));
  return {
      .name = "bench",
      .summary = "what this machine can do at most, and how near the kernels come to it",
      .description =
          "Measures the roofs of this processor (read bandwidth, multiply rates by width) and "
          "holds "
          "the 4-bit kernels against them. Without arguments: the roofs and a small table, in less "
          "than a minute. \"roof\" measures the roofs for every number of threads, \"gemm\" "
          "products, \"moe\" whole mixture-of-experts layers; \"step\" the decode step of the "
          "engine behind `nibble serve` with a checkpoint, operation by operation, and "
          "\"perplexity\" how well that checkpoint foretells a text; \"link\" copies and NCCL's "
          "collectives between GPUs.\n\n"
          "Each kernel is checked against a double-precision reference before it is timed. Runs "
          "alternate with the roof, so that both see the same machine; the median of the pairs is "
          "reported with its 95 % interval. A row above 100 % of its roof is an error (status 1), "
          "but on a busy machine only marked. "
          "The roofs are kept under the XDG cache for \"analyze --machine this\".\n\n"
          "With --on cuda:N roof, gemm and moe are measured on a GPU: graphs that hold one run "
          "each "
          "are replayed, with other routing and other weights each time, and cuBLASLt's products "
          "of "
          "the same shapes stand beside them where it is installed.",
      .options = std::move(options),
      .examples =
          {{"nibble bench", "roofs and a first table"},
           {"nibble bench roof", "roofs for every number of threads"},
           {"nibble bench gemm --model glm-5-nvfp4 --tp 8 --tokens 1,8,64",
            "the matrices of GLM-5 on one of eight ranks"},
           {"nibble bench moe --experts 32 --top-k 4 --n 768 --k 2048 --activations int8",
            "a whole layer"},
           {"nibble bench step --model DIR --concurrency 1,4,16",
            "the engine's decode step beside its floor; without --model of the embedded model"},
           {"nibble bench perplexity --text book.txt", "bits per character of the embedded model"},
           {"nibble bench moe --on cuda:0 --model glm-5-nvfp4 --tp 8 --tokens-per-expert 1,8,32",
            "the layer of experts on a GPU, beside its floor"},
           {"nibble bench --import results.csv --json", "what flashinfer_benchmark.py measured"},
           {"nibble bench link --on cuda:0,1 --save-machine mine.json",
            "copies and NCCL's collectives between two GPUs; then analyze --machine mine.json"}},
      .run = execute_bench,
      .operands = {{.name = "WHAT",
                    .value = "WHAT",
                    .kind = ValueKind::kChoice,
                    .help = "what to measure",
                    .default_text = "roofs and a small table",
                    .choices = {"roof", "gemm", "moe", "step", "perplexity", "link"}}}};
}

}  // namespace nibble::cli
