#include "base/table.h"

#include <algorithm>
#include <cstddef>
#include <fmt/core.h>
#include <numeric>

#include "base/check.h"
#include "base/text.h"

namespace nibble {
namespace {

constexpr std::size_t kGap = 2;               // columns of space between two columns
constexpr std::size_t kWidestCell = 100'000;  // cells are shown in full

// Cells come from files too: nothing in them may move the cursor or break the line.
std::string shown(const Cell& cell) {
  return printable(cell.text, kWidestCell);
}

std::string emphasised(const Style& style, Emphasis emphasis, std::string_view text) {
  switch (emphasis) {
    case Emphasis::kNone:
      break;
    case Emphasis::kStrong:
      return style.strong(text);
    case Emphasis::kGood:
      return style.good(text);
    case Emphasis::kWarning:
      return style.warning(text);
    case Emphasis::kBad:
      return style.bad(text);
    case Emphasis::kFaint:
      return style.faint(text);
  }
  return std::string(text);
}

std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (const Column& column : table.columns()) widths.push_back(display_width(column.title));
  for (const std::vector<Cell>& row : table.rows()) {
    for (std::size_t index = 0; index < row.size(); ++index) {
      widths[index] = std::max(widths[index], display_width(shown(row[index])));
    }
  }
  return widths;
}

std::size_t total_width(const std::vector<std::size_t>& widths,
                        const std::vector<std::size_t>& kept) {
  std::size_t total = kept.empty() ? 0 : kGap * (kept.size() - 1);
  for (const std::size_t index : kept) total += widths[index];
  return total;
}

// Indices of the columns that are shown at `width` (0: all), in their order.
std::vector<std::size_t> fitting_columns(const Table& table, const std::vector<std::size_t>& widths,
                                         std::size_t width) {
  std::vector<std::size_t> kept(widths.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  while (width > 0 && total_width(widths, kept) > width) {
    auto worst = kept.begin();
    for (auto at = kept.begin(); at != kept.end(); ++at) {
      // Of equally dispensable columns the rightmost goes first.
      if (table.columns()[*at].drop_order >= table.columns()[*worst].drop_order) worst = at;
    }
    if (table.columns()[*worst].drop_order <= 0) break;
    kept.erase(worst);
  }
  return kept;
}

// Narrows the last column to what is left of the width when its text can be broken; too little room
// for words leaves it as it is.
void narrow_last_column(const Table& table, const std::vector<std::size_t>& kept, std::size_t width,
                        std::vector<std::size_t>& widths) {
  constexpr std::size_t kNarrowestText = 20;
  if (width == 0 || kept.empty() || table.columns()[kept.back()].align == Align::kRight) return;
  std::size_t& last = widths[kept.back()];
  const std::size_t others = total_width(widths, kept) - last;
  if (others + last <= width || others + kNarrowestText > width) return;
  last = width - others;
}

// The lines of a cell in a column of `width`: broken at spaces, and inside words that are longer.
std::vector<std::string> broken_text(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return {text};
  std::vector<std::string> lines;
  for (std::string& line : split(Style{.width = width}.wrap(text, 0), '\n')) {
    while (display_width(line) > width) {
      std::size_t end = 0;  // the longest run of whole characters that fits
      for (std::size_t next = 0; next <= line.size(); ++next) {
        const bool boundary = next == line.size() || (line[next] & 0xC0) != 0x80;
        if (!boundary) continue;
        if (display_width(std::string_view(line).substr(0, next)) > width) break;
        end = next;
      }
      lines.push_back(line.substr(0, end));
      line.erase(0, end);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// One line of cells; `text` and `styled` differ by colours only.
class Line {
 public:
  void add(std::string_view styled, std::size_t columns, std::size_t width, Align align) {
    const std::size_t padding = width - std::min(columns, width);
    if (!first_) pending_ += kGap;
    first_ = false;
    if (align == Align::kRight) pending_ += padding;
    if (columns > 0) {
      text_.append(pending_, ' ');
      pending_ = 0;
      text_ += styled;
    }
    if (align == Align::kLeft) pending_ += padding;
  }
  std::string finish() { return std::move(text_) + "\n"; }  // pending spaces would trail

 private:
  std::string text_;
  std::size_t pending_ = 0;
  bool first_ = true;
};

std::string escape_markdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\|<*`").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

Table& Table::row(std::vector<Cell> cells) {
  NIBBLE_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
  return *this;
}

Table& Table::rule() {
  rows_.emplace_back();
  return *this;
}

std::string Table::render(const Style& style) const {
  std::vector<std::size_t> widths = column_widths(*this);
  const std::vector<std::size_t> kept = fitting_columns(*this, widths, style.width);
  narrow_last_column(*this, kept, style.width, widths);
  Line header;
  Line dashes;
  for (const std::size_t index : kept) {
    const Column& column = columns_[index];
    header.add(style.strong(column.title), display_width(column.title), widths[index],
               column.align);
    dashes.add(style.faint(std::string(widths[index], '-')), widths[index], widths[index],
               Align::kLeft);
  }
  const std::string rule_line = dashes.finish();
  std::string out = header.finish() + rule_line;
  for (const std::vector<Cell>& cells : rows_) {
    if (cells.empty()) {
      out += rule_line;
      continue;
    }
    const std::vector<std::string> last_lines =
        kept.empty() ? std::vector<std::string>{""}
                     : broken_text(shown(cells[kept.back()]), widths[kept.back()]);
    for (std::size_t number = 0; number < last_lines.size(); ++number) {
      Line line;
      for (const std::size_t index : kept) {
        const bool last = index == kept.back();
        const std::string text = last ? last_lines[number] : number == 0 ? shown(cells[index]) : "";
        line.add(emphasised(style, cells[index].emphasis, text), display_width(text), widths[index],
                 columns_[index].align);
      }
      out += line.finish();
    }
  }
  if (kept.size() < columns_.size()) {
    std::vector<std::string> dropped;
    for (std::size_t index = 0; index < columns_.size(); ++index) {
      const bool shown_here = std::find(kept.begin(), kept.end(), index) != kept.end();
      if (!shown_here) dropped.push_back(columns_[index].title);
    }
    const std::string note = fmt::format("not shown at this width: {}", join(dropped, ", "));
    out += style.faint(style.wrap(note, 0)) + "\n";
  }
  return out;
}

std::string Table::render_markdown() const {
  std::string out = "|";
  std::string alignment = "|";
  for (const Column& column : columns_) {
    out += fmt::format(" {} |", escape_markdown(column.title));
    alignment += column.align == Align::kRight ? " ---: |" : " --- |";
  }
  out += "\n" + alignment + "\n";
  for (const std::vector<Cell>& cells : rows_) {
    if (cells.empty()) continue;
    out += "|";
    for (const Cell& cell : cells) {
      const std::string text = escape_markdown(shown(cell));
      const bool strong = cell.emphasis == Emphasis::kStrong && !text.empty();
      out += strong ? fmt::format(" **{}** |", text) : fmt::format(" {} |", text);
    }
    out += "\n";
  }
  return out;
}

}  // namespace nibble
