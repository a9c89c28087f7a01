#include <algorithm>
#include <filesystem>
#include <span>

#include "base/embedded.h"
#include "base/file.h"
#include "base/text.h"
#include "explain/case.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> cases();
}

namespace nibble {
namespace {

constexpr std::size_t kMaxFileBytes = 16U << 20U;

}  // namespace

std::vector<std::string> case_catalog() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded::cases()) {
    names.emplace_back(file.name.substr(0, file.name.rfind(".json")));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string_view> built_in_case(std::string_view name) {
  for (const EmbeddedFile& file : embedded::cases()) {
    if (file.name == fmt::format("{}.json", name)) return file.text;
  }
  return std::nullopt;
}

Result<Case> load_case(std::string_view name_or_path) {
  if (const std::optional<std::string_view> text = built_in_case(name_or_path)) {
    const std::string file = fmt::format("{}.json", name_or_path);
    NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(*text, file));
    return parse_case(json, file);
  }
  const std::filesystem::path path{name_or_path};
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) && !name_or_path.ends_with(".json")) {
    const std::vector<std::string> names = case_catalog();
    return input_error("no built-in case or file is named \"{}\"; the built-in cases are: {}{}",
                       name_or_path, join(names, ", "), did_you_mean(name_or_path, names));
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, name_or_path));
  return parse_case(json, name_or_path);
}

}  // namespace nibble
