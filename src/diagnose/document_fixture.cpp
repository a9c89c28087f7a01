// Writes the report of one of the two diagnoses of document_fixture.h, for tests/report:
//
//   nibble_diagnosis_fixture full|sparse DIR
//   nibble_diagnosis_fixture full|sparse        what a terminal of 80 columns shows
#include "diagnose/document_fixture.h"

#include <cstdio>
#include <fmt/core.h>
#include <string_view>

#include "diagnose/document.h"
#include "report/terminal.h"

int main(int argc, char** argv) {
  using namespace nibble;
  const std::string_view which = argc > 1 ? argv[1] : "";
  if (argc > 3 || (which != "full" && which != "sparse")) {
    fmt::print(stderr, "usage: nibble_diagnosis_fixture full|sparse [DIR]\n");
    return 2;
  }
  const diagnose::Diagnosis diagnosis =
      which == "full" ? diagnose::full_diagnosis() : diagnose::sparse_diagnosis();
  const Document document = diagnose::diagnosis_document(
      diagnosis, {.command = "nibble diagnose --server http://node7:8000"});
  if (argc == 2) {
    constexpr std::size_t kColumns = 80;
    fmt::print("{}", render_terminal(document, {.width = kColumns}));
    return 0;
  }
  const auto page = write_report(document, argv[2]);
  if (!page.ok()) {
    fmt::print(stderr, "{}\n", page.error().message);
    return 1;
  }
  fmt::print("{}\n", page->string());
  return 0;
}
