#include "report/clean.h"

#include <limits>

#include "base/text.h"

namespace nibble {
namespace {

void clean(std::string& text) {
  text = printable(text, std::numeric_limits<std::size_t>::max());
}

void clean(Finding& finding) {
  for (std::string* text : {&finding.title, &finding.unit, &finding.verdict, &finding.missing,
                            &finding.formula, &finding.sentence}) {
    clean(*text);
  }
  for (FindingInput& input : finding.inputs) {
    clean(input.name);
    clean(input.unit);
    clean(input.source);
  }
  for (std::string& assumption : finding.assumptions) clean(assumption);
}

void clean(Chart& chart) {
  for (std::string* text : {&chart.title, &chart.caption, &chart.x.title, &chart.y.title})
    clean(*text);
  for (ChartSeries& series : chart.series) {
    clean(series.name);
    for (ChartPoint& point : series.points) clean(point.label);
  }
  for (ChartBand& band : chart.bands) clean(band.label);
}

}  // namespace

Document cleaned(const Document& document) {
  Document shown = document;
  for (std::string* text : {&shown.title, &shown.subtitle, &shown.command}) clean(*text);
  for (std::string& sentence : shown.lead) clean(sentence);
  for (auto& [label, text] : shown.facts) {
    clean(label);
    clean(text);
  }
  for (Section& section : shown.sections) {
    clean(section.heading);
    for (std::string& paragraph : section.paragraphs) clean(paragraph);
    for (std::string& bullet : section.bullets) clean(bullet);
    for (BulletList& list : section.lists) {
      clean(list.heading);
      for (std::string& bullet : list.bullets) clean(bullet);
    }
    for (Finding& finding : section.findings) clean(finding);
    for (Chart& chart : section.charts) clean(chart);
    for (auto& [caption, table] : section.tables) clean(caption);  // a table cleans its own cells
  }
  return shown;
}

}  // namespace nibble
