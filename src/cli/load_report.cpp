#include "cli/load_report.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/load_charts.h"

namespace nibble::cli {
namespace {

using load::LevelResult;
using load::RunReport;

std::string dataset_fact(const load::RunSetup& setup) {
  std::string text = setup.dataset.empty() ? "not named" : setup.dataset;
  for (const auto& [name, value] : setup.dataset_options) {
    text += fmt::format(", {} {}", name, value.is_string() ? value.as_string() : value.dump(0));
  }
  return text + (setup.ignore_eos ? "; ignore_eos" : "; answers may end early");
}

std::string levels_fact(const RunReport& report) {
  std::vector<std::string> names;
  for (const LevelResult& level : report.levels) {
    names.push_back(load::level_name(level.report.plan));
  }
  return names.empty() ? "none" : join(names, ", ");
}

void add_facts(Document& document, const RunReport& report) {
  const load::RunSetup& setup = report.setup;
  const auto add = [&document](const char* name, const std::string& value) {
    if (!value.empty()) document.facts.emplace_back(name, value);
  };
  add("Server", setup.base_url + setup.endpoint);
  add("Model", setup.model_id);
  add("Tokenizer", setup.tokenizer_id);
  add("Backend", setup.backend);
  add("Prompts", dataset_fact(setup));
  add("Levels", levels_fact(report));
  add("Started", setup.started_utc);
  add("Label", setup.label);
  for (const auto& [name, value] : setup.metadata) document.facts.emplace_back(name, value);
}

// A sweep as a table and what to know of it; a single level as vLLM prints it.
Section summary_section(const RunReport& report) {
  Section section{.heading = "What was measured"};
  section.bullets = load::sentences(report);
  if (!section.bullets.empty()) {
    section.paragraphs.push_back(section.bullets.front());
    section.bullets.erase(section.bullets.begin());
  }
  if (report.levels.size() == 1) {
    section.tables.emplace_back("", load::level_table(report.levels.front()));
  } else if (!report.levels.empty()) {
    section.tables.emplace_back(
        "Rates and what was seen beside are of the steady window of each "
        "level, latencies too where it is long enough; means, but for the "
        "percentile, which is that of TTFT.",
        load::sweep_table(report));
  }
  return section;
}

Section fit_section(const load::StepFit& fit, const std::string& note) {
  Section section{.heading = "What a step is made of"};
  section.paragraphs.push_back(
      "TPOT = t0 + a E[D(B)]/E + b B S + c B, in ms: B sequences decode together, S tokens are in "
      "the cache of each, D(B) of E experts are touched. t0 is what a step takes whatever the "
      "batch, a the reading of all routed experts, b that of the cache, c the work per sequence.");
  if (!note.empty()) section.paragraphs.push_back("Roofs: " + note + ".");
  if (!fit.valid()) {
    section.bullets.push_back("no fit: " + fit.reason);
    return section;
  }
  Table table({{"term"},
               {"ms", Align::kRight},
               {"95 %", Align::kRight},
               {"roof, ms", Align::kRight},
               {"over the roof", Align::kRight},
               {"why not"}});
  for (const load::FittedTerm& term : fit.terms) {
    const auto number = [](const std::optional<double>& value) {
      return value ? format_number(*value, 3) : std::string("-");
    };
    const auto& i = term.interval;
    table.row({std::string(load::to_string(term.term)), number(term.value),
               i ? number(i->low) + " to " + number(i->high) : "-", number(term.roof),
               term.over_roof ? number(term.over_roof) + " x" : "-", term.reason});
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

Section levels_section(const RunReport& report) {
  Section section{.heading = "Every level"};
  section.tables.emplace_back(
      "Counts of the whole level, rates of the steady window where there is one, latencies of it "
      "where it is long enough. Both of every level are in report.json.",
      load::levels_table(report));
  return section;
}

// Of what the page shows.
constexpr std::string_view kDefined[] = {"ttft",
                                         "tpot",
                                         "itl",
                                         "e2el",
                                         "output_throughput",
                                         "request_throughput",
                                         "request_goodput",
                                         "max_output_tokens_per_s",
                                         "ci"};

Section definitions_section(const RunReport& report, const Json& document) {
  Section section{.heading = "What the numbers mean"};
  const Json& definitions = *document.find("definitions");
  Table table({{"number"}, {"what it is"}});
  const auto add = [&](std::string_view name) {
    const Json* sentence = definitions.find(name);
    if (sentence != nullptr) table.row({std::string(name), sentence->as_string()});
  };
  for (const std::string_view name : kDefined) {
    const bool limits = report.levels.empty() || report.levels.front().report.all.goodput;
    if (name != "request_goodput" || limits) add(name);
  }
  for (const load::SeenInfo& info : load::seen_infos()) {
    const bool seen = std::any_of(
        report.levels.begin(), report.levels.end(),
        [&info](const LevelResult& level) { return level.joined[info.seen].value.has_value(); });
    if (seen) add(info.name);
  }
  section.tables.emplace_back(
      "Names are those of report.json, which are vLLM's where vLLM has the number; its "
      "\"definitions\" are of all of them.",
      std::move(table));
  return section;
}

void add_charts(Document& document, const char* heading, std::vector<Chart> charts) {
  if (charts.empty()) return;
  document.sections.push_back({.heading = heading, .charts = std::move(charts)});
}

}  // namespace

Document load_document(const RunReport& report) {
  Document document;
  document.data = load::to_json(report);
  const std::string& model = report.setup.model_id;
  document.title = "Load test" + (model.empty() ? "" : " of " + model);
  const Json* why = document.data.find("incomplete_reason");
  if (why != nullptr && why->is_string()) {
    document.subtitle = "Only a part of what was asked: " + why->as_string() + ".";
  }
  add_facts(document, report);
  document.sections.push_back(summary_section(report));
  LoadCharts charts = load_charts(report);
  add_charts(document, "Throughput", std::move(charts.throughput));
  add_charts(document, "Latency", std::move(charts.latency));
  add_charts(document, "Server and machine", std::move(charts.machine));
  if (report.step_fit) {
    document.sections.push_back(fit_section(*report.step_fit, report.step_note));
  }
  if (report.levels.size() > 1) document.sections.push_back(levels_section(report));
  document.sections.push_back(definitions_section(report, document.data));
  document.command = report.setup.command;
  return document;
}

}  // namespace nibble::cli
