#include <fmt/core.h>

#include "base/units.h"
#include "report/clean.h"
#include "report/document.h"
#include "report/escape.h"
#include "report/parts.h"

namespace nibble {
namespace {

std::string captioned_table(const std::string& caption, const Table& table) {
  const std::string title =
      caption.empty() ? "" : fmt::format("**{}**\n\n", markdown_escape(caption));
  return title + table.render_markdown() + "\n";
}

std::string chart_text(const Chart& chart) {
  std::string text = fmt::format("### {}\n\n", markdown_escape(chart.title));
  if (!chart.caption.empty()) text += markdown_escape(chart.caption) + "\n\n";
  return text + captioned_table("", chart_table(chart));
}

std::string finding_inputs(const Finding& finding) {
  std::string text;
  for (const FindingInput& input : finding.inputs) {
    text += fmt::format("  - {} = {}", markdown_code(input.name),
                        markdown_escape(format_quantity(input.value, input.unit)));
    if (!input.source.empty()) text += fmt::format(" ({})", markdown_escape(input.source));
    text += '\n';
  }
  return text;
}

std::string finding_text(const Finding& finding) {
  std::string text = fmt::format("#### {}\n\n", markdown_escape(finding.title));
  if (!finding.sentence.empty()) text += markdown_escape(finding.sentence) + "\n\n";
  const std::string answer = finding_answer(finding);
  if (!answer.empty()) text += fmt::format("- Value: {}\n", markdown_escape(answer));
  if (!finding.formula.empty())
    text += fmt::format("- Formula: {}\n", markdown_code(finding.formula));
  if (!finding.inputs.empty()) text += "- Inputs:\n" + finding_inputs(finding);
  for (const std::string& assumption : finding.assumptions) {
    text += fmt::format("- Assumes: {}\n", markdown_escape(assumption));
  }
  text += fmt::format("- Confidence: {} ({})\n\n", to_string(finding.confidence),
                      confidence_sentence(finding.confidence));
  return text;
}

std::string section_text(const Section& section) {
  std::string text;
  if (!section.heading.empty()) text += fmt::format("## {}\n\n", markdown_escape(section.heading));
  for (const std::string& paragraph : section.paragraphs) {
    text += markdown_escape(paragraph) + "\n\n";
  }
  for (const Chart& one : section.charts) text += chart_text(one);
  for (const auto& [caption, table] : section.tables) text += captioned_table(caption, table);
  for (const Finding& one : section.findings) text += finding_text(one);
  for (const std::string& bullet : section.bullets) {
    text += fmt::format("- {}\n", markdown_escape(bullet));
  }
  if (!section.bullets.empty()) text += '\n';
  for (const BulletList& list : section.lists) {
    if (!list.heading.empty()) text += fmt::format("### {}\n\n", markdown_escape(list.heading));
    for (const std::string& bullet : list.bullets) {
      text += fmt::format("- {}\n", markdown_escape(bullet));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string render_markdown(const Document& raw) {
  const Document document = cleaned(raw);
  std::string text = fmt::format("# {}\n\n", markdown_escape(document.title));
  if (!document.subtitle.empty()) text += markdown_escape(document.subtitle) + "\n\n";
  for (const std::string& sentence : document.lead) text += markdown_escape(sentence) + "\n\n";
  for (const auto& [name, value] : document.facts) {
    text += fmt::format("- **{}**: {}\n", markdown_escape(name), markdown_escape(value));
  }
  if (!document.facts.empty()) text += '\n';
  for (const Section& one : document.sections) text += section_text(one);
  if (!document.command.empty()) {
    text += fmt::format("Made by {}\n", markdown_code(document.command));
  }
  return text;
}

}  // namespace nibble
