#include "bench/import_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/shapes_file.h"
#include "machine/roof_cache.h"

namespace nibble {
namespace {

constexpr std::size_t kMostCsvBytes = std::size_t{64} << 20;
constexpr double kUsOfMillisecond = 1e3;
constexpr double kMostMs = 1e9;

// What a routine computes, as far as its name tells.
struct Routine {
  const char* name;
  BenchOp op;
  Format weights;
  Format activations;
};
constexpr Routine kRoutines[] = {
    {"mm_fp4", BenchOp::kGemm, Format::kNvfp4, Format::kNvfp4},
    {"mm_bf16", BenchOp::kGemm, Format::kBf16, Format::kBf16},
    {"bmm_bf16", BenchOp::kGemm, Format::kBf16, Format::kBf16},
    {"bmm_fp8", BenchOp::kGemm, Format::kFp8, Format::kFp8},
    {"gemm_fp8_nt_groupwise", BenchOp::kGemm, Format::kFp8, Format::kFp8},
    {"mm_mxfp8", BenchOp::kGemm, Format::kMxfp8, Format::kMxfp8},
    {"bmm_mxfp8", BenchOp::kGemm, Format::kMxfp8, Format::kMxfp8},
    {"trtllm_fp4_block_scale_moe", BenchOp::kMoe, Format::kNvfp4, Format::kNvfp4},
    {"cute_dsl_fp4_block_scale_moe", BenchOp::kMoe, Format::kNvfp4, Format::kNvfp4},
    {"trtllm_fp8_block_scale_moe", BenchOp::kMoe, Format::kFp8, Format::kFp8},
    {"trtllm_fp8_per_tensor_scale_moe", BenchOp::kMoe, Format::kFp8, Format::kFp8},
    {"cutlass_fused_moe", BenchOp::kMoe, Format::kBf16, Format::kBf16},
};

bool is_true(std::string_view text) {
  return text == "True" || text == "true" || text == "1";
}

// A line of the file by the names of its columns.
class CsvLine {
 public:
  CsvLine(const std::map<std::string, std::size_t, std::less<>>& columns,
          const std::vector<std::string>& cells, std::string where)
      : columns_(columns), cells_(cells), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  // Empty where the file has no such column, or nothing in it.
  std::string_view text(std::string_view column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? std::string_view() : trimmed(cells_[found->second]);
  }
  Result<std::optional<double>> number(std::string_view column, double most) const {
    const std::string_view value = text(column);
    if (value.empty() || value == "None" || value == "nan") return std::optional<double>();
    double parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(parsed)) {
      return input_error("{}: {} is \"{}\", which is no number", where_, column, printable(value));
    }
    if (parsed < 0 || parsed > most) {
      return input_error("{}: {} is {}; it must be from 0 to {}", where_, column, printable(value),
                         format_compact(most));
    }
    return std::optional(parsed);
  }
  Result<std::int64_t> size(std::string_view column) const {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, number(column, kShapeRange.max));
    if (!value) {
      return input_error("{}: {} is missing, and {} needs it", where_, column,
                         printable(text("routine")));
    }
    if (*value < 1 || *value != std::floor(*value)) {
      return input_error("{}: {} is {}; it must be a whole number of at least 1", where_, column,
                         format_compact(*value));
    }
    return static_cast<std::int64_t>(*value);
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
  }

  const std::map<std::string, std::size_t, std::less<>>& columns_;
  const std::vector<std::string>& cells_;
  std::string where_;
};

// mm_fp4 has a switch for its format, CUTLASS's layer a variant.
void refine_formats(const CsvLine& line, BenchShape& shape) {
  const std::string_view routine = line.text("routine");
  if (routine == "mm_fp4" && !line.text("use_nvfp4").empty() && !is_true(line.text("use_nvfp4"))) {
    shape.format = shape.activations = Format::kMxfp4;
  }
  if (routine == "trtllm_fp4_block_scale_moe" && line.text("fp4_mode").find("mxfp4") == 0) {
    shape.format = Format::kMxfp4;
    shape.activations = Format::kBf16;
  }
  if (routine != "cutlass_fused_moe") return;
  const std::string_view variant = line.text("cutlass_variant");
  if (variant == "nvfp4") shape.format = shape.activations = Format::kNvfp4;
  if (variant == "fp8") shape.format = shape.activations = Format::kFp8;
}

