// Any document that evidence can come from, by what it says it is.
#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "diagnose/read_evidence.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::string_view kReadable =
    "nibble diagnose reads nibble.load/1 (nibble load --json), nibble.bench/1 (nibble bench), "
    "nibble.case/1, nibble.trace/1, nibble.telemetry/1 (nibble watch --jsonl), and traces of "
    "torch's profiler or of Nsight Systems (.sqlite)";

Result<DocumentRead> read_as_trace(const std::filesystem::path& path, const ReadContext& context,
                                   Evidence& evidence) {
  NIBBLE_ASSIGN_OR_RETURN(const trace::TraceSummary summary, trace::load_trace(path, {}));
  read_trace_summary(summary, context, evidence);
  return DocumentRead{.kind = "trace", .analysis = std::nullopt};
}

Result<DocumentRead> read_by_schema(const Json& json, const std::string& schema,
                                    const ReadContext& context, Evidence& evidence) {
  DocumentRead read{.kind = schema, .analysis = std::nullopt};
  if (schema == "nibble.load/1") {
    NIBBLE_RETURN_IF_ERROR(read_load(json, context, evidence));
  } else if (schema == "nibble.bench/1") {
    NIBBLE_RETURN_IF_ERROR(read_bench(json, context, evidence));
  } else if (schema == "nibble.case/1") {
    NIBBLE_ASSIGN_OR_RETURN(read.analysis, read_case(json, context, evidence));
  } else if (schema == "nibble.trace/1") {
    NIBBLE_ASSIGN_OR_RETURN(const trace::TraceSummary summary,
                            trace::parse_trace(json, context.name));
    read_trace_summary(summary, context, evidence);
  } else {
    return input_error("{}: its schema is {}; {}", context.name, printable(schema), kReadable);
  }
  return read;
}

// Of the first line, where the file is lines of JSON.
bool is_stream(std::string_view text) {
  const std::string_view first = trim(text.substr(0, text.find('\n')));
  const Result<Json> line = Json::parse(first, "the first line");
  if (!line) return false;
  const Json* schema = line->find("schema");
  return schema != nullptr && *schema == Json("nibble.telemetry/1");
}

// Compressed, or a database: nothing but a trace is either.
bool is_binary(std::string_view text) {
  return text.substr(0, 2) == "\x1f\x8b" || text.substr(0, 15) == "SQLite format 3";
}

}  // namespace

Result<DocumentRead> read_document(const std::filesystem::path& path, Evidence& evidence) {
  const ReadContext context{.name = path.filename().string()};
  const Result<std::string> contents = read_file(path, kMostBytes);
  if (!contents) return contents.error();
  const std::string_view text = *contents;
  if (is_binary(text)) return read_as_trace(path, context, evidence);
  if (is_stream(text)) {
    NIBBLE_RETURN_IF_ERROR(read_telemetry(text, context, evidence));
    return DocumentRead{.kind = "nibble.telemetry/1", .analysis = std::nullopt};
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, context.name));
  const Json* schema = json.find("schema");
  if (schema != nullptr && schema->is_string()) {
    return read_by_schema(json, schema->as_string(), context, evidence);
  }
  if (json.is_array() || json.find("traceEvents") != nullptr) {
    return read_as_trace(path, context, evidence);
  }
  return input_error("{} names no schema; {}", context.name, kReadable);
}

}  // namespace nibble::diagnose
