// What the compiler's log says of a program: `ptxas -v` of each kernel, and warnings.
#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "cuda/cubin.h"

namespace nibble::cuda {
namespace {

constexpr std::string_view kEntry = "Compiling entry function '";
constexpr std::string_view kFunction = "Function properties for ";
constexpr std::string_view kUsed = ": Used ";

// The text after `marker`, if the line has it.
std::optional<std::string_view> after(std::string_view line, std::string_view marker) {
  const std::size_t at = line.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + marker.size());
}

// The number before the words, as in "1460 bytes spill stores"; 0 where the line has none.
int number_before(std::string_view line, std::string_view words) {
  const std::size_t end = line.find(words);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

KernelResources* find(std::vector<KernelResources>& kernels, std::string_view name) {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const KernelResources& k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

// "add.cu(1): warning #177-D: ...", "ptxas warning : ...", "ptxas info    : (C7508) ...": not the
// lines of the source that the compiler shows.
bool is_warning(std::string_view line) {
  if (!line.starts_with("ptxas")) return line.find(": warning ") != std::string_view::npos;
  return line.find("warning ") != std::string_view::npos ||
         line.find(": (C") != std::string_view::npos;
}

bool is_spill_line(std::string_view line) {
  return line.find(" bytes spill stores") != std::string_view::npos;
}

}  // namespace

Result<> add_log_facts(std::string_view log, std::vector<KernelResources>& kernels) {
  std::string entry;     // whose "Used" line comes
  std::string function;  // whose spills come
  for (const std::string& line : split(log, '\n')) {
    if (const auto rest = after(line, kEntry)) {
      entry = rest->substr(0, rest->find('\''));
    } else if (const auto name = after(line, kFunction)) {
      function = trim(*name);
    } else if (is_spill_line(line)) {
      KernelResources* kernel = find(kernels, function);
      if (kernel == nullptr) continue;  // not a kernel: log_warnings() tells its spills
      kernel->spill_store_bytes = number_before(line, " bytes spill stores");
      kernel->spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (after(line, kUsed)) {
      if (KernelResources* kernel = find(kernels, entry)) {
        kernel->barriers = number_before(line, " barriers");
      }
    }
  }
  for (const KernelResources& kernel : kernels) {
    if (kernel.spills_known()) continue;
    return run_error(
        "the compiler's log does not say whether {} spills registers; its words may have changed "
        "with its version: use NVRTC 12.8 to 13.0",
        kernel.name);
  }
  return {};
}

std::vector<std::string> log_warnings(std::string_view log) {
  std::vector<std::string> warnings;
  const auto add = [&](std::string text) {
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(std::move(text));
    }
  };
  std::vector<std::string> entries;
  std::string function;
  for (const std::string& line : split(log, '\n')) {
    if (const auto rest = after(line, kEntry)) {
      entries.emplace_back(rest->substr(0, rest->find('\'')));
    } else if (const auto name = after(line, kFunction)) {
      function = trim(*name);
    } else if (is_warning(line)) {
      add(std::string(trim(line)));
    } else if (is_spill_line(line)) {
      const int bytes = number_before(line, " bytes spill stores");
      const bool kernel = std::find(entries.begin(), entries.end(), function) != entries.end();
      if (bytes > 0 && !kernel) {
        add(fmt::format("the function {} is not inlined and spills {} bytes", function, bytes));
      }
    }
  }
  return warnings;
}

}  // namespace nibble::cuda
