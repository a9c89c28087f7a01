#include "cuda/nvrtc.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <type_traits>

#include "base/text.h"
#include "machine/toolkit.h"

namespace nibble::cuda {
namespace {

constexpr std::size_t kMostLogBytes = 16 << 10;  // of a log in an error

class Program {
 public:
  explicit Program(const abi::NvrtcFunctions& api) : api_(api) {}
  ~Program() {
    if (handle_ != nullptr) api_.DestroyProgram(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  abi::NvrtcProgram* address() { return &handle_; }
  abi::NvrtcProgram get() const { return handle_; }

 private:
  const abi::NvrtcFunctions& api_;
  abi::NvrtcProgram handle_ = nullptr;
};

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

// Zeros are left out: one stands before what ptxas says last, and another at the end.
std::string log_of(const abi::NvrtcFunctions& api, abi::NvrtcProgram program) {
  std::size_t bytes = 0;
  if (api.GetProgramLogSize(program, &bytes) != abi::kNvrtcSuccess || bytes == 0) return "";
  std::string log(bytes, '\0');
  if (api.GetProgramLog(program, log.data()) != abi::kNvrtcSuccess) return "";
  std::erase(log, '\0');
  return std::string(trim(log));
}

Error compile_error(const NvrtcInput& input, const std::string& version, const std::string& log) {
  std::string why = first_error(log);
  if (why.empty()) why = "the compiler does not say why";
  const bool cut = log.size() > kMostLogBytes;
  return run_error("{} does not compile for {} with {}: {}; the compiler's log{}:\n{}",
                   input.program, input.arch.name(), version, why, cut ? " (its beginning)" : "",
                   std::string_view(log).substr(0, kMostLogBytes));
}

}  // namespace

std::string first_error(std::string_view log) {
  for (const std::string& line : split(log, '\n')) {
    // "add.cu(1): error: ...", "ptxas application ptx input, line 24; error   : ...", "ptxas
    // fatal".
    const bool fault = line.find(" error:") != std::string::npos ||
                       line.find("error   :") != std::string::npos ||
                       line.find("fatal   :") != std::string::npos;
    if (fault) return std::string(trim(line));
  }
  return "";
}

Result<> Nvrtc::check(abi::NvrtcStatus status, std::string_view call,
                      std::string_view program) const {
  if (status == abi::kNvrtcSuccess) return {};
  const char* text = api_.GetErrorString(status);
  return run_error("{} of {}: {} ({}), from {}", call, program, text != nullptr ? text : "error",
                   status, path());
}

Result<Nvrtc> Nvrtc::open() {
  Nvrtc nvrtc;
  nvrtc.library_ = open_toolkit_library({"libnvrtc.so.13", "libnvrtc.so.12"});
  if (!nvrtc.library_) {
    return run_error(
        "NVRTC was not found (libnvrtc.so.13 or .12, in the toolkit's folders and in PyPI's "
        "nvidia-cuda-nvrtc); with it kernels are compiled for any GPU, also where there is none: "
        "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc");
  }
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = nvrtc.library_.symbol<std::remove_pointer_t<std::decay_t<decltype(function)>>>(name);
    if (function == nullptr) missing = name;
  };
#define NIBBLE_NVRTC_FIND(name, ...) find(nvrtc.api_.name, "nvrtc" #name);
  NIBBLE_NVRTC_FUNCTIONS(NIBBLE_NVRTC_FIND)
#undef NIBBLE_NVRTC_FIND
  find(nvrtc.api_.GetErrorString, "nvrtcGetErrorString");
  if (missing != nullptr) {
    return run_error("{} has no {}; install NVRTC 12.8 or newer", nvrtc.path(), missing);
  }
  int major = 0;
  int minor = 0;
  NIBBLE_RETURN_IF_ERROR(
      nvrtc.check(nvrtc.api_.Version(&major, &minor), "nvrtcVersion", "the library"));
  nvrtc.version_ = fmt::format("NVRTC {}.{}", major, minor);
  nvrtc.has_no_cache_ = std::pair(major, minor) >= std::pair(12, 9);
  std::error_code error;
  const auto bytes = std::filesystem::file_size(nvrtc.path(), error);
  nvrtc.identity_ = fmt::format("{}.{}-{}", major, minor, error ? 0 : bytes);
  // NVRTC opens this one by its bare name, which the loader only finds in its own path: opened here
  // by its whole name, it is there already.
  const std::filesystem::path builtins = std::filesystem::path(nvrtc.path()).parent_path() /
                                         fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
  nvrtc.builtins_ = DynamicLibrary::open({builtins.c_str()});
  return nvrtc;
}

Result<const Nvrtc*> Nvrtc::get() {
  // Never closed: it may still be at work in another thread when the process ends.
  static const Result<Nvrtc>& opened = *std::make_unique<Result<Nvrtc>>(open()).release();
  if (!opened) return opened.error();
  return &opened.value();
}

Result<> Nvrtc::check_arch(const NvrtcInput& input) const {
  int count = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(api_.GetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs", input.program));
  std::vector<int> archs(static_cast<std::size_t>(std::max(count, 0)));
  NIBBLE_RETURN_IF_ERROR(
      check(api_.GetSupportedArchs(archs.data()), "nvrtcGetSupportedArchs", input.program));
  if (std::find(archs.begin(), archs.end(), input.arch.number()) != archs.end()) return {};
  std::string known;
  for (const int arch : archs) known += fmt::format("{}sm_{}", known.empty() ? "" : ", ", arch);
  return run_error("{} ({}) cannot compile {} for {}; it knows {}", version_, path(), input.program,
                   input.arch.name(), known);
}

Result<NvrtcOutput> Nvrtc::compile(const NvrtcInput& input) const {
  NIBBLE_RETURN_IF_ERROR(check_arch(input));
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : input.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  Program program(api_);
  NIBBLE_RETURN_IF_ERROR(
      check(api_.CreateProgram(program.address(), input.main_text.c_str(), input.main_name.c_str(),
                               static_cast<int>(names.size()), texts.data(), names.data()),
            "nvrtcCreateProgram", input.program));
  std::vector<std::string> options = input.options;
  options.push_back("--gpu-architecture=" + input.arch.name());
  // What NVRTC has from its own cache, beside a driver, comes without ptxas's words on spills.
  if (has_no_cache_) options.push_back("--no-cache");
  const std::vector<const char*> arguments = pointers(options);
  const abi::NvrtcStatus status =
      api_.CompileProgram(program.get(), static_cast<int>(arguments.size()), arguments.data());
  NvrtcOutput output{.log = log_of(api_, program.get())};
  if (status == abi::kNvrtcCompilation) return compile_error(input, version_, output.log);
  if (const Result<> compiled = check(status, "nvrtcCompileProgram", input.program); !compiled) {
    return run_error("{}{}{}", compiled.error().message, output.log.empty() ? "" : "; its log:\n",
                     output.log);
  }
  NIBBLE_ASSIGN_OR_RETURN(output.image, image_of(program.get(), input));
  return output;
}

Result<std::vector<std::byte>> Nvrtc::image_of(abi::NvrtcProgram program,
                                               const NvrtcInput& input) const {
  const bool ptx = input.arch.ptx;
  std::size_t bytes = 0;
  NIBBLE_RETURN_IF_ERROR(
      check(ptx ? api_.GetPTXSize(program, &bytes) : api_.GetCUBINSize(program, &bytes),
            ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize", input.program));
  std::vector<std::byte> image(bytes);
  char* const to = reinterpret_cast<char*>(image.data());
  NIBBLE_RETURN_IF_ERROR(check(ptx ? api_.GetPTX(program, to) : api_.GetCUBIN(program, to),
                               ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN", input.program));
  return image;
}

}  // namespace nibble::cuda
