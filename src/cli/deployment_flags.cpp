#include "cli/deployment_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "model/config.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostRanks = 65536;
constexpr double kMostLinkGbS = 1e6;

std::vector<OptionDef> subject_options() {
  return {
      {.name = "--model",
       .value = "NAME|FILE|DIR",
       .kind = ValueKind::kModel,
       .help = "catalog name, config.json or checkpoint folder"},
      {.name = "--machine",
       .aliases = {"--gpu"},
       .value = "NAME|FILE|this",
       .kind = ValueKind::kMachine,
       .help = "catalog name, machine file, or this machine"},
  };
}

std::vector<OptionDef> layout_options() {
  return {
      {.name = "--tp",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "tensor-parallel GPUs",
       .default_text = "1"},
      {.name = "--pp",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "pipeline stages",
       .default_text = "1"},
      {.name = "--ep",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "ranks that experts are split over; divides tp x dp",
       .default_text = "1"},
      {.name = "--dp",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "data-parallel attention groups of tp GPUs each (GPUs = tp x pp x dp)",
       .default_text = "1"},
      {.name = "--dp-attention",
       .kind = ValueKind::kNone,
       .help = "split sequences, not heads, over the tp group (SGLang's --enable-dp-attention)"},
      {.name = "--pp-microbatches",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "microbatches in flight over the stages",
       .default_text = "pp"},
  };
}

std::vector<OptionDef> load_options() {
  return {
      {.name = "--context",
       .value = "TOKENS",
       .kind = ValueKind::kInteger,
       .help = "tokens in the cache per sequence",
       .default_text = "4096"},
      {.name = "--kv-format",
       .value = "FORMAT",
       .kind = ValueKind::kChoice,
       .help = "number format of the KV cache",
       .default_text = "the checkpoint's, else bf16",
       .choices = {"bf16", "fp16", "fp8", "nvfp4"}},
      {.name = "--activations",
       .value = "FORMAT",
       .kind = ValueKind::kChoice,
       .help = "input format of quantized matrices",
       .default_text = "the checkpoint's",
       .choices = {"bf16", "fp8", "mxfp8", "int8", "nvfp4", "mxfp4"}},
      {.name = "--routing",
       .value = "uniform|zipf:S|FILE",
       .kind = ValueKind::kText,
       .help = "how tokens choose experts; a file has recorded counts",
       .default_text = "uniform"},
      {.name = "--draft-tokens",
       .value = "N",
       .kind = ValueKind::kInteger,
       .help = "speculative tokens: rows per sequence are 1 + N",
       .default_text = "0"},
  };
}

std::vector<OptionDef> machine_options() {
  return {
      {.name = "--bandwidth-efficiency",
       .value = "F",
       .kind = ValueKind::kNumber,
       .help = "share of the machine's bandwidth taken as the roof",
       .default_text = "1"},
      {.name = "--memory-utilization",
       .value = "F",
       .kind = ValueKind::kNumber,
       .help = "share of memory for weights and KV",
       .default_text = "0.9"},
      {.name = "--link",
       .value = "NAME|GB/s",
       .kind = ValueKind::kText,
       .help = "link between GPUs: one of the machine's, or GB/s per direction and GPU",
       .default_text = "the machine's first"},
      {.name = "--link-latency-us",
       .value = "US",
       .kind = ValueKind::kNumber,
       .help = "latency of one hop",
       .default_text = "the link's"},
      {.name = "--all-reduce",
       .value = "ALGORITHM",
       .kind = ValueKind::kChoice,
       .help = "all-reduce algorithm",
       .default_text = "fastest: the better of one-shot and two-shot",
       .choices = {"ring", "one-shot", "two-shot", "fastest"}},
      {.name = "--launch-gap-us",
       .value = "US",
       .kind = ValueKind::kNumber,
       .help = "gap between dependent kernels",
       .default_text = "the machine's, else 1"},
      {.name = "--tile",
       .value = "MxN[xK]",
       .kind = ValueKind::kText,
       .help = "add tile and wave coverage of this GEMM tile to the compute term"},
      {.name = "--peak",
       .value = "PRECISION=TFLOPS",
       .kind = ValueKind::kText,
       .help = "a quoted peak (fp4, fp8, bf16, int8, fp32); --peak-is says how it is meant",
       .repeatable = true},
      {.name = "--peak-is",
       .value = "dense|sparse",
       .kind = ValueKind::kChoice,
       .help = "how a quoted peak is meant",
       .default_text = "dense",
       .choices = {"dense", "sparse"}},
      {.name = "--set",
       .value = "PATH=NUMBER",
       .kind = ValueKind::kText,
       .help = "replace a number of the machine, as bandwidth_gb_s=1700 or power.limit_w=450",
       .repeatable = true},
  };
}

