#include "tactics/feasible.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/units.h"

namespace nibble {
namespace {

std::string grouped(std::int64_t number) {
  return format_count(static_cast<double>(number));
}

void reject(Feasibility& found, TacticLimit limit, std::string reason) {
  found.limit = limit;
  found.reason = std::move(reason);
}

// Why an architecture has not what a tactic is made of; "": it has.
std::string missing_instruction(const TacticCandidate& candidate, const cuda::Arch& arch) {
  const std::string target = arch.target();
  if (candidate.family() == TacticFamily::kW4A4) {
    if (has_fp4_mma(arch)) return "";
    if (arch.major == 12) {
      return fmt::format("{} without a suffix has no block-scaled FP4 mma: compile for {}a or {}f",
                         target, target, target);
    }
    if (arch.major == 10 || arch.major == 11) {
      return fmt::format(
          "{} has no mma.sync with block-scaled FP4: its FP4 is tcgen05, on tensor memory, which "
          "these kernels do not use",
          target);
    }
    return fmt::format("{} has no FP4 mma: 4-bit weights are multiplied in 16 bits there (w4a16)",
                       target);
  }
  const auto& tactic = std::get<W4A16Tactic>(candidate.tactic);
  if (tactic.family == Family::kWgmma && (arch.number() != 90 || arch.suffix != 'a')) {
    return fmt::format("wgmma is an instruction of sm_90a alone, and this is {}", target);
  }
  if (tactic.cluster > 1 && arch.major < 9) {
    return fmt::format("clusters of blocks came with sm_90, and this is {}", target);
  }
  if (tactic.cluster > 1 && arch.major == 12) {
    return fmt::format(
        "clusters of {} blocks: {} has no multicast for them to share loads, and clusters of more "
        "than one block are not used there",
        tactic.cluster, target);
  }
  return "";
}

// Columns that are not whole blocks, where there is no model to be cut in another way; "": they
// are.
std::string broken_blocks(const TacticProduct& product, const TacticCandidate& candidate) {
  if (!product.given || candidate.family() != TacticFamily::kW4A4) return "";
  const std::int64_t block = block_of(product.w4a4().weight_format());
  const std::int64_t below = product.k / block * block;
  if (below == product.k) return "";
  const std::string near =
      below > 0 ? fmt::format("{} or {}", below, below + block) : fmt::format("{}", below + block);
  return fmt::format("{} columns are not whole blocks of {}, which share a scale: take K = {}",
                     product.k, block, near);
}

// The sizes: those that no limit of a chip has to do with.
Result<> check_sizes(const TacticProduct& product, const TacticCandidate& candidate,
                     const Chip& chip) {
  constexpr int kAnyShared = 1 << 30;
  BlockLimits roomy = chip.limits;
  roomy.shared_per_block = kAnyShared;
  roomy.shared_per_sm = kAnyShared;
  // Whether others have room beside it is another question.
  const TacticCandidate alone = with_blocks(candidate, 1);
  Result<> checked = check_tactic(product, alone, roomy);
  if (checked.ok()) return checked;
  // The name stands beside the sentence already.
  Error error = checked.error();
  const std::string named = fmt::format("tactic {}: ", alone.name());
  if (error.message.starts_with(named)) error.message.erase(0, named.size());
  return error;
}

void check_shared_room(const TacticProduct& product, const Chip& chip, Feasibility& found) {
  const std::int64_t bytes = found.shared.total;
  const BlockLimits& limits = chip.limits;
  const int blocks = found.candidate.blocks_per_sm();
  if (bytes > limits.shared_per_block) {
    reject(found, TacticLimit::kBlock,
           fmt::format("a block takes {} B of shared memory and may have {}: {} B too many",
                       grouped(bytes), grouped(limits.shared_per_block),
                       grouped(bytes - limits.shared_per_block)));
  } else if (const std::int64_t all = shared_of_block(bytes) * blocks; all > limits.shared_per_sm) {
    reject(
        found, TacticLimit::kSm,
        fmt::format("{} blocks of {} B, each {} B with the driver's in units of 128, take {} B of "
                    "shared memory and an SM has {}: {} B too many",
                    blocks, grouped(bytes), grouped(shared_of_block(bytes)), grouped(all),
                    grouped(limits.shared_per_sm), grouped(all - limits.shared_per_sm)));
  }
  if (!found.feasible()) found.remedies = remedies(product, found.candidate, limits);
}

void check_threads(const Chip& chip, Feasibility& found) {
  const int wanted = found.candidate.blocks_per_sm();
  const int held = std::min(found.blocks.threads, found.blocks.slots);
  if (held >= wanted) return;
  reject(
      found, TacticLimit::kThreads,
      fmt::format("{} blocks of {} threads: an SM has {} warps and {} blocks, which is {} of "
                  "them",
                  wanted, found.candidate.threads(), chip.warps_per_sm, chip.blocks_per_sm, held));
  if (held > 0) {
    found.remedies.push_back(fmt::format("{} {} an SM", held, held == 1 ? "block" : "blocks"));
  }
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

BlockNeed need_of(const Feasibility& found) {
  return {.threads = found.candidate.threads(),
          .shared_bytes = found.shared.total,
          .registers = found.registers};
}

// Warps that multiply take registers from those that copy (setmaxnreg in w4a4.cuh): where a block
// was not given as many, they would wait for them forever.
void check_moved_registers(Feasibility& found) {
  const auto* tactic = std::get_if<W4A4Tactic>(&found.candidate.tactic);
  if (tactic == nullptr || !tactic->moves_registers() || !found.registers) return;
  const std::int64_t copying = tactic->threads() - tactic->consumers();
  const std::int64_t wanted =
      std::int64_t{kW4A4MultiplyRegisters} * tactic->consumers() + kW4A4CopyRegisters * copying;
  const std::int64_t given = std::int64_t{*found.registers} * tactic->threads();
  if (wanted <= given) return;
  reject(found, TacticLimit::kRegisters,
         fmt::format("{} threads that multiply are to have {} registers and {} that copy {}: {} "
                     "in all, and a block of {} threads is given {} each: {}",
                     tactic->consumers(), kW4A4MultiplyRegisters, copying, kW4A4CopyRegisters,
                     grouped(wanted), tactic->threads(), *found.registers, grouped(given)));
}

// Spills are no limit of a launch, but a kernel that has them loses what its tile won.
void judge_registers(Feasibility& found, const Chip& chip) {
  const int wanted = found.candidate.blocks_per_sm();
  const int threads = found.candidate.threads();
  if (found.blocks.registers.value_or(wanted) < wanted) {
    reject(found, TacticLimit::kRegisters,
           fmt::format("{} registers a thread, {} a warp, {} threads: an SM's {} hold {} of the {} "
                       "blocks",
                       *found.registers, grouped(registers_of_warp(*found.registers)), threads,
                       grouped(chip.limits.registers_per_sm), *found.blocks.registers, wanted));
    return;
  }
  check_moved_registers(found);
  if (!found.feasible()) return;
  if (found.spill_bytes.value_or(0) > 0) {
    reject(found, TacticLimit::kSpills,
           fmt::format("spills {} B: a thread needs more than the {} registers that {} {} of {} "
                       "threads leave it",
                       grouped(*found.spill_bytes), *found.registers, wanted,
                       wanted == 1 ? "block" : "blocks", threads));
  } else if (found.stack_bytes.value_or(0) > 0) {
    reject(found, TacticLimit::kSpills,
           fmt::format("keeps {} B of each thread in memory: an array that registers do not hold",
                       grouped(*found.stack_bytes)));
  }
}

}  // namespace

std::string_view to_string(TacticLimit limit) {
  switch (limit) {
    case TacticLimit::kArchitecture:
      return "architecture";
    case TacticLimit::kDivisibility:
      return "divisibility";
    case TacticLimit::kBlock:
      return "per_block";
    case TacticLimit::kSm:
      return "per_sm";
    case TacticLimit::kThreads:
      return "threads";
    case TacticLimit::kCompiler:
      return "compiler";
    case TacticLimit::kRegisters:
      return "registers";
    case TacticLimit::kSpills:
      return "spills";
  }
  return "?";
}

Feasibility feasibility(const TacticProduct& product, const TacticCandidate& candidate,
                        const Chip& chip) {
  Feasibility found{.candidate = candidate,
                    .op = product.op,
                    .name = candidate.name(),
                    .shared = budget_of(product, candidate),
                    .registers = {},
                    .spill_bytes = {},
                    .stack_bytes = {},
                    .registers_reason = "not compiled: it was rejected before",
                    .blocks = {},
                    .limit = {},
                    .reason = {},
                    .remedies = {}};
  found.blocks = blocks_per_sm(chip, need_of(found));
  std::string missing = missing_instruction(candidate, chip.arch);
  if (!missing.empty()) {
    reject(found, TacticLimit::kArchitecture, std::move(missing));
    return found;
  }
  if (std::string broken = broken_blocks(product, candidate); !broken.empty()) {
    reject(found, TacticLimit::kDivisibility, std::move(broken));
    return found;
  }
  const Result<> sizes = check_sizes(product, candidate, chip);
  if (!sizes.ok()) {
    reject(found, TacticLimit::kDivisibility, sizes.error().message);
    return found;
  }
  check_shared_room(product, chip, found);
  if (found.feasible()) check_threads(chip, found);
  if (found.feasible()) found.registers_reason = "not compiled";
  return found;
}

void judge_compiled(Feasibility& found, const Result<cuda::Cubin>& compiled, const Chip& chip) {
  if (!compiled.ok()) {
    found.registers_reason = "not compiled: " + first_line(compiled.error().message);
    return;
  }
  if (compiled->kernels.size() != 1) {
    found.registers_reason =
        fmt::format("not known: {} kernels in one program", compiled->kernels.size());
    return;
  }
  const cuda::KernelResources& kernel = compiled->kernels.front();
  found.registers = kernel.registers;
  found.registers_reason = kernel.registers ? "" : "not known: the compiler did not say";
  if (kernel.spills_known()) {
    found.spill_bytes = std::max(*kernel.spill_store_bytes, *kernel.spill_load_bytes);
  } else {
    found.registers_reason = "spills are not known: the compiler did not say";
  }
  found.stack_bytes = kernel.stack_bytes;
  found.blocks = blocks_per_sm(chip, need_of(found));
  judge_registers(found, chip);
  if (found.feasible() && !compiled->warnings.empty()) {
    reject(found, TacticLimit::kCompiler, compiled->warnings.front());
  }
}

void add_neighbours(std::vector<Feasibility>& list) {
  const auto same_tile = [](const Feasibility& one, const Feasibility& other) {
    return one.op == other.op && one.candidate.family() == other.candidate.family() &&
           one.candidate.way() == other.candidate.way() &&
           one.candidate.tile() == other.candidate.tile();
  };
  for (Feasibility& found : list) {
    if (found.limit != TacticLimit::kSpills && found.limit != TacticLimit::kRegisters) continue;
    const auto other = std::find_if(list.begin(), list.end(), [&](const Feasibility& candidate) {
      return candidate.feasible() && candidate.registers && same_tile(found, candidate);
    });
    if (other != list.end()) found.remedies.push_back(other->name);
  }
}

}  // namespace nibble
