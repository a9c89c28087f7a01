// Where each number of a finding comes from.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

std::string case_source(std::string_view path) {
  return fmt::format("case: {}", path);
}

// Numbers that the case or a flag has set say so in their source; the others are the catalog's.
std::string source_of(const Sourced& number, std::string_view machine) {
  const bool replaced =
      number.provenance == Provenance::kGiven || number.source.find("case: ") != std::string::npos;
  return replaced ? number.source : fmt::format("catalog: {}", machine);
}

}  // namespace

void Scene::conclude(Draft draft) {
  Finding finding;
  finding.id = std::move(draft.id);
  finding.point = draft.point;
  finding.title = std::move(draft.title);
  finding.value = draft.value;
  finding.unit = std::move(draft.unit);
  finding.verdict = std::move(draft.verdict);
  finding.formula = std::move(draft.formula);
  finding.inputs = std::move(draft.inputs);
  finding.assumptions = std::move(draft.assumptions);
  finding.confidence = draft.confidence;
  finding.sentence = std::move(draft.sentence);
  analysis.findings.push_back(std::move(finding));
}

void Scene::cannot_say(std::string id, int point, std::string title, std::string reason) {
  std::string sentence = fmt::format("{}: not answered, because {}.", title, reason);
  conclude({.id = std::move(id),
            .point = point,
            .title = std::move(title),
            .sentence = std::move(sentence)});
  analysis.findings.back().missing = std::move(reason);
}

void Scene::lacks(std::string signal) {
  for (const std::string& known : analysis.missing_signals) {
    if (known == signal) return;
  }
  analysis.missing_signals.push_back(std::move(signal));
}

Inputs& Inputs::add(std::string name, double value, std::string unit, std::string source) {
  list_.push_back({std::move(name), value, std::move(unit), std::move(source)});
  return *this;
}

Inputs& Inputs::given(std::string name, double value, std::string unit,
                      std::string_view case_path) {
  return add(std::move(name), value, std::move(unit), case_source(case_path));
}

Inputs& Inputs::number(std::string name, const Sourced& number, std::string unit) {
  return add(std::move(name), number.value, std::move(unit),
             source_of(number, scene_.machine().name));
}

Inputs& Inputs::shape(const MeasuredKernel& kernel) {
  given("M", kernel.m.value_or(0), "rows", kernel.path + ".m");
  given("N", kernel.n.value_or(0), "columns", kernel.path + ".n");
  return given("K", kernel.k.value_or(0), "elements", kernel.path + ".k");
}

Inputs& Inputs::timing(const MeasuredKernel& kernel) {
  if (kernel.tflops) return given("rate", *kernel.tflops, "TFLOPS", kernel.path + ".tflops");
  return given("time", kernel.time_us.value_or(0), "us", kernel.path + ".time_us");
}

Inputs& Inputs::bandwidth() {
  return number("bandwidth", scene_.machine().bandwidth_gb_s, "GB/s");
}

Inputs& Inputs::peak(Precision precision) {
  const Peak* peak = scene_.machine().peak(precision);
  if (peak == nullptr) return *this;
  return number(fmt::format("peak_{}", to_string(precision)), peak->dense_tflops, "TFLOPS");
}

Inputs& Inputs::sms() {
  if (!scene_.machine().sms) return *this;
  return number("SMs", *scene_.machine().sms, "");
}

Inputs& Inputs::model_number(std::string name, double value,
                             const std::optional<std::int64_t>& given, std::string_view path) {
  return add(std::move(name), value, "",
             given ? case_source(path) : fmt::format("catalog: {}", scene_.model().name));
}

Inputs& Inputs::experts() {
  if (!scene_.model().moe) return *this;
  const MoeSpec& moe = *scene_.model().moe;
  model_number("experts", static_cast<double>(moe.experts), scene_.found.experts, "model.experts");
  return model_number("top_k", static_cast<double>(moe.top_k), scene_.found.experts_per_token,
                      "model.experts_per_token");
}

Inputs& Inputs::expert_sizes() {
  model_number("hidden", static_cast<double>(scene_.model().hidden), scene_.found.hidden,
               "model.hidden");
  if (!scene_.model().moe) return *this;
  return model_number("intermediate", static_cast<double>(scene_.model().moe->intermediate),
                      scene_.found.moe_intermediate, "model.moe_intermediate");
}

Inputs& Inputs::layers() {
  return model_number("layers", static_cast<double>(scene_.model().layers.size()),
                      scene_.found.layers, "model.layers");
}

