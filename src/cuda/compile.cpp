#include "cuda/compile.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "cuda/arch.h"
#include "cuda/cubin_cache.h"
#include "cuda/nvrtc.h"
#include "cuda/ptx.h"
#include "cuda/sha256.h"

namespace nibble::cuda {
namespace {

// To be counted up whenever the options below, or what an entry of the cache means, changes.
constexpr std::string_view kFormat = "nibble.compile/1";

// The source as NVRTC takes it, files in the order of their names.
Result<NvrtcInput> make_input(const CompileRequest& request) {
  const std::optional<Arch> arch = parse_arch(request.arch);
  if (!arch) {
    return input_error(
        "\"{}\" is no architecture to compile {} for; write it as sm_80, sm_90a or compute_80",
        printable(request.arch), request.name);
  }
  NvrtcInput input{.program = request.name,
                   .main_name = request.name + ".cu",
                   .main_text = request.main,
                   .arch = *arch};
  for (const SourceFile& file : request.files) {
    if (file.name == request.main) {
      input.main_name = file.name;
      input.main_text = file.text;
    }
    input.headers.emplace_back(file.name, file.text);
  }
  std::sort(input.headers.begin(), input.headers.end());
  const auto twice =
      std::adjacent_find(input.headers.begin(), input.headers.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != input.headers.end()) {
    return input_error("{} has two files named {}; give each once", request.name, twice->first);
  }
  // No folder is searched, not even the one we run in, and every function without a word is for the
  // device.
  input.options = {"--std=c++20", "--device-as-default-execution-space", "--no-source-include"};
  // What ptxas says is the source of the spills.
  if (!arch->ptx) input.options.emplace_back("--ptxas-options=-v");
  for (const std::string& define : request.defines) input.options.push_back("-D" + define);
  input.options.insert(input.options.end(), request.options.begin(), request.options.end());
  return input;
}

std::string key_of(const NvrtcInput& input) {
  const std::string arch = input.arch.name();
  Sha256 hash;
  for (const std::string_view part :
       {kFormat, std::string_view(input.program), std::string_view(input.main_name),
        std::string_view(input.main_text), std::string_view(arch)}) {
    hash.add_part(part);
  }
  hash.add_part(fmt::format("{} options", input.options.size()));
  for (const std::string& option : input.options) hash.add_part(option);
  for (const auto& [name, text] : input.headers) {
    hash.add_part(name);
    hash.add_part(text);
  }
  return hash.hex();
}

Result<Cubin> make_cubin(CacheEntry entry, const Arch& arch) {
  Cubin cubin;
  if (entry.arch != arch.name()) {
    return run_error("{} was compiled for {}, and {} was asked for", entry.program,
                     printable(entry.arch), arch.name());
  }
  if (arch.ptx) {
    NIBBLE_ASSIGN_OR_RETURN(cubin.kernels, read_ptx_kernels(entry.image, arch));
  } else {
    NIBBLE_ASSIGN_OR_RETURN(cubin.kernels, read_kernels(entry.image));
    NIBBLE_RETURN_IF_ERROR(add_log_facts(entry.log, cubin.kernels));
  }
  cubin.warnings = log_warnings(entry.log);
  cubin.program = std::move(entry.program);
  cubin.arch = std::move(entry.arch);
  cubin.image = std::move(entry.image);
  cubin.log = std::move(entry.log);
  cubin.compiler = std::move(entry.compiler);
  return cubin;
}

// From the cache, or nothing with a note.
std::optional<Cubin> find_cubin(const CubinCache& cache, const std::string& key,
                                const std::string& compiler, const Arch& arch, std::string& note) {
  CacheFound found = cache.find(key, compiler);
  note = std::move(found.note);
  if (!found.entry) return std::nullopt;
  Result<Cubin> cubin = make_cubin(std::move(*found.entry), arch);
  if (!cubin) {
    note = cubin.error().message;
    return std::nullopt;
  }
  cubin->cached = true;
  return std::move(*cubin);
}

Error no_compiler(const Error& why, const CompileRequest& request, const CubinCache& cache,
                  const std::string& note) {
  return run_error("{} is not compiled for {}, and nothing fit to run is kept in {}{}{}: {}",
                   request.name, request.arch, cache.folder().string(), note.empty() ? "" : ", ",
                   note, why.message);
}

}  // namespace

std::filesystem::path cubin_cache_folder() {
  return CubinCache::of_user().folder();
}

Result<std::string> compiler() {
  NIBBLE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Nvrtc::get());
  return fmt::format("{} ({})", nvrtc->version(), nvrtc->path());
}

Result<Cubin> compile(const CompileRequest& request) {
  return compile_with(request, Nvrtc::get(), CubinCache::of_user());
}

Result<Cubin> compile_with(const CompileRequest& request, const Result<const Nvrtc*>& nvrtc,
                           const CubinCache& cache) {
  NIBBLE_ASSIGN_OR_RETURN(const NvrtcInput input, make_input(request));
  const std::string key = key_of(input);
  const std::string identity = nvrtc ? (*nvrtc)->identity() : "";
  std::string note;
  if (std::optional<Cubin> kept = find_cubin(cache, key, identity, input.arch, note)) {
    if (!nvrtc) {
      kept->note = fmt::format("compiled earlier by {}; there is no NVRTC here", kept->compiler);
    }
    return std::move(*kept);
  }
  if (!nvrtc) return no_compiler(nvrtc.error(), request, cache, note);

  NIBBLE_ASSIGN_OR_RETURN(NvrtcOutput output, (*nvrtc)->compile(input));
  CacheEntry entry{.program = request.name,
                   .arch = request.arch,
                   .compiler = (*nvrtc)->version(),
                   .log = std::move(output.log),
                   .image = std::move(output.image)};
  const Result<> kept = cache.keep(key, identity, entry);
  NIBBLE_ASSIGN_OR_RETURN(Cubin cubin, make_cubin(std::move(entry), input.arch));
  if (!kept) {
    cubin.note = kept.error().message;
  } else if (!note.empty()) {
    cubin.note = note + " and was compiled again";
  }
  return cubin;
}

}  // namespace nibble::cuda
