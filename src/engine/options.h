// What an engine's options stand for on a machine with a model, and which requests it can serve.
//
//   NIBBLE_ASSIGN_OR_RETURN(options, settle(options, model.info(), available_memory_bytes()));
//   NIBBLE_RETURN_IF_ERROR(admit(request, options, model.info()));
#pragma once

#include "base/result.h"
#include "engine/engine.h"

namespace nibble::engine {

// Replaces every 0 by what it stands for. Input errors for options that do not fit together, a run
// error when half of the memory does not hold one block.
Result<EngineOptions> settle(EngineOptions options, const ModelInfo& model, double memory_bytes);

// Tokens that one request may have, prompt and output: what the model and the pool can hold.
std::int64_t most_tokens(const EngineOptions& options);

// Cuts max_tokens to what the prompt leaves. Input errors, each beginning with the name of the
// field, for what can never be served.
Result<> admit(EngineRequest& request, const EngineOptions& options, const ModelInfo& model);

}  // namespace nibble::engine
