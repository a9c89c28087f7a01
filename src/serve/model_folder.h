// What a checkpoint's folder says of text: its tokenizer, its chat template, which tokens end, how
// tokens are chosen.
//
//   NIBBLE_ASSIGN_OR_RETURN(ServedModel model, load_served_model("models/Qwen3-30B-A3B-NVFP4"));
//   model.name = "qwen3";
#pragma once

#include <filesystem>

#include "base/result.h"
#include "serve/options.h"

namespace nibble::serve {

// Whether requests that do not say are sampled as generation_config.json has it, or as OpenAI has
// it. Which tokens end an answer is taken from that file in any case.
enum class GenerationConfig { kAuto, kNone };

// The name is the folder's. A chat template that this program cannot render is an error, not a
// server without chats.
Result<ServedModel> load_served_model(const std::filesystem::path& folder,
                                      GenerationConfig generation_config = GenerationConfig::kAuto);

}  // namespace nibble::serve
