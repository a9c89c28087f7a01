#include "cli/load_outputs.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/load_report.h"
#include "load/level_report.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// A device, or a pipe: written as it is, with nothing beside it.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored) &&
         !fs::is_directory(path, ignored);
}

// A new file in the folder; its descriptor, or -1 with errno.
int open_temporary(const fs::path& folder, std::string& name) {
  name = (folder / ".nibble-load-XXXXXX").string();
  return ::mkostemp(name.data(), O_CLOEXEC);
}

Result<> try_folder(std::string_view option, const fs::path& folder) {
  std::string name;
  const Descriptor file(open_temporary(folder, name));
  if (file.get() < 0) {
    return input_error("{}: cannot write in the folder {}: {}; name one that you may write to",
                       option, folder.string(), errno_text(errno));
  }
  ::unlink(name.c_str());
  return {};
}

Result<> try_file(std::string_view option, const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return input_error("{} is the folder {}; name a file", option, file.string());
  }
  return is_special(file) ? Result<>() : try_folder(option, folder_of(file));
}

Result<> make_folder(std::string_view option, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return input_error("{}: cannot make the folder {}: {}", option, folder.string(),
                       error.message());
  }
  return try_folder(option, folder);
}

// The files whose names are known beforehand.
std::vector<std::pair<const char*, fs::path>> named_files(const LoadOutputs& outputs) {
  std::vector<std::pair<const char*, fs::path>> files;
  for (const auto& [option, path] :
       {std::pair<const char*, fs::path>{"--output-file", outputs.output_file},
        {"--csv", outputs.csv},
        {"--rows", outputs.rows},
        {"--result-filename", outputs.result_filename.empty()
                                  ? fs::path()
                                  : outputs.result_dir / outputs.result_filename}}) {
    if (!path.empty()) files.emplace_back(option, path);
  }
  return files;
}

// Python writes a float so: 4.0, 0.5, inf.
std::string python_float(double value) {
  if (std::isinf(value)) return "inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.1f}", value);
  return fmt::format("{}", value);
}

// A part of a file's name: no folder, nothing that a shell or an eye stumbles over.
std::string name_part(std::string_view text) {
  std::string part = printable(text);
  std::replace(part.begin(), part.end(), '/', '-');
  return part;
}

std::string load_name(const load::LevelPlan& plan) {
  std::string name = python_float(plan.request_rate.value_or(HUGE_VAL)) + "qps";
  if (plan.max_concurrency) name += fmt::format("-concurrency{:.0f}", *plan.max_concurrency);
  return name;
}

// A run of this level alone.
load::RunReport only(const load::RunReport& report, std::size_t level) {
  load::RunReport one{.setup = report.setup, .levels = {report.levels[level]}};
  one.incomplete = report.levels[level].report.incomplete;
  return one;
}

Result<Json> level_json(const load::RunReport& report, std::size_t level, const fs::path& rows,
                        bool detailed) {
  Json json = load::to_json(only(report, level));
  if (!detailed) return json;
  NIBBLE_ASSIGN_OR_RETURN(const Json details,
                          load::detailed(rows, report.levels[level].report.plan.level));
  for (const Json::Member& member : details.as_object()) json.set(member.first, member.second);
  return json;
}

// A level as one line: its numbers stand at the top, and so need no levels[].
Result<std::string> level_line(const load::RunReport& report, std::size_t level,
                               const fs::path& rows, bool detailed) {
  NIBBLE_ASSIGN_OR_RETURN(Json json, level_json(report, level, rows, detailed));
  Json::Object& members = json.as_object();
  std::erase_if(members, [](const Json::Member& member) { return member.first == "levels"; });
  // As SGLang's benchmark has it beside the names that are vLLM's too.
  const std::string& label = report.setup.label;
  if (json.find("tag") == nullptr) json.set("tag", label.empty() ? Json() : Json(label));
  if (json.find("dataset_name") == nullptr) json.set("dataset_name", report.setup.dataset);
  for (const auto& [name, value] : report.setup.dataset_options) {
    if (json.find(name) == nullptr) json.set(name, value);
  }
  return json.dump(0);
}