Result<> read_sizes(const CsvLine& line, CudaRow& row) {
  BenchShape& shape = row.row.shape;
  if (shape.op == BenchOp::kMoe) {
    NIBBLE_ASSIGN_OR_RETURN(row.row.tokens, line.size("num_tokens"));
    NIBBLE_ASSIGN_OR_RETURN(shape.k, line.size("hidden_size"));
    NIBBLE_ASSIGN_OR_RETURN(shape.n, line.size("intermediate_size"));
    NIBBLE_ASSIGN_OR_RETURN(shape.experts, line.size("num_experts"));
    NIBBLE_ASSIGN_OR_RETURN(shape.top_k, line.size("top_k"));
    if (shape.top_k <= shape.experts) return {};
    return input_error("{}: top_k is {} of {} experts; a token cannot meet one twice", line.where(),
                       shape.top_k, shape.experts);
  }
  NIBBLE_ASSIGN_OR_RETURN(row.row.tokens, line.size("m"));
  NIBBLE_ASSIGN_OR_RETURN(shape.n, line.size("n"));
  NIBBLE_ASSIGN_OR_RETURN(shape.k, line.size("k"));
  if (line.text("routine").find("bmm") != 0) return {};
  // A batched product: as many matrices, each with its own rows.
  NIBBLE_ASSIGN_OR_RETURN(shape.experts, line.size("batch_size"));
  row.row.tokens *= shape.experts;
  if (static_cast<double>(row.row.tokens) > kShapeRange.max) {
    return input_error("{}: batch_size x m is {}; at most {} rows can be held", line.where(),
                       row.row.tokens, format_compact(kShapeRange.max));
  }
  return {};
}

Result<> read_times(const CsvLine& line, CudaRow& row) {
  NIBBLE_ASSIGN_OR_RETURN(const auto ms, line.number("median_time", kMostMs));
  if (!ms || *ms <= 0) {
    row.row.error = "the file has no time of it";
    return {};
  }
  row.row.time_us.values = {*ms * kUsOfMillisecond};
  row.row.time_us.median = *ms * kUsOfMillisecond;
  NIBBLE_ASSIGN_OR_RETURN(const auto tflops, line.number("tflops", 1e9));
  NIBBLE_ASSIGN_OR_RETURN(const auto tb_s, line.number("tb_per_sec", 1e9));
  if (tflops && *tflops > 0) row.flop = *tflops * row.row.time_us.median * 1e6;
  if (tb_s && *tb_s > 0) row.bytes = *tb_s * row.row.time_us.median * 1e6;
  return {};
}

Result<CudaRow> read_line(const CsvLine& line, const Routine& routine, const std::string& path) {
  CudaRow row{.part = routine.op == BenchOp::kMoe ? "layer" : "dense", .imported = path};
  row.row.shape = {.op = routine.op,
                   .name = routine.op == BenchOp::kMoe ? "moe" : "gemm",
                   .format = routine.weights,
                   .activations = routine.activations};
  refine_formats(line, row.row.shape);
  NIBBLE_RETURN_IF_ERROR(read_sizes(line, row));
  NIBBLE_RETURN_IF_ERROR(read_times(line, row));
  std::string_view backend = line.text("resolved_backend");
  if (backend.empty()) backend = line.text("backend");
  row.row.kernel = fmt::format("flashinfer {}{}{}", routine.name, backend.empty() ? "" : " ",
                               printable(backend));
  row.row.flags.push_back("imported: whether weights were cold is not in the file");
  return row;
}

