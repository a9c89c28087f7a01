// What the HTML and the Markdown report share: the numbers of a chart as a table, words for a
// finding.
//
//   html += html_table(chart_table(chart), chart.title);
#pragma once

#include <string>
#include <string_view>

#include "base/finding.h"
#include "base/table.h"
#include "report/document.h"

namespace nibble {

// One row a point and one a band, the axes' titles as headings; or the chart's own numbers. Columns
// that no point fills are left out.
Table chart_table(const Chart& chart);

// What is to be seen in a chart, in words with numbers, for who cannot see it: its title, caption,
// what each series does and where the bands lie.
std::string chart_words(const Chart& chart);

// "54.9 FLOP/B", "memory", both ("54.9 FLOP/B, memory"), or why there is no value.
std::string finding_answer(const Finding& finding);

// What a reader may make of a finding of this confidence.
std::string_view confidence_sentence(Confidence confidence);

}  // namespace nibble
