#include "engine/options.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/thread_pool.h"
#include "engine/sampler.h"

namespace nibble::engine {
namespace {

constexpr std::int64_t kMostOfAnything = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kTokensOfUsualRequest = 1024;  // prompt and output, for the pool's default

struct Count {
  std::string_view name;
  std::int64_t value = 0;
  std::int64_t least = 0;
};

Result<> check_counts(const EngineOptions& options) {
  const Count counts[] = {
      {"max_running_requests", options.max_running_requests, 1},
      {"max_num_batched_tokens", options.max_num_batched_tokens, 1},
      {"max_queued_requests", options.max_queued_requests, 1},
      {"max_model_len", options.max_model_len, 0},
      {"kv_blocks", options.kv_blocks, 0},
      {"block_tokens", options.block_tokens, 1},
      {"threads", options.threads, 0},
  };
  for (const Count& count : counts) {
    if (count.value >= count.least && count.value <= kMostOfAnything) continue;
    return input_error("{} is {}; give a number from {} to {}", count.name, count.value,
                       count.least, kMostOfAnything);
  }
  return {};
}

// Keys and values, and what the pool keeps of it.
double block_bytes(const EngineOptions& options, const ModelInfo& model) {
  constexpr double kBookkeeping = 128;
  const double token_bytes = static_cast<double>(model.kv_bytes_per_token) + sizeof(TokenId);
  return token_bytes * static_cast<double>(options.block_tokens) + kBookkeeping;
}

// As many as max_running_requests usual requests need, and at least one of max_model_len tokens,
// within half of the memory.
Result<std::int64_t> default_blocks(const EngineOptions& options, const ModelInfo& model,
                                    double memory_bytes) {
  const std::int64_t tokens =
      std::max(options.max_running_requests * kTokensOfUsualRequest, options.max_model_len);
  const std::int64_t wanted = (tokens - 1) / options.block_tokens + 1;
  const double each = block_bytes(options, model);
  const double most = std::min(memory_bytes / 2 / each, 2e9);
  if (most < 1) {
    return run_error(
        "half of the {:.0f} MB of free memory do not hold one KV block of {} tokens ({:.0f} MB); "
        "free memory or make block_tokens smaller",
        memory_bytes / 1e6, options.block_tokens, each / 1e6);
  }
  return std::min({wanted, static_cast<std::int64_t>(most), kMostOfAnything});
}

Result<> check_memory(const EngineOptions& options, const ModelInfo& model, double memory_bytes) {
  const double blocks = static_cast<double>(options.kv_blocks) * block_bytes(options, model);
  const double logits = static_cast<double>(options.max_running_requests) *
                        static_cast<double>(model.vocabulary) * sizeof(float);
  if (blocks + logits <= memory_bytes) return {};
  return run_error(
      "{:.0f} MB for kv_blocks {} and {:.0f} MB for the logits of max_running_requests {} are more "
      "than the {:.0f} MB of free memory; lower these two",
      blocks / 1e6, options.kv_blocks, logits / 1e6, options.max_running_requests,
      memory_bytes / 1e6);
}

Result<> check_ids(std::string_view field, const std::vector<TokenId>& ids,
                   std::int64_t vocabulary) {
  for (const TokenId id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    return input_error("{} has token {}; the vocabulary has 0 to {}", field, id, vocabulary - 1);
  }
  return {};
}

Result<> check_stops(const EngineRequest& request, std::int64_t vocabulary) {
  NIBBLE_RETURN_IF_ERROR(check_ids("stop_token_ids", request.stop_ids, vocabulary));
  std::vector<TokenId> distinct = request.stop_ids;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (request.min_tokens == 0 || static_cast<std::int64_t>(distinct.size()) < vocabulary) return {};
  return input_error(
      "stop_token_ids names all {} tokens of the vocabulary; with min_tokens {} none could be "
      "chosen",
      vocabulary, request.min_tokens);
}

Result<> check_length(const EngineRequest& request, const EngineOptions& options) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) return input_error("prompt is empty; give at least one token");
  if (prompt >= options.max_model_len) {
    return input_error(
        "prompt has {} tokens and must leave room for one of output: the limit (max_model_len) is "
        "{} tokens, prompt and output; shorten the prompt",
        prompt, options.max_model_len);
  }
  if (prompt >= most_tokens(options)) {
    return input_error(
        "prompt has {} tokens and must leave room for one of output: the KV cache holds {} tokens "
        "({} blocks of {}); shorten the prompt, or start the server with more kv_blocks",
        prompt, most_tokens(options), options.kv_blocks, options.block_tokens);
  }
  return {};
}

}  // namespace

Result<EngineOptions> settle(EngineOptions options, const ModelInfo& model, double memory_bytes) {
  NIBBLE_RETURN_IF_ERROR(check_counts(options));
  if (options.max_num_batched_tokens < options.max_running_requests) {
    return input_error(
        "max_num_batched_tokens is {}, less than max_running_requests ({}), each of which may need "
        "a row in a step; raise the one or lower the other",
        options.max_num_batched_tokens, options.max_running_requests);
  }
  if (options.max_model_len > model.max_context) {
    return input_error("max_model_len is {}; the model was made for at most {} tokens",
                       options.max_model_len, model.max_context);
  }
  if (options.max_model_len == 0) options.max_model_len = model.max_context;
  if (options.max_model_len < 2) {
    return input_error("max_model_len is {}; a prompt and its output need at least 2 tokens",
                       options.max_model_len);
  }
  if (options.threads == 0) options.threads = static_cast<int>(usable_processors().size());
  if (options.kv_blocks == 0) {
    NIBBLE_ASSIGN_OR_RETURN(options.kv_blocks, default_blocks(options, model, memory_bytes));
  }
  NIBBLE_RETURN_IF_ERROR(check_memory(options, model, memory_bytes));
  if (most_tokens(options) < 2) {
    return input_error("kv_blocks is {} and block_tokens {}; the KV cache must hold 2 tokens",
                       options.kv_blocks, options.block_tokens);
  }
  return options;
}

std::int64_t most_tokens(const EngineOptions& options) {
  return std::min(options.max_model_len, options.kv_blocks * options.block_tokens);
}

Result<> admit(EngineRequest& request, const EngineOptions& options, const ModelInfo& model) {
  NIBBLE_RETURN_IF_ERROR(check_length(request, options));
  NIBBLE_RETURN_IF_ERROR(check_ids("prompt", request.prompt, model.vocabulary));
  if (request.max_tokens < 1) {
    return input_error("max_tokens is {}; give a count from 1", request.max_tokens);
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return input_error("min_tokens is {}; give a count from 0 to max_tokens ({})",
                       request.min_tokens, request.max_tokens);
  }
  NIBBLE_RETURN_IF_ERROR(check_stops(request, model.vocabulary));
  NIBBLE_RETURN_IF_ERROR(check(request.sampling, model.vocabulary));
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  request.max_tokens = std::min(request.max_tokens, most_tokens(options) - prompt);
  return {};
}

}  // namespace nibble::engine
