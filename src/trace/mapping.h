// Which operation a kernel belongs to and which annotation is a step: rules of data/trace_ops.json.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::load({}));
//   const KernelRule* rule = mapping.kernel("nvjet_tst_64x8_64x16_4x1_v_bz_TNT");   // op "gemm"
//   const StepMatch step = mapping.step("step[DECODE bs=64]");                      // a decode
//   step
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/regex.h"
#include "base/result.h"

namespace nibble::trace {

inline constexpr std::string_view kUnmapped = "unmapped";

// A pattern that is found anywhere in a name; ^ ties it to the start.
class NamePattern {
 public:
  static Result<NamePattern> compile(std::string_view pattern);
  bool found_in(std::string_view name) const;
  bool gave_up() const { return regex_.gave_up(); }

 private:
  explicit NamePattern(Regex regex) : regex_(std::move(regex)) {}
  Regex regex_;
};

struct KernelRule {
  NamePattern pattern;
  std::string op;
  // Kernels of the rule that follow one another within a step are `op` and `then` in turn, as the
  // two products of an MoE layer are; where their number in a step is odd or they run on several
  // streams, they are `otherwise`.
  std::string then;
  std::string otherwise;
  std::string example;  // a name that this rule, and no earlier one, matches
  std::string note;
  bool once = false;  // runs once a step
};

enum class StepKind : std::uint8_t {
  kDecode,
  kPrefill,  // or mixed
  kAny,      // the name does not tell
};

struct StepMatch {
  int family = -1;  // index of `families`, -1: no step
  StepKind kind = StepKind::kAny;
};

// Annotations of one origin; the first family that a trace has is used.
struct StepFamily {
  std::string name;
  std::string engine;  // that writes them; "" when several do
  std::vector<std::pair<NamePattern, StepKind>> rules;
};

// Texts in names of operators and functions by which an engine is known.
struct EngineMark {
  std::string engine;
  std::vector<std::string> texts;
};

class Mapping {
 public:
  // The built-in rules, or those of a file.
  static Result<Mapping> load(const std::filesystem::path& path);
  static Result<Mapping> parse(const Json& json, const std::string& where);

  const KernelRule* kernel(std::string_view name) const;  // null: no rule knows it
  StepMatch step(std::string_view name) const;
  // The ledger's operations in a row.
  std::vector<std::string> covers(const std::string& op) const;

  const std::vector<KernelRule>& rules() const { return rules_; }
  const std::vector<StepFamily>& families() const { return families_; }
  const std::vector<EngineMark>& engines() const { return engines_; }
  bool gave_up() const;  // a pattern took too many steps, and was not applied any more

 private:
  std::vector<KernelRule> rules_;
  std::vector<StepFamily> families_;
  std::vector<EngineMark> engines_;
  std::map<std::string, std::vector<std::string>> rows_;
};

}  // namespace nibble::trace
