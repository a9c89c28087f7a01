// Which nibble this is: the version, how it was built, and the libraries it finds here.
//
//   fmt::print("{}", version_text(probe_libraries()));
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "machine/probe.h"

namespace nibble::cli {

std::string_view version();  // "0.1.0"

// What `nibble --version` prints, one line each: version, build type, compiler, libraries.
std::string version_text(std::span<const LibraryStatus> libraries);

}  // namespace nibble::cli
