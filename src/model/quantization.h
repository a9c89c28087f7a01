// Which modules of a checkpoint are quantized, and how. Read from hf_quant_config.json or from
// config.json's quantization_config, never from the model's name.
//
//   quantization.format_of("model.layers.3.mlp.experts.0.gate_proj")  // {nvfp4, nvfp4}
//   quantization.format_of("lm_head")                                 // {bf16, bf16}: excluded
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/format.h"
#include "model/module_pattern.h"

namespace nibble {

struct ModuleFormat {
  Format weights = Format::kBf16;
  Format activations = Format::kBf16;
  friend bool operator==(const ModuleFormat&, const ModuleFormat&) = default;
};

class Quantization {
 public:
  Quantization() = default;  // bf16, not quantized
  // Not quantized: every module in `base` (torch_dtype).
  explicit Quantization(Format base) : base_{base, base} {}

  // `quantization_config` of config.json (may be null), `hf_quant_config.json` (may be null).
  // When both are given they must agree; where they do not, the warning says what each claims and
  // config.json is followed, as SGLang does. `where` and `hf_where` name the two in messages
  // ("config.json: quantization_config", "hf_quant_config.json"). Pattern lists that would take too
  // long to ask for every module of `layers` layers are refused.
  static Result<Quantization> parse(const Json* quantization_config, const Json* hf_quant_config,
                                    Format base, std::string_view where, std::string_view hf_where,
                                    std::int64_t layers, std::vector<std::string>& warnings);

  ModuleFormat format_of(std::string_view module) const;
  // The size of the blocks of its weights, where the configuration states one: a claim of its own,
  // for it may contradict the format.
  std::optional<std::int64_t> group_size_of(std::string_view module) const;
  ModuleFormat base() const { return base_; }
  // A regular expression that makes it take too long to ask for all `modules`, or nullptr.
  const std::string* slow_regex(const std::vector<std::string>& modules) const;
  std::optional<Format> kv_format() const { return kv_; }  // kv_cache_quant_algo
  const std::string& method() const { return method_; }  // "modelopt", "fp8", "mxfp4", ...; "" none
  // One line: "nvfp4 x nvfp4 on linear layers (modelopt), except lm_head,
  // model.layers.*.self_attn*; KV cache fp8".
  std::string summary() const;

 private:
  // What a rule covers, beside the modules that it names.
  enum class Class { kNone, kLinear, kRoutedExperts };
  struct Rule {
    ModulePatterns named;
    Class all = Class::kNone;
    ModuleFormat format;
    std::optional<std::int64_t> group_size = std::nullopt;  // as stated
  };

  const Rule* rule_of(std::string_view module) const;  // nullptr: not quantized

  bool is_left_alone(std::string_view module) const;
  Result<> check_work(std::int64_t layers, std::string_view where) const;

  ModuleFormat base_;
  std::vector<Rule> rules_;  // those that name modules first; the first match wins
  ModulePatterns excluded_;  // stronger than every rule
  // Modules that this dialect never converts unless a rule names them (last component of the path).
  std::vector<std::string> left_alone_;
  std::optional<Format> kv_;
  std::string method_;

  friend class QuantizationParser;
};

}  // namespace nibble