Inputs& Inputs::layout() {
  const ParallelLayout& layout = scene_.deployment().layout;
  const bool stated = scene_.found.layout_stated;
  const auto part = [&](const char* name, std::int64_t size) {
    const std::string source = stated ? case_source(fmt::format("server.layout.{}", name))
                                      : "assumed: TP over machine.gpus (case: machine.gpus)";
    add(name, static_cast<double>(size), "GPUs", source);
  };
  part("tp", layout.tp);
  part("pp", layout.pp);
  if (layout.dp > 1) part("dp", layout.dp);
  if (layout.ep > 1) part("ep", layout.ep);
  if (layout.microbatches > 0) part("microbatches", layout.microbatches);
  return *this;
}

Inputs& Inputs::link() {
  if (scene_.deployment().layout.gpus() <= 1) return *this;
  const LinkSpeed link = scene_.deployment().effective_link();
  const auto source = [&](const std::optional<double>& given, double used, std::string_view path) {
    if (given && *given == used) return case_source(path);
    if (scene_.deployment().link) return std::string("a flag");
    return fmt::format("catalog: {}", scene_.machine().name);
  };
  add("link", link.bandwidth_gb_s, "GB/s",
      source(scene_.found.link_gb_s, link.bandwidth_gb_s, "machine.link_gb_s"));
  return add("hop", link.latency_us, "us",
             source(scene_.found.link_latency_us, link.latency_us, "machine.link_latency_us"));
}

Inputs& Inputs::memory() {
  return number("memory", scene_.machine().memory_gb, "GB");
}

Inputs& Inputs::cap() {
  if (!scene_.found.max_running_requests) return *this;
  return given("max_running_requests", static_cast<double>(*scene_.found.max_running_requests),
               "requests", "server.max_running_requests");
}

Inputs& Inputs::lengths() {
  if (scene_.found.input_len) {
    given("input_len", *scene_.found.input_len, "tokens", "load.input_len");
  }
  if (scene_.found.output_len) {
    given("output_len", *scene_.found.output_len, "tokens", "load.output_len");
  }
  return *this;
}

Inputs& Inputs::concurrency(const MeasuredLevel& level) {
  return given("concurrency", level.concurrency, "requests", level.path + ".concurrency");
}

Inputs& Inputs::rate(const MeasuredLevel& level) {
  if (level.output_tok_s) {
    return given("output_rate", *level.output_tok_s, "tok/s", level.path + ".output_tok_s");
  }
  if (!level.total_tok_s) return *this;
  given("total_rate", *level.total_tok_s, "tok/s", level.path + ".total_tok_s");
  return lengths();
}

Inputs& Inputs::deployment() {
  experts().expert_sizes().layers().bandwidth().layout().link();
  for (const auto& [precision, peak] : scene_.machine().peaks) {
    if (precision != Precision::kInt8 && precision != Precision::kFp32) {
      number(fmt::format("peak_{}", to_string(precision)), peak.dense_tflops, "TFLOPS");
    }
  }
  return *this;
}

std::string kernel_slug(const MeasuredKernel& kernel) {
  if (!has_shape(kernel)) {
    std::string words;
    for (const char c : kernel.shape) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      words += plain ? c : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : '_';
    }
    return fmt::format("{}.{}", to_string(kernel.format), words.empty() ? "unstated" : words);
  }
  return fmt::format("{}.{}x{}x{}", to_string(kernel.format), *kernel.m, *kernel.n, *kernel.k);
}

std::string level_slug(double concurrency) {
  return fmt::format("{}", concurrency);
}

std::string percent_text(double ratio) {
  return format_percent(ratio);
}

std::string times_text(double ratio) {
  return fmt::format("{} x", format_number(ratio, 3));
}

std::string counted(double count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

bool has_shape(const MeasuredKernel& kernel) {
  return kernel.m && kernel.n && kernel.k;
}

std::optional<double> output_rate(const Case& found, const std::optional<double>& output,
                                  const std::optional<double>& total) {
  if (output) return output;
  if (!total || !found.input_len || !found.output_len) return std::nullopt;
  return *total * *found.output_len / (*found.input_len + *found.output_len);
}

double running(const Case& found, double concurrency) {
  if (!found.max_running_requests) return concurrency;
  return std::min(concurrency, static_cast<double>(*found.max_running_requests));
}

std::optional<double> mean_context(const Case& found) {
  if (!found.input_len || !found.output_len) return std::nullopt;
  return *found.input_len + *found.output_len / 2;
}

}  // namespace nibble
