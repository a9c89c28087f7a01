// A load test as a document for the report: sentences, tables, plots over the levels, definitions.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto page, write_report(load_document(run), directory));
#pragma once

#include "load/run_report.h"
#include "report/document.h"

namespace nibble::cli {

// Plots that no level has numbers for are left out; a run that was cut short, or in which nothing
// succeeded, is a document all the same.
Document load_document(const load::RunReport& report);

}  // namespace nibble::cli
