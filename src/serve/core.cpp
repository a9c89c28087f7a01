#include "serve/core.h"

#include <chrono>
#include <random>
#include <thread>

#include "api/reply.h"

namespace nibble::serve {

Core::Core(ServeOptions given_options, engine::Engine& given_engine, ServedModel given_model)
    : options(std::move(given_options)),
      engine(given_engine),
      model(std::move(given_model)),
      bounds{.vocabulary = engine.model().vocabulary,
             .model = model.name,
             .places = engine.options().max_running_requests + engine.options().max_queued_requests,
             .defaults = model.defaults},
      started_at_s(api::unix_seconds()),
      token_bound(model.tokenizer, bounds.vocabulary),
      port(options.port),
      places(bounds.places) {
  std::random_device device;
  id_prefix_ = fmt::format("{:08x}{:08x}", device(), device());
}

void Core::block_loop() const {
  if (!blocks_loops()) return;
  std::this_thread::sleep_for(std::chrono::nanoseconds(options.inject.front_end_block));
}

std::string Core::url() const {
  const bool brackets = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", brackets ? "[" : "", options.host, brackets ? "]" : "",
                     port.load());
}

std::string Core::new_id(std::string_view kind) {
  return fmt::format("{}-{}-{}", kind, id_prefix_, next_id_.fetch_add(1));
}

}  // namespace nibble::serve