Result<> append_levels(const LoadOutputs& outputs, const load::RunReport& report,
                       const fs::path& rows) {
  for (std::size_t level = 0; level < report.levels.size(); ++level) {
    NIBBLE_ASSIGN_OR_RETURN(const std::string line,
                            level_line(report, level, rows, outputs.output_details));
    NIBBLE_RETURN_IF_ERROR(append_line(outputs.output_file, line));
  }
  return {};
}

// The result file of a level. A name that was given for several levels gets the level's load.
fs::path result_path(const LoadOutputs& outputs, const load::RunReport& report, std::size_t level,
                     std::set<std::string>& taken) {
  fs::path name = outputs.result_filename;
  if (name.empty()) {
    name = result_name(report, level);
  } else if (report.levels.size() > 1 && !outputs.append) {
    const std::string stem =
        name.stem().string() + "-" + load_name(report.levels[level].report.plan);
    name.replace_filename(stem + name.extension().string());
  }
  if (!outputs.append && !taken.insert(name.string()).second) {
    name.replace_filename(
        fmt::format("{}-level{}{}", name.stem().string(), level, name.extension().string()));
  }
  return outputs.result_dir / name;
}

Result<> save_levels(const LoadOutputs& outputs, const load::RunReport& report,
                     const fs::path& rows, std::vector<std::string>& written) {
  std::set<std::string> taken;
  for (std::size_t level = 0; level < report.levels.size(); ++level) {
    const fs::path path = result_path(outputs, report, level, taken);
    if (outputs.append) {
      NIBBLE_ASSIGN_OR_RETURN(const std::string line,
                              level_line(report, level, rows, outputs.detailed));
      NIBBLE_RETURN_IF_ERROR(append_line(path, line));
    } else {
      NIBBLE_ASSIGN_OR_RETURN(const Json json, level_json(report, level, rows, outputs.detailed));
      NIBBLE_RETURN_IF_ERROR(write_file(path, json.dump() + "\n"));
    }
    const std::string shown = path.string();
    if (std::find(written.begin(), written.end(), shown) == written.end()) written.push_back(shown);
  }
  return {};
}

// All of the text, or an errno.
int write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

bool ends_within_line(int file, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

Result<LoadOutputs> outputs_from(const Arguments& arguments) {
  LoadOutputs outputs;
  outputs.append = arguments.has("--append-result");
  outputs.save = arguments.has("--save-result") || outputs.append;
  outputs.detailed = arguments.has("--save-detailed");
  for (const char* flag : {"--save-detailed", "--result-dir", "--result-filename"}) {
    if (outputs.save || !arguments.has(flag)) continue;
    return usage_error("{} needs --save-result or --append-result", flag);
  }
  outputs.result_dir = arguments.text("--result-dir").value_or(".");
  outputs.result_filename = arguments.text("--result-filename").value_or("");
  outputs.output_file = arguments.text("--output-file").value_or("");
  outputs.output_details = arguments.has("--output-details");
  if (outputs.output_details && outputs.output_file.empty()) {
    return usage_error("--output-details needs --output-file");
  }
  outputs.csv = arguments.text("--csv").value_or("");
  outputs.rows = arguments.text("--rows").value_or("");
  outputs.report = arguments.text("--report").value_or("");
  for (const char* flag : {"--dataset-path", "--trace", "--tokenizer", "--api-key-file",
                           "--ca-file", "--model", "--model-config", "--machine", "--routing"}) {
    if (const auto path = arguments.text(flag)) outputs.inputs.emplace_back(flag, *path);
  }
  return outputs;
}

Result<> check_outputs(const LoadOutputs& outputs) {
  if (outputs.save) NIBBLE_RETURN_IF_ERROR(make_folder("--result-dir", outputs.result_dir));
  if (!outputs.report.empty()) NIBBLE_RETURN_IF_ERROR(make_folder("--report", outputs.report));
  std::vector<std::pair<std::string, fs::path>> seen;
  for (const auto& [option, path] : outputs.inputs) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) {
      seen.emplace_back(option, fs::weakly_canonical(path, ignored));
    }
  }
  for (const auto& [option, path] : named_files(outputs)) {
    NIBBLE_RETURN_IF_ERROR(try_file(option, path));
    std::error_code ignored;
    if (fs::is_fifo(path, ignored) || fs::is_socket(path, ignored)) {
      return usage_error("{} is the pipe {}; name a file", option, path.string());
    }
    if (is_special(path)) continue;
    const fs::path whole = fs::weakly_canonical(path, ignored);
    for (const auto& [other, taken] : seen) {
      if (taken == whole) {
        return usage_error("{} and {} name the same file {}; give each its own", other, option,
                           path.string());
      }
    }
    seen.emplace_back(option, whole);
  }
  return {};
}

