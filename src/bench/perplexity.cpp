#include "bench/perplexity.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "engine/score.h"
#include "text/tokenizer.h"

namespace nibble {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;
constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostWindow = 2048;

std::int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

// What config.json calls the token that begins a text, or the (first) one that ends it.
Result<text::TokenId> first_token(const std::filesystem::path& folder, std::int64_t vocabulary) {
  const std::filesystem::path path = folder / "config.json";
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostConfigBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json config, Json::parse(text, path.string()));
  for (const char* field : {"bos_token_id", "eos_token_id"}) {
    const Json* id = config.find(field);
    if (id != nullptr && id->is_array() && !id->as_array().empty()) id = &id->as_array()[0];
    if (id == nullptr || !id->is_number()) continue;
    const double value = id->as_number();
    if (value >= 0 && value < static_cast<double>(vocabulary) && value == std::floor(value)) {
      return static_cast<text::TokenId>(value);
    }
  }
  return input_error(
      "{} has neither bos_token_id nor eos_token_id below {}: what a window of text begins with is "
      "not known; add one",
      path.string(), vocabulary);
}

Result<std::int64_t> window_of(const PerplexityRequest& request, std::int64_t max_context) {
  const std::int64_t most = max_context - 1;
  if (request.window > most) {
    return usage_error(
        "--window is {}; the model has room for {} tokens and the one they begin with",
        request.window, most);
  }
  return request.window > 0 ? request.window : std::min(most, kMostWindow);
}

}  // namespace

Result<Perplexity> measure_perplexity(const PerplexityRequest& request,
                                      const std::function<void(double share)>& progress) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(request.text, kMostTextBytes));
  if (!is_valid_utf8(text)) {
    return input_error("{} is not valid UTF-8; give a text in UTF-8", request.text.string());
  }
  NIBBLE_ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, text::load_tokenizer(request.folder));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<text::TokenId> tokens,
                          tokenizer.encode(text, {.add_special = false}));
  if (tokens.empty()) return input_error("{} holds no text", request.text.string());
  ThreadPool pool(request.threads);
  NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Model> model,
                          engine::load_checkpoint_model(request.folder, request.options, pool));
  NIBBLE_ASSIGN_OR_RETURN(const text::TokenId first,
                          first_token(request.folder, model->info().vocabulary));
  Perplexity found{.tokens = static_cast<std::int64_t>(tokens.size()),
                   .characters = code_points(tokenizer.decode(tokens, {.skip_special = true}))};
  NIBBLE_ASSIGN_OR_RETURN(found.window, window_of(request, model->info().max_context));
  NIBBLE_ASSIGN_OR_RETURN(engine::TextScorer scorer,
                          engine::TextScorer::make(*model, found.window + 1));
  const auto window = static_cast<std::size_t>(found.window);
  for (std::size_t at = 0; at < tokens.size(); at += window) {
    std::vector<text::TokenId> part = {first};
    const std::size_t end = std::min(tokens.size(), at + window);
    part.insert(part.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
    NIBBLE_ASSIGN_OR_RETURN(const engine::TextScore score, scorer.score(part, pool));
    found.nats -= score.log_probability;
    progress(static_cast<double>(end) / static_cast<double>(tokens.size()));
  }
  return found;
}

Json to_json(const PerplexityRequest& request, const Perplexity& found) {
  return Json::object()
      .set("schema", "nibble.perplexity/1")
      .set("model", request.folder.filename().string())
      .set("text", request.text.filename().string())
      .set("activations", to_string(request.options.activations))
      .set("kv_format", to_string(request.options.kv_format))
      .set("threads", request.threads)
      .set("tokens", found.tokens)
      .set("characters", found.characters)
      .set("window", found.window)
      .set("nats", found.nats)
      .set("perplexity", found.per_token())
      .set("bits_per_character", found.bits_per_character());
}

}  // namespace nibble
