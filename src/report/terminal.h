// A document on the terminal: headings, sentences, tables; charts are left to the report.
//
//   fmt::print("{}", render_terminal(document, Style::for_stdout()));
#pragma once

#include <string>

#include "base/terminal.h"
#include "report/document.h"

namespace nibble {

std::string render_terminal(const Document& document, const Style& style);

}  // namespace nibble
