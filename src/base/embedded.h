// Files built into the program (data/, chart.js), embedded by cmake/NibbleEmbed.cmake.
//
//   namespace nibble::embedded { std::span<const EmbeddedFile> machines(); }
//   for (const EmbeddedFile& file : embedded::machines()) parse(file.text, file.name);
#pragma once

#include <span>
#include <string_view>

namespace nibble {

struct EmbeddedFile {
  std::string_view name;  // path below the embedded folder, as "h200.json"
  std::string_view text;  // the file's bytes
};

}  // namespace nibble
