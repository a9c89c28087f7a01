// Aligned tables with units: plain in a pipe, coloured and fitted to the width on a terminal.
//
//   Table table({{"op"}, {"bytes", Align::kRight}, {"floor", Align::kRight}});
//   table.row({"moe.gate_up", format_bytes(bytes), format_time_us(floor_us)});
//   fmt::print("{}", table.render(style));
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/terminal.h"

namespace nibble {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  // On a terminal too narrow for all columns those with the highest number are dropped first (and
  // the table says which); 0 is never dropped. A pipe gets every column.
  int drop_order = 0;
};

enum class Emphasis { kNone, kStrong, kGood, kWarning, kBad, kFaint };

struct Cell {
  std::string text;
  Emphasis emphasis = Emphasis::kNone;
  Cell(const char* t) : text(t) {}
  Cell(std::string t, Emphasis e = Emphasis::kNone) : text(std::move(t)), emphasis(e) {}
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  Table& row(std::vector<Cell> cells);  // one cell a column
  Table& rule();                        // a line between groups of rows

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }  // an empty row is a rule

  // Columns two spaces apart, header, rule; ends with a newline. ASCII but for the cells
  // themselves, no trailing spaces, no ANSI unless the style has colour.
  std::string render(const Style& style) const;
  // A Markdown table; characters that Markdown would interpret are escaped, rules are left out.
  std::string render_markdown() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace nibble
