#include "trace/nsys.h"

#include <unordered_map>

#include "base/text.h"
#include "trace/sqlite.h"

namespace nibble::trace {
namespace {

constexpr const char* kKernelTable = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kGraphTable = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
// Processes and threads are numbers of 64 bits, of which the lowest 24 tell the thread.
constexpr unsigned kThreadBits = 24;

class NsysReader {
 public:
  NsysReader(const Database& database, std::string name, TraceEvents& events)
      : database_(database), file_(std::move(name)), events_(events) {}

  Result<> read();

 private:
  using Columns = std::set<std::string>;

  Result<> kernels();
  Result<> copies(const char* table, bool memset);
  Result<> graphs();
  Result<> launches();
  Result<> ranges();
  Result<> gpu_names();
  Result<> texts();
  std::uint32_t process(std::optional<std::int64_t> global);
  std::string text(std::optional<std::int64_t> id, std::optional<std::string> direct);
  void add(const Rows& rows, std::uint32_t name, bool kernel);
  void ended(const Rows& rows, const char* table);

  const Database& database_;
  std::string file_;
  TraceEvents& events_;
  std::optional<Rows> find_text_;
  std::unordered_map<std::int64_t, std::string> texts_;
  std::unordered_map<std::int64_t, std::uint32_t> processes_;
  std::int64_t recorded_kernels_ = 0;
  std::int64_t recorded_graphs_ = 0;
};

std::string column_or_null(const std::set<std::string>& columns, const char* name) {
  return columns.count(name) != 0 ? name : "NULL";
}

// The columns that every table of GPU work has, in the order in which NsysReader::add takes them.
std::string gpu_columns(const std::set<std::string>& columns) {
  return fmt::format("start, end, deviceId, {}, {}, {}", column_or_null(columns, "streamId"),
                     column_or_null(columns, "correlationId"),
                     column_or_null(columns, "globalPid"));
}

std::uint32_t NsysReader::process(std::optional<std::int64_t> global) {
  const std::int64_t key = global ? *global >> kThreadBits : -1;
  return processes_.emplace(key, static_cast<std::uint32_t>(processes_.size())).first->second;
}

// A name is a number of StringIds, or in some columns the text itself.
std::string NsysReader::text(std::optional<std::int64_t> id, std::optional<std::string> direct) {
  if (direct) return *direct;
  if (!id) return {};
  const auto known = texts_.find(*id);
  if (known != texts_.end()) return known->second;
  std::string found;
  if (find_text_) {
    find_text_->bind(*id);
    if (find_text_->next()) found = find_text_->text(0).value_or("");
  }
  constexpr std::size_t kMostTexts = 200'000;
  if (texts_.size() < kMostTexts) texts_.emplace(*id, found);
  return found;
}

void NsysReader::ended(const Rows& rows, const char* table) {
  if (rows.fault().empty()) return;
  events_.cut = true;
  events_.notes.push_back(fmt::format("{} was read as far as it goes: {}", table, rows.fault()));
}

void NsysReader::add(const Rows& rows, std::uint32_t name, bool kernel) {
  ++events_.events;
  const auto start = rows.integer(0);
  const auto end = rows.integer(1);
  const auto number = rows.integer(2);
  // CUPTI writes 0 for times that it could not collect.
  if (!start || !end || !number || (*start == 0 && *end == 0)) {
    ++events_.unusable;
    return;
  }
  const std::int64_t correlation = rows.integer(4).value_or(0);
  const std::uint32_t owner = process(rows.integer(5));
  const std::uint16_t device = events_.device_of(*number, owner);
  events_.add_gpu(
      {.start_ns = *start,
       .end_ns = *end,
       .launch = kernel ? launch_key(owner, static_cast<std::uint32_t>(correlation)) : 0,
       .name = name,
       .device = device,
       .stream = events_.stream_of(device, rows.integer(3).value_or(0))});
}

Result<> NsysReader::texts() {
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns("StringIds"));
  if (columns.count("id") == 0 || columns.count("value") == 0) return {};
  NIBBLE_ASSIGN_OR_RETURN(find_text_, database_.query("SELECT value FROM StringIds WHERE id = ?"));
  return {};
}

Result<> NsysReader::kernels() {
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns(kKernelTable));
  if (columns.empty()) return {};
  for (const char* needed : {"start", "end", "deviceId"}) {
    if (columns.count(needed) == 0)
      return input_error(
          "{}: its table {} has no column \"{}\"; export the report with nsys "
          "export --type sqlite",
          file_, kKernelTable, needed);
  }
  const bool long_names = columns.count("demangledName") != 0;
  if (!long_names && columns.count("shortName") == 0)
    return input_error(
        "{}: its table {} has neither \"demangledName\" nor \"shortName\"; export the "
        "report with nsys export --type sqlite",
        file_, kKernelTable);
  NIBBLE_ASSIGN_OR_RETURN(
      Rows rows,
      database_.query(fmt::format("SELECT {}, {} FROM {}", gpu_columns(columns),
                                  long_names ? "demangledName" : "shortName", kKernelTable)));
  while (rows.next()) {
    ++recorded_kernels_;
    add(rows, events_.name_of(text(rows.integer(6), rows.text(6)), GpuKind::kKernel), true);
  }
  ended(rows, kKernelTable);
  return {};
}

