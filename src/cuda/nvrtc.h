// NVRTC, opened at run time, and one compilation with it; without the cache (cuda/compile.h has
// it).
//
//   NIBBLE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Nvrtc::get());
//   NIBBLE_ASSIGN_OR_RETURN(const NvrtcOutput out, nvrtc->compile({.name = "add", .main = text}));
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dynamic_library.h"
#include "base/result.h"
#include "cuda/arch.h"
#include "cuda/nvrtc_abi.h"

namespace nibble::cuda {

struct NvrtcInput {
  std::string program;    // its name, in messages
  std::string main_name;  // as the log names it: "add.cu"
  std::string main_text;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  Arch arch;
  std::vector<std::string> options;  // the architecture's is not among them
};

struct NvrtcOutput {
  std::vector<std::byte> image;  // a cubin, or PTX with the zero that ends it
  std::string log;
};

class Nvrtc {
 public:
  // Opened once for the process; the same answer at every call.
  static Result<const Nvrtc*> get();

  Result<NvrtcOutput> compile(const NvrtcInput& input) const;

  const std::string& version() const { return version_; }  // "NVRTC 13.0"
  const std::string& path() const { return library_.path(); }
  // "13.0-6847700": its version, and its size, since updates of one version compile differently.
  const std::string& identity() const { return identity_; }

 private:
  static Result<Nvrtc> open();
  Result<> check(abi::NvrtcStatus status, std::string_view call, std::string_view program) const;
  Result<> check_arch(const NvrtcInput& input) const;
  Result<std::vector<std::byte>> image_of(abi::NvrtcProgram program, const NvrtcInput& input) const;

  DynamicLibrary library_;
  DynamicLibrary builtins_;
  abi::NvrtcFunctions api_;
  std::string version_;
  std::string identity_;
  bool has_no_cache_ = false;
};

// The line of a log that says what is wrong; "" where none does.
std::string first_error(std::string_view log);

}  // namespace nibble::cuda