struct Assignment {
  std::string key;
  double value = 0;
};

Result<Assignment> parse_assignment(std::string_view option, std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view number = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  Assignment assignment{.key = std::string(text.substr(0, equals))};
  const auto [end, fault] =
      std::from_chars(number.data(), number.data() + number.size(), assignment.value);
  const bool parsed =
      !number.empty() && fault == std::errc{} && end == number.data() + number.size();
  if (!parsed || !std::isfinite(assignment.value)) {
    return usage_error("{} is \"{}\"; give NAME=NUMBER", option, text);
  }
  return assignment;
}

// The same number given twice has no meaning that all would agree on.
Result<> refuse_repeats(std::string_view option, const std::vector<std::string>& texts) {
  std::vector<std::string> keys;
  for (const std::string& text : texts) {
    std::string key = text.substr(0, text.find('='));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return usage_error("{} gives {} twice", option, key);
    }
    keys.push_back(std::move(key));
  }
  return {};
}

Result<> apply_peaks(const Arguments& arguments, MachineSpec& machine) {
  for (const char* option : {"--peak", "--set"}) {
    NIBBLE_RETURN_IF_ERROR(refuse_repeats(option, arguments.all(option)));
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<PeakIs> is, peak_is_from(arguments));
  for (const std::string& text : arguments.all("--peak")) {
    NIBBLE_ASSIGN_OR_RETURN(const Assignment peak, parse_assignment("--peak", text));
    const std::optional<Precision> precision = precision_from_string(peak.key);
    if (!precision) {
      return usage_error("--peak names \"{}\"; the precisions are fp4, fp8, bf16, int8 and fp32",
                         peak.key);
    }
    NIBBLE_RETURN_IF_ERROR(
        set_peak(machine, *precision, peak.value, is.value_or(PeakIs::kDense), false, "--peak"));
  }
  for (const std::string& text : arguments.all("--set")) {
    NIBBLE_ASSIGN_OR_RETURN(const Assignment number, parse_assignment("--set", text));
    NIBBLE_RETURN_IF_ERROR(set_number(machine, number.key, number.value));
  }
  return {};
}

Result<> apply_link(const Arguments& arguments, Deployment& deployment) {
  const std::optional<std::string> name = arguments.text("--link");
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<double> latency,
                          arguments.number("--link-latency-us", 0, 1e6));
  if (!name && !latency) return {};
  LinkSpeed link = deployment.effective_link();
  if (name) {
    double bandwidth = 0;
    const auto [end, fault] = std::from_chars(name->data(), name->data() + name->size(), bandwidth);
    if (fault == std::errc{} && end == name->data() + name->size()) {
      if (!(bandwidth > 0 && bandwidth <= kMostLinkGbS)) {
        return usage_error("--link is \"{}\"; give more than 0 and at most {} GB/s", *name,
                           kMostLinkGbS);
      }
      link.bandwidth_gb_s = bandwidth;
    } else {
      std::vector<std::string> names;
      const Link* found = nullptr;
      for (const Link& candidate : deployment.machine.links) {
        names.push_back(candidate.name);
        if (candidate.name == *name) found = &candidate;
      }
      if (found == nullptr) {
        return usage_error(
            "--link is \"{}\"; give GB/s per direction, or one of the links of {}: {}", *name,
            deployment.machine.name, names.empty() ? "(none known)" : join(names, ", "));
      }
      link = {found->bandwidth_gb_s.value, found->latency_us.value};
    }
  }
  if (latency) link.latency_us = *latency;
  deployment.link = link;
  return {};
}

Result<> apply_formats(const Arguments& arguments, Deployment& deployment) {
  if (const auto text = arguments.text("--kv-format")) {
    deployment.kv_format = format_from_string(*text);
    if (!deployment.kv_format)
      return usage_error("--kv-format is \"{}\", which is no number format", *text);
  }
  if (const auto text = arguments.text("--activations")) {
    deployment.activations = format_from_string(*text);
    if (!deployment.activations)
      return usage_error("--activations is \"{}\", which is no number format", *text);
  }
  return {};
}

}  // namespace

std::vector<OptionDef> deployment_options() {
  std::vector<OptionDef> options = subject_options();
  for (const std::vector<OptionDef>& group :
       {layout_options(), load_options(), machine_options()}) {
    options.insert(options.end(), group.begin(), group.end());
  }
  return options;
}

std::vector<std::string> flags_that_a_case_replaces() {
  std::vector<std::string> names;
  for (const OptionDef& option : subject_options()) names.push_back(option.name);
  for (const OptionDef& option : layout_options()) names.push_back(option.name);
  return names;
}

Result<std::optional<PeakIs>> peak_is_from(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.text("--peak-is");
  if (!text) return std::optional<PeakIs>();
  return std::optional<PeakIs>(*text == "dense" ? PeakIs::kDense : PeakIs::kSparse);
}