Result<std::map<std::string, std::size_t, std::less<>>> read_header(
    const std::vector<std::string>& cells, const std::string& path) {
  std::map<std::string, std::size_t, std::less<>> columns;
  for (std::size_t at = 0; at < cells.size(); ++at) columns.emplace(cells[at], at);
  for (const char* needed : {"routine", "median_time"}) {
    if (columns.contains(needed)) continue;
    return input_error(
        "{}: line 1 has no column \"{}\": give the file that flashinfer_benchmark.py "
        "--output_path writes",
        path, needed);
  }
  return columns;
}

}  // namespace

Result<std::vector<std::vector<std::string>>> parse_csv(std::string_view text,
                                                        std::string_view path) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> cells;
  std::string cell;
  bool quoted = false;
  std::size_t line = 1, quote_line = 0;
  const auto end_line = [&] {
    cells.push_back(std::move(cell));
    cell.clear();
    const bool empty = cells.size() == 1 && cells.front().empty();
    if (!empty) lines.push_back(std::move(cells));
    cells.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '\n') ++line;
    if (quoted) {
      const bool doubled = letter == '"' && at + 1 < text.size() && text[at + 1] == '"';
      if (doubled) ++at;
      if (letter == '"' && !doubled) {
        quoted = false;
      } else {
        cell += letter;
      }
    } else if (letter == '"') {
      quoted = true;
      quote_line = line;
    } else if (letter == ',') {
      cells.push_back(std::move(cell));
      cell.clear();
    } else if (letter == '\n') {
      end_line();
    } else if (letter != '\r') {
      cell += letter;
    }
  }
  if (quoted) return input_error("{}: the quote that line {} opens never ends", path, quote_line);
  if (!cell.empty() || !cells.empty()) end_line();
  return lines;
}

Result<Imported> parse_flashinfer(std::string_view text, const std::string& path) {
  NIBBLE_ASSIGN_OR_RETURN(const auto lines, parse_csv(text, path));
  if (lines.empty()) return input_error("{} is empty; it should be a CSV file with results", path);
  NIBBLE_ASSIGN_OR_RETURN(const auto columns, read_header(lines.front(), path));
  Imported imported{.path = path};
  std::map<std::string, int> others;
  for (std::size_t at = 1; at < lines.size(); ++at) {
    const std::string where = fmt::format("{}: row {}", path, at);
    if (lines[at].size() != lines.front().size()) {
      return input_error("{} has {} cells, and the header {}", where, lines[at].size(),
                         lines.front().size());
    }
    const CsvLine line(columns, lines[at], where);
    const std::string_view name = line.text("routine");
    const auto* routine = std::find_if(std::begin(kRoutines), std::end(kRoutines),
                                       [&](const Routine& known) { return name == known.name; });
    if (routine == std::end(kRoutines)) {
      ++others[printable(name)];
      continue;
    }
    NIBBLE_ASSIGN_OR_RETURN(CudaRow row, read_line(line, *routine, path));
    imported.rows.push_back(std::move(row));
  }
  for (const auto& [name, count] : others) {
    imported.notes.push_back(fmt::format("{} row{} of {} left out: no product or layer of experts",
                                         count, count == 1 ? "" : "s", name));
  }
  return imported;
}

Result<Imported> import_flashinfer(const std::string& path) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostCsvBytes));
  return parse_flashinfer(text, path);
}

Json to_json(const Imported& imported) {
  Json rows = Json::array();
  for (const CudaRow& row : imported.rows) rows.push(to_json(row));
  Json notes = Json::array();
  for (const std::string& note : imported.notes) notes.push(note);
  const Json unknown;
  return Json::object()
      .set("schema", "nibble.bench/1")
      .set("machine", Json::object()
                          .set("title", "unknown: imported from " + imported.path)
                          .set("cores", 1)
                          .set("memory_gb", 0)
                          .set("last_level_cache_mb", unknown)
                          .set("isa", Json::array()))
      .set("taken_unix_s", unix_now())
      .set("state", unknown)
      .set("roofs", unknown)
      .set("scaling", Json::array())
      .set("kernel_rates", Json::array())
      .set("rows", std::move(rows))
      .set("notes", std::move(notes));
}

}  // namespace nibble
