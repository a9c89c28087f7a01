// CUDA C++ in memory -> a cubin or PTX, by NVRTC, for any architecture and without a GPU. What was
// compiled is kept on disk (docs/cuda.md).
//
//   const SourceFile files[] = {{"kernels/device/types.cuh", types_text}, {"add.cu", add_text}};
//   NIBBLE_ASSIGN_OR_RETURN(const Cubin cubin, compile({.name = "add", .files = files,
//                           .main = "add.cu", .defines = {"TILE=64"}, .arch = "sm_90a"}));
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cuda/cubin.h"

namespace nibble::cuda {

struct SourceFile {
  std::string_view name;  // as it is included: "kernels/ptx/mma.cuh"
  std::string_view text;
};

struct CompileRequest {
  std::string name;                   // of the program, in messages
  std::span<const SourceFile> files;  // all that is included; no folder is searched
  std::string main;                   // the name of one of the files, or the text to compile
  std::vector<std::string> defines;   // "TILE=64", "FAST"
  std::string arch = "sm_90a";        // or "compute_80": PTX, for any later GPU as well
  std::vector<std::string> options;   // further ones of NVRTC: "--generate-line-info"
};

class CubinCache;
class Nvrtc;

// Through the cache. An error is one sentence, followed by the compiler's log where it has one.
Result<Cubin> compile(const CompileRequest& request);
// With a compiler, or the reason why there is none, and a cache of one's own choice.
Result<Cubin> compile_with(const CompileRequest& request, const Result<const Nvrtc*>& nvrtc,
                           const CubinCache& cache);

// Where compiled programs are kept: $NIBBLE_CUBIN_CACHE, or cubins/ in nibble's cache folder.
std::filesystem::path cubin_cache_folder();

// "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)", or why there is none and what it would give.
Result<std::string> compiler();

}  // namespace nibble::cuda