Result<> apply_overrides(const Arguments& arguments, Deployment& deployment) {
  NIBBLE_RETURN_IF_ERROR(apply_peaks(arguments, deployment.machine));
  NIBBLE_RETURN_IF_ERROR(apply_link(arguments, deployment));
  NIBBLE_RETURN_IF_ERROR(apply_formats(arguments, deployment));
  if (const auto text = arguments.text("--routing")) {
    NIBBLE_ASSIGN_OR_RETURN(deployment.routing, Routing::parse(*text));
  }
  if (const auto text = arguments.text("--all-reduce")) {
    const std::optional<AllReduce> algorithm = all_reduce_from_string(*text);
    if (!algorithm) return usage_error("--all-reduce is \"{}\", which is no algorithm", *text);
    deployment.all_reduce = *algorithm;
  }
  if (const auto text = arguments.text("--tile")) {
    NIBBLE_ASSIGN_OR_RETURN(deployment.tile, parse_tile(*text));
  }
  NIBBLE_ASSIGN_OR_RETURN(const auto context, arguments.integer("--context", 1, 100'000'000));
  if (context) deployment.context = static_cast<double>(*context);
  NIBBLE_ASSIGN_OR_RETURN(const auto drafts, arguments.integer("--draft-tokens", 0, 64));
  if (drafts) deployment.draft_tokens = *drafts;
  NIBBLE_ASSIGN_OR_RETURN(const auto efficiency,
                          arguments.number("--bandwidth-efficiency", 0.01, 1));
  if (efficiency) deployment.bandwidth_efficiency = *efficiency;
  NIBBLE_ASSIGN_OR_RETURN(const auto utilization,
                          arguments.number("--memory-utilization", 0.01, 1));
  if (utilization) deployment.memory_utilization = *utilization;
  NIBBLE_ASSIGN_OR_RETURN(deployment.launch_gap_us, arguments.number("--launch-gap-us", 0, 1e6));
  return {};
}

Result<Deployment> deployment_from(const Arguments& arguments) {
  for (const char* required : {"--model", "--machine"}) {
    if (!arguments.has(required)) {
      return usage_error(
          "{} is missing; name one, as --model glm-5-nvfp4 --machine rtx-pro-6000-server",
          required);
    }
  }
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(*arguments.text("--model")));
  NIBBLE_ASSIGN_OR_RETURN(deployment.machine, load_machine(*arguments.text("--machine")));
  if (arguments.has("--peak-is") && !arguments.has("--peak")) {
    return usage_error(
        "--peak-is says how a quoted peak is meant; quote one with --peak, or give a --case");
  }
  ParallelLayout& layout = deployment.layout;
  struct Flag {
    const char* name;
    std::int64_t* target;
  };
  for (const Flag& flag :
       {Flag{"--tp", &layout.tp}, Flag{"--pp", &layout.pp}, Flag{"--ep", &layout.ep},
        Flag{"--dp", &layout.dp}, Flag{"--pp-microbatches", &layout.microbatches}}) {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.integer(flag.name, 1, kMostRanks));
    if (value) *flag.target = *value;
  }
  layout.dp_attention = arguments.has("--dp-attention");
  NIBBLE_RETURN_IF_ERROR(apply_overrides(arguments, deployment));
  return deployment;
}

Result<ParallelLayout> parse_layout(std::string_view text) {
  ParallelLayout layout;
  const std::vector<std::string> parts = split(text, ',');
  NIBBLE_RETURN_IF_ERROR(refuse_repeats("--compare", parts));
  for (const std::string& part : parts) {
    if (part == "dp-attention") {
      layout.dp_attention = true;
      continue;
    }
    NIBBLE_ASSIGN_OR_RETURN(const Assignment assignment, parse_assignment("--compare", part));
    const bool whole =
        assignment.value >= 1 && assignment.value <= kMostRanks &&
        assignment.value == static_cast<double>(static_cast<std::int64_t>(assignment.value));
    std::int64_t* target = assignment.key == "tp"             ? &layout.tp
                           : assignment.key == "pp"           ? &layout.pp
                           : assignment.key == "ep"           ? &layout.ep
                           : assignment.key == "dp"           ? &layout.dp
                           : assignment.key == "microbatches" ? &layout.microbatches
                                                              : nullptr;
    if (target == nullptr || !whole) {
      return usage_error(
          "--compare is \"{}\"; write it as tp=4,pp=2 or tp=8,ep=8,dp-attention (tp, pp, dp, ep, "
          "microbatches with whole numbers of at least 1)",
          text);
    }
    *target = static_cast<std::int64_t>(assignment.value);
  }
  return layout;
}

}  // namespace nibble::cli
