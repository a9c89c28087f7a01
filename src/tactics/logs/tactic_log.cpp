#include "tactics/logs/tactic_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "tactics/logs/caches.h"
#include "tactics/logs/collector.h"
#include "tactics/logs/line_source.h"
#include "tactics/logs/log_reader.h"

namespace nibble::logs {
namespace {

constexpr std::size_t kHead = 64 * 1024;       // bytes from which the kind of file is told
constexpr std::size_t kMostJson = 256u << 20;  // caches are read whole; they have some megabytes

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// A file: its head, which has been read already, and the rest as it comes.
struct Source {
  std::string head;
  LineSource::Read rest;
};

std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

// "" for text in UTF-8, else what the file is and what to do about it.
std::string fault_of_head(std::string_view head) {
  if (head.empty()) return "is empty; give a server's log or a cache of its autotuner";
  const bool marked = head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF");
  const std::string_view start = head.substr(0, 512);
  const auto zeros = std::count(start.begin(), start.end(), '\0');
  // Plain text in UTF-16 has a zero in each pair of bytes.
  const bool pairs = start.size() >= 4 && zeros * 3 > static_cast<std::ptrdiff_t>(start.size());
  if (marked || (pairs && zeros * 3 < 2 * static_cast<std::ptrdiff_t>(start.size()))) {
    return "is in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8";
  }
  if (head.starts_with("\x1F\x8B")) return "is compressed; unpack it first: gzip -d";
  if (head.find('\0') != std::string_view::npos) {
    return "is binary; give a server's log, or a cache of an autotuner in JSON";
  }
  return "";
}

// An object, or an array of values; "[2026-01-02 ..." is how lines of logs begin.
bool begins_as_json(std::string_view head) {
  std::string_view text = trim(without_mark(head));
  if (text.starts_with('{')) return true;
  if (!text.starts_with('[')) return false;
  text = trim(text.substr(1, 64));
  return !text.empty() && std::string_view("{[]\"").find(text.front()) != std::string_view::npos;
}

// Loggers that write one JSON object a line: the first line is whole, and more follow.
bool is_json_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || trim(text.substr(end)).empty()) return false;
  return Json::parse(text.substr(0, end), "line 1").ok();
}

Result<TacticLog> read_document(const Json& document, std::string_view name) {
  TacticLog log;
  log.name = name;
  Collector collector(log);
  for (const auto reader : {read_flashinfer_cache, read_tensorrt_llm_cache, read_triton_config}) {
    NIBBLE_ASSIGN_OR_RETURN(const bool mine, reader(document, collector));
    if (mine) return log;
  }
  return input_error(
      "{} is JSON ({}), but no cache of FlashInfer or TensorRT-LLM and no Triton MoE "
      "configuration; "
      "known are objects with \"('op', 'Runner', shapes)\": [runner, tactic] or \"key\", "
      "\"runner\", \"tactic\" (FlashInfer), with \"metadata\" and \"rank_0\" (TensorRT-LLM), and "
      "with batch sizes that have BLOCK_SIZE_M (Triton): docs/tactic_logs.md says where the "
      "programs keep them",
      name, document.kind_name());
}

TacticLog read_lines(std::string_view name, LineSource::Read read) {
  TacticLog log;
  log.name = name;
  log.format = "log";
  Collector collector(log);
  LogReader reader(collector);
  LineSource lines(std::move(read));
  LogLine line;
  while (lines.next(line)) {
    reader.read(line);
    log.lines = line.number;
  }
  reader.finish();
  return log;
}

LineSource::Read read_bytes(std::string_view bytes) {
  return [bytes](std::span<char> buffer) mutable {
    const std::size_t count = std::min(buffer.size(), bytes.size());
    if (count > 0) std::memcpy(buffer.data(), bytes.data(), count);
    bytes.remove_prefix(count);
    return count;
  };
}

// First what is in memory, then the rest.
LineSource::Read read_both(std::string_view head, LineSource::Read rest) {
  return [first = read_bytes(head), rest = std::move(rest)](std::span<char> buffer) mutable {
    const std::size_t count = first(buffer);
    return count > 0 ? count : rest(buffer);
  };
}

// All of it, up to a bound; false beyond.
bool read_all(Source& source, std::string& text) {
  text = source.head;
  std::array<char, kHead> chunk{};
  while (const std::size_t count = source.rest(chunk)) {
    text.append(chunk.data(), count);
    if (text.size() > kMostJson) return false;
  }
  return true;
}

Result<TacticLog> read_source(Source source, std::string_view name) {
  if (const std::string fault = fault_of_head(source.head); !fault.empty()) {
    return input_error("{} {}", name, fault);
  }
  // A small file is whole in its head; one that is JSON is no log, whatever it begins with.
  const bool small = source.head.size() < kHead;
  if (!begins_as_json(source.head) && small) {
    const Result<Json> document = Json::parse(trim(without_mark(source.head)), name);
    if (document.ok()) return read_document(*document, name);
  }
  if (!begins_as_json(source.head)) {
    return read_lines(name, read_both(without_mark(source.head), std::move(source.rest)));
  }
  std::string text;
  if (!read_all(source, text)) {
    // No tuner's cache grows so large: a log of which each line is JSON.
    return read_lines(name, read_both(text, std::move(source.rest)));
  }
  const std::string_view plain = without_mark(text);
  const Result<Json> document = Json::parse(plain, name);
  if (document.ok()) return read_document(*document, name);
  if (is_json_lines(trim(plain)) || plain.find("[Auto") != std::string_view::npos) {
    return read_lines(name, read_bytes(plain));
  }
  return document.error();
}

}  // namespace

Result<TacticLog> read_tactic_log(const std::filesystem::path& path) {
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault)) {
    return input_error("{} is a folder; name a log, or a .json file of a cache in it",
                       path.string());
  }
  errno = 0;
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return input_error("cannot read {}: {}", path.string(), std::generic_category().message(errno));
  }
  const LineSource::Read read = [&file](std::span<char> buffer) {
    return std::fread(buffer.data(), 1, buffer.size(), file.get());
  };
  Source source{.head = std::string(kHead, '\0'), .rest = read};
  source.head.resize(read(std::span<char>(source.head.data(), source.head.size())));
  Result<TacticLog> log = read_source(std::move(source), path.string());
  if (std::ferror(file.get()) != 0) return run_error("{} cannot be read to its end", path.string());
  return log;
}

Result<TacticLog> read_tactic_text(std::string_view bytes, std::string_view name) {
  const std::string_view head = bytes.substr(0, kHead);
  return read_source(
      Source{.head = std::string(head), .rest = read_bytes(bytes.substr(head.size()))}, name);
}

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kTried:
      return "tried";
    case Status::kChosen:
      return "chosen";
    case Status::kSkipped:
      return "skipped";
    case Status::kFailed:
      return "failed";
    case Status::kDefault:
      return "default";
  }
  return "";
}

}  // namespace nibble::logs
