#include "serve/core.h"

#include <algorithm>
#include <random>

#include "api/reply.h"

namespace nibble::serve {

Core::Core(ServeOptions given_options, engine::Engine& given_engine, ServedModel given_model)
    : options(std::move(given_options)),
      engine(given_engine),
      model(std::move(given_model)),
      bounds{.vocabulary = engine.model().vocabulary, .model = model.name},
      started_at_s(api::unix_seconds()) {
  for (std::int64_t id = 0; id < bounds.vocabulary; ++id) {
    const auto bytes = model.tokenizer.token_bytes(static_cast<engine::TokenId>(id));
    if (bytes) longest_token = std::max(longest_token, bytes->size());
  }
  std::random_device device;
  id_prefix_ = fmt::format("{:08x}{:08x}", device(), device());
}

std::string Core::new_id(std::string_view kind) {
  return fmt::format("{}-{}-{}", kind, id_prefix_, next_id_.fetch_add(1));
}

}  // namespace nibble::serve
