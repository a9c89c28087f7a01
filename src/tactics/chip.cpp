#include "tactics/chip.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "base/text.h"
#include "cuda/device.h"

namespace nibble {
namespace {

// CUDA C++ Programming Guide, table of compute capabilities (CUDA 13.0).
struct KnownSm {
  int number;  // 10 x major + minor
  int shared_kb;
  int warps;
  int blocks;
};
constexpr std::array kKnownSms = {KnownSm{80, 164, 64, 32},  KnownSm{86, 100, 48, 16},
                                  KnownSm{87, 164, 48, 16},  KnownSm{89, 100, 48, 24},
                                  KnownSm{90, 228, 64, 32},  KnownSm{100, 228, 64, 32},
                                  KnownSm{103, 228, 64, 32}, KnownSm{110, 228, 48, 24},
                                  KnownSm{120, 100, 48, 24}, KnownSm{121, 100, 48, 24}};

Result<Chip> known_chip(const cuda::Arch& arch) {
  std::vector<std::string> names;
  for (const KnownSm& known : kKnownSms) {
    names.push_back(fmt::format("sm_{}", known.number));
    if (known.number != arch.number()) continue;
    const int shared = known.shared_kb * 1024;
    return Chip{.arch = arch,
                .machine = "",
                .title = arch.name(),
                .limits = {.major = arch.major,
                           .minor = arch.minor,
                           .shared_per_block = shared - kReservedShared,
                           .shared_per_sm = shared},
                .warps_per_sm = known.warps,
                .blocks_per_sm = known.blocks};
  }
  return usage_error("nothing is known of {}; tactics are for {}", arch.target(),
                     join(names, ", "));
}

// A number of a machine, where it has it, in place of the architecture's.
void take(const std::optional<Sourced>& number, int& value) {
  if (number) value = static_cast<int>(std::round(number->value));
}

}  // namespace

Result<Chip> chip_of(std::string_view arch) {
  const std::optional<cuda::Arch> parsed = cuda::parse_arch(arch);
  if (!parsed) {
    return usage_error("--arch is \"{}\"; give an architecture, as sm_80, sm_90a or sm_120a",
                       printable(arch));
  }
  if (parsed->ptx) {
    return usage_error(
        "--arch is {}: registers of PTX are known only where a driver compiles it; give {}",
        parsed->name(), parsed->target());
  }
  return known_chip(*parsed);
}

Result<Chip> chip_of(const MachineSpec& machine, std::string_view arch) {
  const std::optional<cuda::Arch> own = cuda::parse_arch(machine.arch);
  if (!own) {
    return usage_error(
        "--machine {} is {}; tactics are compiled for GPUs of NVIDIA: name one, as --machine "
        "rtx-pro-6000-server, or its architecture, as --arch sm_120a; neither has to be "
        "in this computer",
        machine.name, machine.arch.empty() ? "of no known architecture" : machine.arch);
  }
  const std::string usual = cuda::arch_of(own->major, own->minor);
  NIBBLE_ASSIGN_OR_RETURN(Chip chip, chip_of(arch.empty() ? std::string_view(usual) : arch));
  if (!cuda::runs_on(chip.arch, own->major, own->minor)) {
    return usage_error(
        "--arch {} and --machine {} contradict each other: that machine is {}, which does not run "
        "code for {}; leave one out",
        chip.arch.name(), machine.name, own->target(), chip.arch.name());
  }
  // Code for an earlier architecture of the same family runs on this SM.
  NIBBLE_ASSIGN_OR_RETURN(const Chip sm, known_chip(*own));
  chip.machine = machine.name;
  chip.title = machine.title;
  chip.warps_per_sm = sm.warps_per_sm;
  chip.blocks_per_sm = sm.blocks_per_sm;
  chip.limits.shared_per_block = sm.limits.shared_per_block;
  chip.limits.shared_per_sm = sm.limits.shared_per_sm;
  take(machine.shared_per_block_bytes, chip.limits.shared_per_block);
  take(machine.shared_per_sm_bytes, chip.limits.shared_per_sm);
  take(machine.registers_per_sm, chip.limits.registers_per_sm);
  return chip;
}

}  // namespace nibble
