#include "serve/server.h"

#include <algorithm>
#include <utility>

#include "api/reply.h"
#include "base/text.h"
#include "base/utf8.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "serve/configuration.h"
#include "serve/core.h"
#include "serve/origin.h"
#include "serve/pages.h"
#include "serve/respond.h"
#include "serve/session.h"

namespace nibble::serve {
namespace {

using boost::asio::awaitable;

constexpr Nanoseconds kLastBytes = 1'000'000'000;

// Takes as long for a key that is nearly right as for any other.
bool same_secret(std::string_view given, std::string_view secret) {
  std::size_t different = given.size() ^ secret.size();
  for (std::size_t at = 0; at < given.size(); ++at) {
    const char other = secret[at % secret.size()];
    different |= static_cast<unsigned char>(given[at]) ^ static_cast<unsigned char>(other);
  }
  return different == 0;
}

bool authorized(const Core& core, const net::ServerRequest& request) {
  if (core.options.api_key.empty() || open_to_all(request.path())) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = net::find_header(request.headers, "Authorization").value_or("");
  if (to_lower(given.substr(0, kScheme.size())) != kScheme) return false;
  return same_secret(trim(given.substr(kScheme.size())), core.options.api_key);
}

// A page of another origin asks first whether it may.
awaitable<void> answer_preflight(Core& core, net::ResponseWriter& writer) {
  net::Headers headers = headers_for(core.options, "text/plain");
  headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
  headers.emplace_back("Access-Control-Max-Age", "600");
  std::string nothing;
  co_await writer.respond(204, std::move(headers), std::move(nothing));
}

std::optional<api::Dialect> dialect_of(const net::ServerRequest& request) {
  if (request.method != "POST") return std::nullopt;
  if (request.path() == "/v1/chat/completions") return api::Dialect::kChat;
  if (request.path() == "/v1/completions") return api::Dialect::kCompletions;
  return std::nullopt;
}

// What is wrong with a request before its body is looked at.
std::optional<Refusal> refuse_sender(const Core& core, const net::ServerRequest& request) {
  if (request.method != "POST") return std::nullopt;
  if (auto refusal = refuse_origin(core.options, request.headers)) return refusal;
  const auto encoding = net::find_header(request.headers, "Content-Encoding");
  if (!encoding || trim(*encoding).empty() || to_lower(trim(*encoding)) == "identity") {
    return std::nullopt;
  }
  return Refusal{415,
                 fmt::format("the body has the Content-Encoding \"{}\"; send it as it is",
                             printable(*encoding, 40)),
                 ""};
}

awaitable<void> handle(std::shared_ptr<Core> core, net::ServerRequest request,
                       net::ResponseWriter& writer) {
  if (request.method == "OPTIONS" && !core->options.allow_origin.empty()) {
    co_await answer_preflight(*core, writer);
    co_return;
  }
  if (!authorized(*core, request)) {
    Refusal refusal{401, "the API key is missing or wrong; send \"Authorization: Bearer KEY\"", ""};
    co_await refuse(*core, writer, std::move(refusal));
    co_return;
  }
  if (std::optional<Refusal> refusal = refuse_sender(*core, request)) {
    co_await refuse(*core, writer, std::move(*refusal));
    co_return;
  }
  if (const std::optional<api::Dialect> dialect = dialect_of(request)) {
    co_await answer(*core, writer, *dialect, std::move(request));
    co_return;
  }
  std::variant<Page, Refusal> page = make_page(*core, request);
  if (auto* refusal = std::get_if<Refusal>(&page)) {
    co_await refuse(*core, writer, std::move(*refusal));
    co_return;
  }
  Page& made = std::get<Page>(page);
  net::Headers headers = headers_for(core->options, std::move(made.type));
  co_await writer.respond(made.status, std::move(headers), std::move(made.body));
}

net::ServerOptions http_options(const std::shared_ptr<Core>& core) {
  const ServeOptions& options = core->options;
  net::ServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.max_body_bytes = options.max_body_bytes;
  http.max_header_bytes = options.max_header_bytes;
  http.refusal = [core](int status, std::string_view sentence) {
    core->counters.refuse(status);
    return net::OwnAnswer{"application/json",
                          api::error_body(api::Dialect::kChat, status, sentence)};
  };
  return http;
}

// A token that the model does not have would be a row beyond the end of its embedding. More rows
// than tokens are common: vocabularies are padded.
Result<> check_tokenizer(const text::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::size_t left = tokenizer.size();
  engine::TokenId last = -1;
  for (engine::TokenId id = 0; left > 0; ++id) {
    if (!tokenizer.token_text(id)) continue;
    last = id;
    --left;
  }
  if (last < vocabulary) return {};
  return input_error(
      "the tokenizer has tokens up to id {}, and the model's vocabulary has {}; give the "
      "tokenizer.json that belongs to this model",
      last, vocabulary);
}

// The name stands in labels of metrics and in JSON.
Result<> check_name(std::string_view name) {
  const bool control = std::any_of(name.begin(), name.end(), [](char byte) {
    return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
  });
  if (!control && is_valid_utf8(name)) return {};
  return input_error(
      "the served model's name \"{}\" has control characters or is no UTF-8; give "
      "another one (--served-model-name)",
      printable(name));
}

Result<> check_model(const ServedModel& model, std::int64_t vocabulary) {
  NIBBLE_RETURN_IF_ERROR(check_name(model.name));
  NIBBLE_RETURN_IF_ERROR(check_tokenizer(model.tokenizer, vocabulary));
  for (const engine::TokenId id : model.end_ids) {
    if (id >= 0 && id < vocabulary) continue;
    return input_error("the model's end token {} is not below its vocabulary of {}", id,
                       vocabulary);
  }
  if (model.defaults.top_k <= vocabulary) return {};
  return input_error("generation_config.json: \"top_k\" is {}, above the model's vocabulary of {}",
                     model.defaults.top_k, vocabulary);
}

}  // namespace

struct Server::Impl {
  Impl(ServeOptions options, engine::Engine& engine, ServedModel model)
      : core(std::make_shared<Core>(std::move(options), engine, std::move(model))),
        loops(core->options.threads),
        http(loops, http_options(core)) {}

  const std::shared_ptr<Core> core;
  net::Loops loops;
  net::HttpServer http;
  bool stopped = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  stop();
}

Result<std::unique_ptr<Server>> Server::start(ServeOptions options, engine::Engine& engine,
                                              ServedModel model) {
  if (options.threads < 1 || options.threads > 64) {
    return usage_error("the server's event loops are {}; give 1 to 64", options.threads);
  }
  NIBBLE_RETURN_IF_ERROR(check_model(model, engine.model().vocabulary));
  auto impl = std::make_unique<Impl>(std::move(options), engine, std::move(model));
  NIBBLE_ASSIGN_OR_RETURN(impl->core->port,
                          impl->http.start([core = impl->core](net::ServerRequest request,
                                                               net::ResponseWriter& writer) {
                            return handle(core, std::move(request), writer);
                          }));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const {
  return impl_->core->port;
}

std::string Server::url() const {
  return impl_->core->url();
}

Json Server::configuration() const {
  return serve::configuration(*impl_->core);
}

void Server::drain() {
  impl_->core->draining = true;
}

bool Server::idle() const {
  return impl_->core->active.load() == 0;
}

void Server::stop() {
  if (std::exchange(impl_->stopped, true)) return;
  drain();
  impl_->http.stop(kLastBytes);
  impl_->loops.stop();
}

}  // namespace nibble::serve
