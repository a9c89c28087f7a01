// What a program is compiled for: "sm_90a" gives a cubin for GPUs of that architecture,
// "compute_80" gives PTX, which the driver of that or any later GPU compiles when it is loaded.
//
//   const std::optional<Arch> arch = parse_arch("compute_80");
//   if (arch && arch->ptx) ...;
//   NIBBLE_ASSIGN_OR_RETURN(const Arch runs, arch_to_run(gpu.info(), "compute_80"));  // device.h
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::cuda {

struct Arch {
  int major = 0;
  int minor = 0;
  // 'a': the instructions of this architecture alone; 'f': of its family; or 0.
  char suffix = '\0';
  bool ptx = false;  // "compute_": text that the driver compiles

  std::string target() const;  // as PTX names it: "sm_80"
  std::string name() const;    // "sm_90a", "compute_80"
  int number() const { return 10 * major + minor; }
  friend bool operator==(const Arch&, const Arch&) = default;
};

// "sm_90", "sm_90a", "sm_100f", "compute_80"; nothing for other texts.
std::optional<Arch> parse_arch(std::string_view text);

// Whether code for `arch` runs on a GPU of this compute capability.
bool runs_on(const Arch& arch, int major, int minor);

}  // namespace nibble::cuda
