// The files that `nibble load` writes: checked before the load, written at its end.
//
//   NIBBLE_ASSIGN_OR_RETURN(const LoadOutputs outputs, outputs_from(arguments));
//   NIBBLE_RETURN_IF_ERROR(check_outputs(outputs));     // before the first request
//   NIBBLE_ASSIGN_OR_RETURN(RowsFile rows, RowsFile::make(outputs));
//   NIBBLE_RETURN_IF_ERROR(write_outputs(outputs, report, rows.path(), written));
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "load/run_report.h"

namespace nibble::cli {

struct LoadOutputs {
  bool save = false;      // vLLM's --save-result: a file a level
  bool append = false;    // --append-result: a line a level instead
  bool detailed = false;  // with the arrays of --save-detailed
  std::filesystem::path result_dir;
  std::string result_filename;        // empty: vLLM's pattern
  std::filesystem::path output_file;  // SGLang's: a line a level, appended
  bool output_details = false;
  std::filesystem::path csv;
  std::filesystem::path rows;  // empty: a temporary file
  std::filesystem::path report;
  // What the run reads, by option: no output may replace it.
  std::vector<std::pair<std::string, std::filesystem::path>> inputs;
};

Result<LoadOutputs> outputs_from(const Arguments& arguments);

// Makes the folders that vLLM's benchmark makes, too, and tries to write in each; leaves no file.
Result<> check_outputs(const LoadOutputs& outputs);

// Writes all, and names in `written` what it wrote. What cannot be written keeps nothing else from
// being written; the first fault is returned.
Result<> write_outputs(const LoadOutputs& outputs, const load::RunReport& report,
                       const std::filesystem::path& rows, std::vector<std::string>& written);

// vLLM's "{label or backend}-{rate}qps[-concurrency{n}]-{model}-{date}.json".
std::string result_name(const load::RunReport& report, std::size_t level);

// Appends one line in one go: an unfinished last line is ended first, and what fits only in part
// is cut off again.
Result<> append_line(const std::filesystem::path& path, std::string_view line);

// Where the rows go: the file that was asked for, or a temporary one beside the results (else on
// the disk of /var/tmp: /tmp may be memory), removed at the end unless it is kept.
class RowsFile {
 public:
  static Result<RowsFile> make(const LoadOutputs& outputs);
  ~RowsFile();
  RowsFile(RowsFile&& other) noexcept;
  RowsFile& operator=(RowsFile&&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void keep() { temporary_ = false; }

 private:
  RowsFile(std::filesystem::path path, bool temporary)
      : path_(std::move(path)), temporary_(temporary) {}
  std::filesystem::path path_;
  bool temporary_ = false;
};

}  // namespace nibble::cli
