// Which modules of a checkpoint are quantized, and how. Read from hf_quant_config.json or from
// config.json's quantization_config, never from the model's name.
//
//   quantization.format_of("model.layers.3.mlp.experts.0.gate_proj")  // Format::kNvfp4
//   quantization.format_of("lm_head")                                 // Format::kBf16: excluded
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/format.h"

namespace nibble {

struct ModuleFormat {
  Format weights = Format::kBf16;
  Format activations = Format::kBf16;
  friend bool operator==(const ModuleFormat&, const ModuleFormat&) = default;
};

class Quantization {
 public:
  // Not quantized: every module in `base` (torch_dtype).
  explicit Quantization(Format base = Format::kBf16) : base_{base, base} {}

  // `quantization_config` of config.json (may be null), `hf_quant_config.json` (may be null).
  // When both are given they must agree; where they do not, the warning says what each claims and
  // config.json is followed, as SGLang does.
  static Result<Quantization> parse(const Json* quantization_config, const Json* hf_quant_config,
                                    Format base, std::string_view where,
                                    std::vector<std::string>& warnings);

  ModuleFormat format_of(std::string_view module) const;
  std::optional<Format> kv_format() const { return kv_; }  // kv_cache_quant_algo
  const std::string& method() const { return method_; }    // "modelopt", "fp8", "mxfp4", ...; "" none
  // One line: "nvfp4 (modelopt): routed experts; excluded: lm_head, model.layers.*.self_attn*".
  std::string summary() const;

 private:
  struct Pattern {
    enum class Kind { kGlob, kRegex, kPrefix, kClass } kind;
    std::string text;
    bool matches(std::string_view module) const;
  };
  struct Rule {
    std::vector<Pattern> targets;
    ModuleFormat format;
  };

  ModuleFormat base_;
  std::vector<Rule> rules_;        // first match wins, after the exclusions
  std::vector<Pattern> excluded_;
  std::optional<Format> kv_;
  std::string method_;

  friend class QuantizationParser;
};

}  // namespace nibble
