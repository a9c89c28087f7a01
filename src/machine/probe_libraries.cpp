#include <memory>

#include "base/dynamic_library.h"
#include "machine/probe.h"
#include "machine/probe_parse.h"
#include "machine/toolkit.h"

namespace nibble {
namespace {

// A library: how it is found, how it says its version, what it would give.
struct LibraryDef {
  const char* name;
  std::vector<const char*> files;  // sonames, newest first
  bool in_toolkit;                 // also looked for in the toolkit's and PyPI's folders
  const char* gives;
  void (*inspect)(const DynamicLibrary&, LibraryStatus&);  // version, and why it does not work
};

void inspect_nvml(const DynamicLibrary&, LibraryStatus& status) {
  const Nvml nvml = Nvml::open();
  status.version = nvml.driver_version();
  status.reason = nvml.reason();
}

void inspect_driver(const DynamicLibrary& library, LibraryStatus& status) {
  int version = 0;
  if (auto* get_version = library.symbol<int(int*)>("cuDriverGetVersion");
      get_version != nullptr && get_version(&version) == 0) {
    status.version = cuda_version_text(version);
  }
  auto* init = library.symbol<int(unsigned)>("cuInit");
  if (init == nullptr) {
    status.reason = "the library has no cuInit";
  } else if (const int code = init(0); code != 0) {
    const char* text = nullptr;
    auto* error_string = library.symbol<int(int, const char**)>("cuGetErrorString");
    if (error_string != nullptr) error_string(code, &text);
    status.reason = fmt::format("cuInit failed with error {}{}{}", code,
                                text != nullptr ? ": " : "", text != nullptr ? text : "");
  }
}

void inspect_nvrtc(const DynamicLibrary& library, LibraryStatus& status) {
  int major = 0;
  int minor = 0;
  auto* version = library.symbol<int(int*, int*)>("nvrtcVersion");
  if (version != nullptr && version(&major, &minor) == 0) {
    status.version = fmt::format("{}.{}", major, minor);
  }
}

void inspect_nccl(const DynamicLibrary& library, LibraryStatus& status) {
  int version = 0;
  auto* get_version = library.symbol<int(int*)>("ncclGetVersion");
  if (get_version != nullptr && get_version(&version) == 0) {
    status.version = nccl_version_text(version);
  }
}

void inspect_cublaslt(const DynamicLibrary& library, LibraryStatus& status) {
  if (auto* get_version = library.symbol<std::size_t()>("cublasLtGetVersion")) {
    status.version = cublaslt_version_text(get_version());
  }
}

void inspect_cupti(const DynamicLibrary& library, LibraryStatus& status) {
  std::uint32_t version = 0;
  auto* get_version = library.symbol<int(std::uint32_t*)>("cuptiGetVersion");
  if (get_version != nullptr && get_version(&version) == 0) {
    status.version = fmt::format("API {}", version);
  }
}

const std::vector<LibraryDef>& library_definitions() {
  static const std::vector<LibraryDef> definitions = {
      {"NVML",
       {"libnvidia-ml.so.1"},
       false,
       "which GPUs there are; power, clocks, throttling and memory of each",
       inspect_nvml},
      {"CUDA driver", {"libcuda.so.1"}, false, "running kernels on the GPU", inspect_driver},
      {"NVRTC",
       {"libnvrtc.so.13", "libnvrtc.so.12"},
       true,
       "compiling kernels for any architecture, also without a GPU",
       inspect_nvrtc},
      {"NCCL", {"libnccl.so.2"}, true, "measured collectives between GPUs", inspect_nccl},
      {"cuBLASLt",
       {"libcublasLt.so.13", "libcublasLt.so.12"},
       true,
       "the maker's matrix product to compare with",
       inspect_cublaslt},
      {"CUPTI",
       {"libcupti.so.13", "libcupti.so.12"},
       true,
       "kernel times and counters from inside the process",
       inspect_cupti},
  };
  return definitions;
}

DynamicLibrary open_library(const LibraryDef& definition) {
  if (definition.in_toolkit) return open_toolkit_library(definition.files);
  DynamicLibrary library;
  for (const char* file : definition.files) {
    library = DynamicLibrary::open({file});
    if (library) break;
  }
  return library;
}

}  // namespace

std::vector<LibraryStatus> probe_libraries() {
  // Never closed, not even at exit: a driver that was initialised does not survive being unloaded,
  // and what these libraries allocated for themselves would lose its owner.
  static std::vector<DynamicLibrary>& opened =
      *std::make_unique<std::vector<DynamicLibrary>>().release();
  std::vector<LibraryStatus> statuses;
  for (const LibraryDef& definition : library_definitions()) {
    LibraryStatus status;
    status.name = definition.name;
    status.gives = definition.gives;
    DynamicLibrary library = open_library(definition);
    if (library) {
      status.path = library.path();
      definition.inspect(library, status);
      opened.push_back(std::move(library));
    } else {
      status.reason = library.reason();
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

}  // namespace nibble
