// Readers: documents and measurements of every kind into Evidence.
//
//   Evidence evidence;
//   NIBBLE_RETURN_IF_ERROR(read_load(json, {.name = "load.json"}, evidence));
//   NIBBLE_RETURN_IF_ERROR(read_bench(steps, {.name = "step.json"}, evidence));  // after the
//   levels fill_floor(ledger, evidence);
//
// A member that is absent or null is a fact with a reason; a member of the wrong kind is an error
// that names the file and the member. A level whose output rate is known already is never mixed
// with another document's level of as many users: that is an error, too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "diagnose/evidence.h"
#include "explain/explain.h"
#include "ledger/step.h"
#include "trace/trace.h"

namespace nibble::diagnose {

struct ReadContext {
  std::string name;                   // in sources and errors: "load.json"
  Origin origin = Origin::kRecorded;  // kMeasured: the document is of this very run
};

// nibble.load/1: levels, server, client, series, setting.
Result<> read_load(const Json& json, const ReadContext& context, Evidence& evidence);

// nibble.bench/1: rows as kernels, roofs, and from steps[] the kernels of each level's step and the
// price of a prompt token. Levels must have been read before.
Result<> read_bench(const Json& json, const ReadContext& context, Evidence& evidence);

// nibble.case/1 with what explain_case() made of it: levels, their floors, measured kernels. The
// analysis is for findings and proposals (add_case() in proposals.h).
Result<CaseAnalysis> read_case(const Json& json, const ReadContext& context, Evidence& evidence);

void read_trace_summary(const trace::TraceSummary& summary, const ReadContext& context,
                        Evidence& evidence);

// nibble.telemetry/1 as `nibble watch --jsonl` wrote it beside the load: facts of the machine in
// the windows of the levels, and series. Where its clock is not the load's, a note says so and
// nothing is read.
Result<> read_telemetry(std::string_view lines, const ReadContext& context, Evidence& evidence);

// The floor of every level by the ledger, at the sequences that it ran and its own mean context;
// what is refused is a reason in the level.
void fill_floor(const Ledger& ledger, Evidence& evidence);

struct DocumentRead {
  std::string kind;                      // "nibble.load/1", ..., "trace"
  std::optional<CaseAnalysis> analysis;  // of a case
};
// Finds the kind by `schema`; what has none and looks like a trace is read as one.
Result<DocumentRead> read_document(const std::filesystem::path& path, Evidence& evidence);

}  // namespace nibble::diagnose
