// Formats: get_moe_configs of SGLang (sgl-project/sglang, fused_moe_triton_config.py, Triton config
// directories since 0.4) and of vLLM (vllm-project/vllm, layers/fused_moe/fused_moe.py and
// configs/), and OutOfResources of Triton (triton-lang/triton, python/triton/runtime/errors.py).
#include <algorithm>

#include "base/text.h"
#include "tactics/logs/line_events.h"
#include "tactics/logs/python_text.h"

namespace nibble::logs {
namespace {

using Kind = LineEvent::Kind;

constexpr std::string_view kMoe = "fused_moe_triton";
constexpr std::string_view kDense = "w8a8_block_fp8";

void set_config(Entry& entry, const ConfigName& name) {
  entry.op = name.shape.starts_with("E=") ? kMoe : kDense;
  if (name.down) entry.op += "_down";
  entry.shape = name.shape;
  if (!name.dtype.empty()) entry.shape += ",dtype=" + name.dtype;
  if (name.blocks) entry.shape += ",block_shape";
  entry.runner = "Triton";
  entry.device = name.device;
}

// The last file name in a text: a message may list several places for one.
std::optional<ConfigName> last_name(std::string_view text) {
  const std::size_t end = text.rfind(".json");
  return end == std::string_view::npos ? std::nullopt : read_config_name(text.substr(0, end + 5));
}

LineEvent config_event(Status status, ReasonClass kind, const ConfigName& name) {
  LineEvent event;
  event.kind = Kind::kEntry;
  event.entry.status = status;
  event.entry.reason.kind = kind;
  set_config(event.entry, name);
  return event;
}

std::optional<LineEvent> config_message(std::string_view line) {
  // The configuration of another Triton release, in place of this one's.
  if (const auto used = between(line, "Fallback to triton version ", "")) {
    if (const auto name = last_name(*used)) {
      LineEvent event = config_event(Status::kChosen, ReasonClass::kNone, *name);
      event.entry.tactic = "tuned with Triton " + std::string(used->substr(0, used->find(' ')));
      return event;
    }
  }
  const bool missing = line.find("onfig file not found at") != std::string_view::npos;
  if (missing) {
    const auto name = last_name(between(line, "not found at", "; reusing").value_or(""));
    if (!name) return std::nullopt;
    return config_event(Status::kDefault, ReasonClass::kUntuned, *name);
  }
  for (const std::string_view found :
       {"Using MoE kernel config from ", "Using configuration from "}) {
    const auto path = between(line, found, "");
    if (!path) continue;
    const auto name = last_name(*path);
    if (!name) return std::nullopt;
    LineEvent event = config_event(Status::kChosen, ReasonClass::kNone, *name);
    event.entry.tactic = "tuned";
    return event;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ConfigName> read_config_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const std::size_t end = file.rfind(".json");
  const std::size_t device = file.find(",device_name=");
  if (end == std::string_view::npos || device == std::string_view::npos || device > end) {
    return std::nullopt;
  }
  ConfigName name;
  name.shape = printable(file.substr(0, device), 60);
  if (!name.shape.starts_with("E=") && !name.shape.starts_with("N=")) return std::nullopt;
  std::string_view rest = file.substr(device + 13, end - device - 13);
  if (rest.ends_with("_down")) {
    name.down = true;
    rest.remove_suffix(5);
  }
  name.blocks = rest.find(",block_shape=") != std::string_view::npos;
  name.dtype = printable(between(rest, ",dtype=", ",").value_or(""), 30);
  name.device = printable(rest.substr(0, rest.find(',')), 80);
  std::replace(name.device.begin(), name.device.end(), '_', ' ');
  return name;
}

std::optional<LineEvent> read_triton(std::string_view line) {
  if (line.find("OutOfResources: ") != std::string_view::npos) {
    LineEvent event;
    event.entry.reason = classify(between(line, "OutOfResources: ", "").value_or(""));
    if (event.entry.reason.kind == ReasonClass::kUnknown) return std::nullopt;
    event.kind = Kind::kEntry;
    event.entry.status = Status::kFailed;
    event.entry.runner = "Triton";
    return event;
  }
  if (line.find(".json") == std::string_view::npos) return std::nullopt;
  return config_message(line);
}

}  // namespace nibble::logs
