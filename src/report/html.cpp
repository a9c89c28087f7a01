#include <algorithm>
#include <cctype>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/embedded.h"
#include "base/units.h"
#include "report/clean.h"
#include "report/document.h"
#include "report/escape.h"
#include "report/parts.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> report_assets();
std::span<const EmbeddedFile> report_chart_js();
}  // namespace nibble::embedded

namespace nibble {
namespace {

// The page may run its own inlined style and script, and reach nothing else.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'";

std::string_view asset(std::span<const EmbeddedFile> files, std::string_view name) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const EmbeddedFile& file) { return file.name == name; });
  NIBBLE_CHECK(found != files.end());
  return found->text;
}

std::string script(std::string_view text) {
  return fmt::format("<script>\n{}\n</script>\n", text);
}

// "<p class="faint">text</p>", or nothing for an empty text.
std::string element(std::string_view tag, std::string_view css_class, std::string_view text) {
  if (text.empty()) return "";
  const std::string attribute = css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class);
  return fmt::format("<{0}{1}>{2}</{0}>\n", tag, attribute, html_escape(text));
}

// As element(), with "--max-num-seqs" on one line: browsers break behind its hyphens.
std::string prose_html(std::string_view tag, std::string_view css_class, std::string_view text) {
  constexpr std::size_t kLongestFlag = 40;  // longer ones would be wider than a phone
  std::string html = element(tag, css_class, text);
  for (std::size_t at = html.find(" --"); at != std::string::npos; at = html.find(" --", at)) {
    const std::size_t start = at + 1;
    const auto end_of = [&html](std::size_t from) {
      while (from < html.size() && (std::isalnum(static_cast<unsigned char>(html[from])) != 0 ||
                                    html[from] == '-' || html[from] == '_')) {
        ++from;
      }
      return from;
    };
    const std::size_t length = end_of(start) - start;
    at = start + length;
    if (length < 4 || length > kLongestFlag) continue;
    const std::string flag =
        fmt::format("<span class=\"flag\">{}</span>", html.substr(start, length));
    html.replace(start, length, flag);
    at = start + flag.size();
  }
  return html;
}

std::string_view emphasis_class(Emphasis emphasis) {
  switch (emphasis) {
    case Emphasis::kNone:
      return "";
    case Emphasis::kStrong:
      return "strong";
    case Emphasis::kGood:
      return "good";
    case Emphasis::kWarning:
      return "warning";
    case Emphasis::kBad:
      return "bad";
    case Emphasis::kFaint:
      return "faint";
  }
  NIBBLE_CHECK(false);
  return "";
}

std::string cell_html(std::string_view tag, const std::string& text, Align align,
                      Emphasis emphasis) {
  std::string classes(emphasis_class(emphasis));
  if (align == Align::kRight) classes += classes.empty() ? "right" : " right";
  const std::string attribute = classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
  return fmt::format("<{0}{1}>{2}</{0}>", tag, attribute, html_escape(text));
}

