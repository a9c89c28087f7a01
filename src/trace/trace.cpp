#include "trace/trace.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <system_error>

#include "base/file.h"
#include "trace/byte_source.h"
#include "trace/chrome.h"
#include "trace/mapping.h"
#include "trace/nsys.h"
#include "trace/summarize.h"

namespace nibble::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqliteMark{"SQLite format 3\0", 16};
constexpr std::size_t kMostDocumentBytes = 64U << 20U;

Result<> check_readable(const fs::path& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (status.type() == fs::file_type::not_found)
    return input_error("no trace is at {}", path.string());
  if (fault) return input_error("cannot read the trace {}: {}", path.string(), fault.message());
  if (status.type() == fs::file_type::directory)
    return input_error("{} is a folder; give one trace of it (of one rank)", path.string());
  if (status.type() != fs::file_type::regular)
    return input_error("{} is no regular file", path.string());
  if (fs::file_size(path, fault) == 0 && !fault)
    return input_error(
        "{} is empty; record the trace again, and stop the profiler before the server",
        path.string());
  return {};
}

// Up to the 16 bytes that tell what a file is.
Result<std::string> first_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 16> bytes{};
  file.read(bytes.data(), bytes.size());
  if (file.gcount() == 0) return input_error("cannot read the trace {}", path.string());
  return std::string(bytes.data(), static_cast<std::size_t>(file.gcount()));
}

bool has_ending(const fs::path& path, std::initializer_list<std::string_view> endings) {
  const std::string name = path.filename().string();
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

Result<TraceSummary> load_document(const fs::path& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostDocumentBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path.string()));
  return parse_trace(json, path.string());
}

}  // namespace

Result<TraceSummary> load_trace(const fs::path& path, const TraceOptions& options) {
  NIBBLE_RETURN_IF_ERROR(check_readable(path));
  NIBBLE_ASSIGN_OR_RETURN(const std::string start, first_bytes(path));
  const bool is_sqlite = start == kSqliteMark;
  if (!is_sqlite && has_ending(path, {".sqlite", ".sqlite3", ".db"}))
    return input_error(
        "{} is no SQLite database: it does not begin as one; export the report with "
        "nsys export --type sqlite",
        path.string());
  if (has_ending(path, {".nsys-rep", ".qdrep"}))
    return input_error(
        "{} is a report of Nsight Systems; export it first with nsys export --type "
        "sqlite, and give the .sqlite file",
        path.string());
  NIBBLE_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::load(options.mapping));
  TraceEvents events(mapping);
  if (is_sqlite) {
    NIBBLE_RETURN_IF_ERROR(read_nsys(path, events));
  } else {
    NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, open_file(path));
    bool own_document = false;
    NIBBLE_RETURN_IF_ERROR(read_chrome(*source, path.string(), events, own_document));
    if (own_document) return load_document(path);
  }
  Result<TraceSummary> summary = summarize(std::move(events), mapping);
  if (!summary) return summary.error().within(path.string());
  summary->source = path.filename().string();
  return summary;
}

}  // namespace nibble::trace
