// What a checkpoint's folder says of text: its tokenizer, its chat template, which tokens end.
//
//   NIBBLE_ASSIGN_OR_RETURN(ServedModel model, load_served_model("models/Qwen3-30B-A3B-NVFP4"));
//   model.name = "qwen3";
#pragma once

#include <filesystem>

#include "base/result.h"
#include "serve/options.h"

namespace nibble::serve {

// The name is the folder's. A chat template that this program cannot render is an error, not a
// server without chats.
Result<ServedModel> load_served_model(const std::filesystem::path& folder);

}  // namespace nibble::serve