std::string copy_name(std::int64_t kind) {
  // CUpti_ActivityMemcpyKind
  constexpr std::string_view kDirections[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                              "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  const bool known = kind > 0 && kind < static_cast<std::int64_t>(std::size(kDirections));
  return fmt::format("Memcpy {}", known ? kDirections[kind] : std::string_view("unknown"));
}

Result<> NsysReader::copies(const char* table, bool memset) {
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns(table));
  if (columns.count("start") == 0 || columns.count("end") == 0 || columns.count("deviceId") == 0)
    return {};
  NIBBLE_ASSIGN_OR_RETURN(Rows rows,
                          database_.query(fmt::format("SELECT {}, {} FROM {}", gpu_columns(columns),
                                                      column_or_null(columns, "copyKind"), table)));
  while (rows.next()) {
    const std::string name = memset ? "Memset" : copy_name(rows.integer(6).value_or(0));
    add(rows, events_.name_of(name, GpuKind::kCopy), false);
  }
  ended(rows, table);
  return {};
}

Result<> NsysReader::graphs() {
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns(kGraphTable));
  if (columns.count("start") == 0 || columns.count("end") == 0 || columns.count("deviceId") == 0)
    return {};
  NIBBLE_ASSIGN_OR_RETURN(
      Rows rows, database_.query(fmt::format("SELECT {}, {} FROM {}", gpu_columns(columns),
                                             column_or_null(columns, "graphId"), kGraphTable)));
  while (rows.next()) {
    ++recorded_graphs_;
    const std::string name =
        fmt::format("CUDA graph {}, its kernels not recorded", rows.integer(6).value_or(0));
    add(rows, events_.name_of(name, GpuKind::kGraph), true);
  }
  ended(rows, kGraphTable);
  if (recorded_graphs_ > 0)
    events_.notes.push_back(
        fmt::format("{} launches of CUDA graphs were recorded as a whole, without their kernels; "
                    "record with nsys profile --cuda-graph-trace=node to see these",
                    recorded_graphs_));
  return {};
}

Result<> NsysReader::launches() {
  constexpr const char* kTable = "CUPTI_ACTIVITY_KIND_RUNTIME";
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns(kTable));
  if (columns.count("start") == 0 || columns.count("correlationId") == 0) return {};
  NIBBLE_ASSIGN_OR_RETURN(Rows rows,
                          database_.query(fmt::format("SELECT start, correlationId, {}, {} FROM {}",
                                                      column_or_null(columns, "globalTid"),
                                                      column_or_null(columns, "nameId"), kTable)));
  while (rows.next()) {
    const auto start = rows.integer(0);
    const auto correlation = rows.integer(1);
    if (!start || !correlation || *correlation <= 0) continue;
    const std::string call = text(rows.integer(3), rows.text(3));
    if (!call.empty() && call.find("aunch") == std::string::npos) continue;
    events_.launches.push_back(
        {launch_key(process(rows.integer(2)), static_cast<std::uint32_t>(*correlation)), *start});
  }
  ended(rows, kTable);
  return {};
}

Result<> NsysReader::ranges() {
  constexpr const char* kTable = "NVTX_EVENTS";
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns(kTable));
  if (columns.count("start") == 0 || columns.count("end") == 0) return {};
  NIBBLE_ASSIGN_OR_RETURN(
      Rows rows,
      database_.query(fmt::format(
          "SELECT start, end, {}, {}, {} FROM {}", column_or_null(columns, "text"),
          column_or_null(columns, "textId"), column_or_null(columns, "globalTid"), kTable)));
  while (rows.next()) {
    const auto start = rows.integer(0);
    const auto end = rows.integer(1);
    if (!start || !end) continue;  // a mark
    const std::string name = text(rows.integer(3), rows.text(2));
    events_.see_name(name);
    events_.add_annotation(
        name, {.start_ns = *start, .end_ns = *end, .process = process(rows.integer(4))});
  }
  ended(rows, kTable);
  return {};
}

Result<> NsysReader::gpu_names() {
  NIBBLE_ASSIGN_OR_RETURN(const Columns columns, database_.columns("TARGET_INFO_GPU"));
  const char* number = columns.count("cuDevice") != 0 ? "cuDevice" : "id";
  if (columns.count(number) == 0 || columns.count("name") == 0) return {};
  NIBBLE_ASSIGN_OR_RETURN(
      Rows rows, database_.query(fmt::format("SELECT {}, name FROM TARGET_INFO_GPU", number)));
  while (rows.next()) {
    const auto id = rows.integer(0);
    const std::string name = printable(text(rows.integer(1), rows.text(1)));
    if (id && !name.empty()) events_.device_names[*id] = name;
  }
  return {};
}

Result<> NsysReader::read() {
  NIBBLE_RETURN_IF_ERROR(texts());
  NIBBLE_RETURN_IF_ERROR(kernels());
  NIBBLE_RETURN_IF_ERROR(graphs());
  if (events_.gpu.empty() && events_.unusable > 0)
    return input_error("{} has {} kernels, none with usable times; record and export it again",
                       file_, events_.unusable);
  if (events_.gpu.empty() && events_.cut)
    return input_error("{} is damaged: {}; export the report again", file_, events_.notes.front());
  if (events_.gpu.empty())
    return input_error(
        "{} has no kernels (no rows in a table {} or {}): record with nsys profile "
        "--trace=cuda,nvtx, and export with nsys export --type sqlite",
        file_, kKernelTable, kGraphTable);
  NIBBLE_RETURN_IF_ERROR(copies("CUPTI_ACTIVITY_KIND_MEMCPY", false));
  NIBBLE_RETURN_IF_ERROR(copies("CUPTI_ACTIVITY_KIND_MEMSET", true));
  NIBBLE_RETURN_IF_ERROR(launches());
  NIBBLE_RETURN_IF_ERROR(ranges());
  return gpu_names();
}

}  // namespace

Result<> read_nsys(const std::filesystem::path& path, TraceEvents& events) {
  events.kind = "nsys";
  NIBBLE_ASSIGN_OR_RETURN(const Database database, Database::open(path));
  return NsysReader(database, path.string(), events).read();
}

}  // namespace nibble::trace
