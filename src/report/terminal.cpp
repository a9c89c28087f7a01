#include "report/terminal.h"

#include <algorithm>
#include <fmt/core.h>
#include <vector>

#include "base/text.h"
#include "report/clean.h"

namespace nibble {
namespace {

constexpr std::size_t kBulletIndent = 2;

// "label  text", the text's further lines under its first.
std::string labelled(const Style& style, std::string_view label, std::string_view text,
                     std::size_t width) {
  const std::size_t padding = width - std::min(width, display_width(label));
  return fmt::format("{}{}  {}\n", style.faint(label), std::string(padding, ' '),
                     style.wrap(text, width + 2));
}

std::string bullet(const Style& style, std::string_view mark, std::string_view text) {
  const std::size_t indent = std::max(kBulletIndent, display_width(mark) + 1);
  return fmt::format("{}{}{}\n", mark, std::string(indent - display_width(mark), ' '),
                     style.wrap(text, indent));
}

std::string render_finding(const Finding& finding, const Style& style) {
  // The point's number is how people quote a finding of a case.
  const std::string mark = finding.point > 0 ? fmt::format("{:>2}.", finding.point) : "-";
  // A sentence that opens with the title needs no title before it.
  const bool titled = to_lower(finding.sentence).starts_with(to_lower(finding.title));
  if (titled) return bullet(style, mark, finding.sentence);
  std::string line = bullet(style, mark, fmt::format("{}: {}", finding.title, finding.sentence));
  const std::size_t at = line.find(finding.title + ":");
  if (!style.colour || at == std::string::npos) return line;
  return line.replace(at, finding.title.size() + 1, style.strong(finding.title + ":"));
}

std::string render_findings(const std::vector<Finding>& findings, const Style& style) {
  std::string out;
  std::size_t details = 0;
  for (const Finding& finding : findings) {
    if (finding.headline) {
      out += render_finding(finding, style);
    } else {
      ++details;
    }
  }
  if (details > 0) {
    const std::string note =
        fmt::format("{} more findings behind these are in --json and in a --report.", details);
    out += style.faint(style.wrap(note, 0)) + "\n";
  }
  return out;
}

std::string render_section(const Section& section, const Style& style) {
  std::string out = "\n" + style.heading(section.heading) + "\n";
  for (const std::string& paragraph : section.paragraphs) out += style.wrap(paragraph, 0) + "\n";
  for (const auto& [caption, table] : section.tables) {
    if (!caption.empty()) out += style.faint(style.wrap(caption, 0)) + "\n";
    out += table.render(style);
  }
  out += render_findings(section.findings, style);
  for (const std::string& text : section.bullets) out += bullet(style, "-", text);
  for (const BulletList& list : section.lists) {
    if (!list.heading.empty()) out += style.strong(style.wrap(list.heading, 0)) + "\n";
    for (const std::string& text : list.bullets) out += bullet(style, "-", text);
  }
  return out;
}

}  // namespace

std::string render_terminal(const Document& raw, const Style& style) {
  const Document document = cleaned(raw);
  std::string out = style.strong(style.wrap(document.title, 0)) + "\n";
  if (!document.subtitle.empty()) out += style.wrap(document.subtitle, 0) + "\n";
  for (const std::string& sentence : document.lead) out += style.wrap(sentence, 0) + "\n";
  std::size_t width = 0;
  for (const auto& [label, text] : document.facts) width = std::max(width, display_width(label));
  for (const auto& [label, text] : document.facts) out += labelled(style, label, text, width);
  std::vector<std::string> left_out;
  for (const Section& section : document.sections) {
    if (section.detail) {
      left_out.push_back(section.heading);
    } else {
      out += render_section(section, style);
    }
  }
  if (!left_out.empty()) {
    out += "\n" + style.faint(style.wrap("Also in a --report: " + join(left_out, "; ") + ".", 0)) +
           "\n";
  }
  return out;
}

}  // namespace nibble