Result<> append_line(const fs::path& path, std::string_view line) {
  const auto failed = [&path](int code) {
    return run_error("cannot append to {}: {}", path.string(), errno_text(code));
  };
  Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return failed(errno);
  const bool regular = S_ISREG(status.st_mode);
  std::string text;
  if (regular && ends_within_line(file.get(), status.st_size)) text = "\n";
  text += line;
  text += '\n';
  int code = write_whole(file.get(), text);
  if (code == 0 && regular && ::fsync(file.get()) != 0) code = errno;
  if (code != 0 && regular) static_cast<void>(::ftruncate(file.get(), status.st_size));
  if (code != 0) return failed(code);
  if (!file.close()) return failed(errno);
  return {};
}

std::string result_name(const load::RunReport& report, std::size_t level) {
  const load::RunSetup& setup = report.setup;
  const std::string& model = setup.model_id;
  const std::string base = model.substr(model.find_last_of('/') + 1);  // npos + 1 is 0
  return fmt::format("{}-{}-{}-{}.json",
                     name_part(setup.label.empty() ? setup.backend : setup.label),
                     load_name(report.levels[level].report.plan),
                     base.empty() ? "model" : name_part(base), setup.date);
}

Result<> write_outputs(const LoadOutputs& outputs, const load::RunReport& report,
                       const fs::path& rows, std::vector<std::string>& written) {
  std::optional<Error> fault;
  const auto done = [&](const Result<>& result, const fs::path& path) {
    if (!result.ok()) {
      if (!fault) fault = result.error();
    } else if (!path.empty()) {
      written.push_back(path.string());
    }
  };
  if (!outputs.rows.empty() && !is_special(outputs.rows)) written.push_back(outputs.rows.string());
  if (!outputs.csv.empty()) done(write_file(outputs.csv, load::run_csv(report)), outputs.csv);
  if (!outputs.output_file.empty()) {
    done(append_levels(outputs, report, rows), outputs.output_file);
  }
  if (outputs.save) done(save_levels(outputs, report, rows, written), {});
  if (!outputs.report.empty()) {
    const auto page = write_report(load_document(report), outputs.report);
    done(page.ok() ? Result<>() : Result<>(page.error()), page.ok() ? *page : fs::path());
  }
  // What was measured is not lost by it: the run has failed, not the command line.
  if (fault) return Error{ErrorKind::kRun, fault->message};
  return {};
}

Result<RowsFile> RowsFile::make(const LoadOutputs& outputs) {
  if (!outputs.rows.empty()) return RowsFile(outputs.rows, false);
  std::vector<fs::path> folders;
  if (outputs.save) folders.push_back(outputs.result_dir);
  for (const fs::path& file : {outputs.output_file, outputs.csv}) {
    if (!file.empty() && !is_special(file)) folders.push_back(folder_of(file));
  }
  if (!outputs.report.empty()) folders.push_back(outputs.report);
  if (const char* asked = std::getenv("TMPDIR")) folders.emplace_back(asked);
  folders.emplace_back("/var/tmp");
  folders.emplace_back("/tmp");
  for (const fs::path& folder : folders) {
    std::string name;
    const Descriptor file(open_temporary(folder, name));
    if (file.get() >= 0) return RowsFile(name, true);
  }
  return input_error("no folder takes the rows of the run, not even /tmp; name a file by --rows");
}

RowsFile::~RowsFile() {
  if (!temporary_ || path_.empty()) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
}

RowsFile::RowsFile(RowsFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}

}  // namespace nibble::cli
