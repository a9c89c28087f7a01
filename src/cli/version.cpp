#include "cli/version.h"

#include <algorithm>
#include <fmt/core.h>

namespace nibble::cli {
namespace {

#if defined(__clang__)
constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif

std::string describe(const LibraryStatus& library) {
  if (library.found()) {
    const std::string separator = library.version.empty() ? "" : " ";
    return library.version + separator + "(" + library.path + ")";
  }
  return library.reason.empty() ? "not found" : "not found: " + library.reason;
}

}  // namespace

std::string_view version() {
  return NIBBLE_VERSION;
}

std::string version_text(std::span<const LibraryStatus> libraries) {
  std::size_t width = std::string_view("compiler").size();
  for (const LibraryStatus& library : libraries) width = std::max(width, library.name.size());
  std::string text = fmt::format("nibble {}\n", version());
  text += fmt::format("{:<{}}  {}\n", "build", width, NIBBLE_BUILD_TYPE);
  text += fmt::format("{:<{}}  {}\n", "compiler", width, kCompiler);
  for (const LibraryStatus& library : libraries) {
    text += fmt::format("{:<{}}  {}\n", library.name, width, describe(library));
  }
  return text;
}

}  // namespace nibble::cli