// A table in a box of its own that scrolls sideways where the screen is narrower. Rules between
// rows become groups of rows.
std::string table_html(const Table& table, const std::string& name) {
  std::string html = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table><thead><tr>",
      html_escape(name));
  for (const Column& column : table.columns()) {
    html += cell_html("th", column.title, column.align, Emphasis::kNone);
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows()) {
    if (row.empty()) {
      html += "</tbody>\n<tbody>\n";
      continue;
    }
    html += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column) {
      html +=
          cell_html("td", row[column].text, table.columns()[column].align, row[column].emphasis);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// The canvas is drawn by assets/report.js, from the JSON block, by the chart's id.
std::string chart_html(const Chart& chart) {
  std::string html =
      fmt::format("<figure class=\"chart{}\" data-chart=\"{}\">\n<div class=\"keep\">\n",
                  chart.small ? " small" : "", html_escape(chart.id));
  html += "<figcaption>\n" + element("h3", "", chart.title) + element("p", "", chart.caption) +
          "</figcaption>\n";
  html += fmt::format(
      "<div class=\"legend\"></div>\n<div class=\"plot\"><canvas role=\"img\" aria-label=\"{}\">"
      "</canvas></div>\n</div>\n",
      html_escape(chart_words(chart)));
  html += "<details><summary>Numbers of this chart</summary>\n" +
          table_html(chart_table(chart), "Numbers of " + chart.title) + "</details>\n";
  return html + "</figure>\n";
}

std::string captioned_table_html(const std::string& caption, const Table& table) {
  return fmt::format("<figure class=\"table\">\n{}{}</figure>\n",
                     element("figcaption", "", caption), table_html(table, caption));
}

std::string finding_grounds_html(const Finding& finding) {
  std::string html;
  if (!finding.formula.empty()) {
    html += fmt::format("<p class=\"formula\"><code>{}</code></p>\n", html_escape(finding.formula));
  }
  if (!finding.inputs.empty()) {
    Table inputs({{"Input"}, {"Value", Align::kRight}, {"From"}});
    for (const FindingInput& input : finding.inputs) {
      inputs.row({input.name, format_quantity(input.value, input.unit), input.source});
    }
    html += table_html(inputs, "Inputs of " + finding.title);
  }
  if (!finding.assumptions.empty()) {
    html += "<p class=\"label\">Assumes</p>\n<ul>\n";
    for (const std::string& assumption : finding.assumptions) {
      html += element("li", "", assumption);
    }
    html += "</ul>\n";
  }
  html += fmt::format("<p class=\"label\">Confidence</p>\n<p>{}: {}</p>\n",
                      html_escape(to_string(finding.confidence)),
                      confidence_sentence(finding.confidence));
  return html;
}

std::string finding_html(const Finding& finding) {
  const std::string answer = finding_answer(finding);
  const bool no_value = !finding.value && !finding.missing.empty();
  std::string html =
      fmt::format("<article class=\"finding\" data-finding=\"{}\">\n", html_escape(finding.id));
  html += element("p", "sentence", finding.sentence.empty() ? finding.title : finding.sentence);
  const std::string title =
      finding.point > 0 ? fmt::format("{}. {}", finding.point, finding.title) : finding.title;
  html += "<p class=\"meta\">\n" + element("span", "title", title) +
          element("span", no_value ? "answer missing" : "answer", answer);
  if (finding.confidence != Confidence::kDerived) {
    html += element("span", "confidence", to_string(finding.confidence));
  }
  html += "</p>\n<details><summary>How this is known</summary>\n" + finding_grounds_html(finding) +
          "</details>\n";
  return html + "</article>\n";
}

std::string cards_html(const std::vector<const Finding*>& findings) {
  if (findings.empty()) return "";
  std::string html = "<div class=\"findings\">\n";
  for (const Finding* finding : findings) html += finding_html(*finding);
  return html + "</div>\n";
}

// Headlines are in sight; the detail behind them opens on demand (and in print).
std::string findings_html(const std::vector<Finding>& findings) {
  std::vector<const Finding*> headlines;
  std::vector<const Finding*> details;
  for (const Finding& finding : findings)
    (finding.headline ? headlines : details).push_back(&finding);
  std::string html = cards_html(headlines);
  if (details.empty()) return html;
  html += fmt::format("<details class=\"more\"><summary>{} more findings behind these</summary>\n",
                      details.size());
  return html + cards_html(details) + "</details>\n";
}

std::string bullets_html(const std::vector<std::string>& bullets) {
  if (bullets.empty()) return "";
  std::string html = "<ul class=\"prose\">\n";
  for (const std::string& bullet : bullets) html += prose_html("li", "", bullet);
  return html + "</ul>\n";
}

std::string section_html(const Section& section, std::size_t number) {
  std::string html = fmt::format("<section id=\"section-{}\">\n", number);
  html += element("h2", "", section.heading);
  for (const std::string& paragraph : section.paragraphs) {
    html += prose_html("p", "prose", paragraph);
  }
  for (const Chart& chart : section.charts) html += chart_html(chart);
  for (const auto& [caption, table] : section.tables) html += captioned_table_html(caption, table);
  html += findings_html(section.findings);
  html += bullets_html(section.bullets);
  for (const BulletList& list : section.lists) {
    html += "<div class=\"list\">\n" + element("h3", "", list.heading) +
            bullets_html(list.bullets) + "</div>\n";
  }
  return html + "</section>\n";
}

std::string contents_html(const Document& document) {
  constexpr std::size_t kFewestSections = 3;  // fewer are in sight at once
  if (document.sections.size() < kFewestSections) return "";
  std::string html = "<nav aria-label=\"Contents\"><ul>\n";
  for (std::size_t index = 0; index < document.sections.size(); ++index) {
    if (document.sections[index].heading.empty()) continue;
    html += fmt::format("<li><a href=\"#section-{}\">{}</a></li>\n", index + 1,
                        html_escape(document.sections[index].heading));
  }
  return html + "</ul></nav>\n";
}

std::string header_html(const Document& document) {
  std::string html = "<header>\n" + element("h1", "", document.title) +
                     element("p", "subtitle", document.subtitle);
  for (const std::string& sentence : document.lead) html += prose_html("p", "lead", sentence);
  if (!document.facts.empty()) {
    html += "<dl>\n";
    for (const auto& [name, value] : document.facts) {
      html +=
          fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_escape(name), html_escape(value));
    }
    html += "</dl>\n";
  }
  return html + contents_html(document) + "</header>\n";
}

std::string scripts_html(const Document& document) {
  const Json charts = charts_json(document);
  std::string html = fmt::format(
      "<script type=\"application/json\" id=\"nibble-charts\">{}</script>\n", script_json(charts));
  const std::span<const EmbeddedFile> files = embedded::report_assets();
  if (!charts.as_array().empty()) {
    html += script(asset(embedded::report_chart_js(), "chart.min.js"));
    html += script(asset(files, "labels.js"));
    html += script(asset(files, "charts.js"));
  }
  return html + script(asset(files, "report.js"));
}

}  // namespace

std::string render_html(const Document& raw) {
  const Document document = cleaned(raw);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      kPolicy, html_escape(document.title), asset(embedded::report_assets(), "report.css"));
  html += "<body>\n" + header_html(document) + "<main>\n";
  for (std::size_t index = 0; index < document.sections.size(); ++index) {
    html += section_html(document.sections[index], index + 1);
  }
  html += "</main>\n";
  if (!document.command.empty()) {
    html +=
        fmt::format("<footer>Made by <code>{}</code></footer>\n", html_escape(document.command));
  }
  return html + scripts_html(document) + "</body>\n</html>\n";
}

}  // namespace nibble
