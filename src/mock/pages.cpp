#include "mock/pages.h"

#include <algorithm>
#include <array>

#include "api/reply.h"

namespace nibble::mock {
namespace {

using Maker = Page (*)(Shared&);

struct Route {
  std::string_view method;
  std::string_view path;
  Maker make;
};

Page models(Shared& shared) {
  const std::array models = {api::ModelInfo{shared.script.model, shared.script.max_model_len}};
  return {.body = api::models_body(models, api::unix_seconds())};
}

Page nothing(Shared&) {
  return {.type = "text/plain"};
}

Page health(Shared& shared) {
  const MetricsStyle style = shared.script.metrics_style;
  const bool llamacpp = style == MetricsStyle::kLlamacpp || style == MetricsStyle::kLlamacppQuoted;
  return llamacpp ? Page{.body = R"({"status":"ok"})"} : nothing(shared);
}

Page version(Shared&) {
  return {.body = R"({"version":"nibble-mock"})"};
}

Page metrics(Shared& shared) {
  const MetricsStyle style = shared.script.metrics_style;
  if (style == MetricsStyle::kNone) {
    return {.status = 404, .body = api::error_body(api::Dialect::kChat, 404, "no metrics here")};
  }
  Occupancy now = shared.occupancy();
  now.tokens_per_s = shared.generation_rate();
  return {.type = style == MetricsStyle::kLlamacppQuoted ? "application/json"
                                                         : "text/plain; version=0.0.4",
          .body = metrics_page(style, shared.script, shared.counters, now)};
}

Page server_info(Shared& shared) {
  return {.body = Json::object()
                      .set("version", "nibble-mock")
                      .set("model_path", shared.script.model)
                      .set("script", to_json(shared.script))
                      .dump(0)};
}

Page stats(Shared& shared) {
  return {.body = to_json(shared.stats()).dump(0)};
}

Page script(Shared& shared) {
  return {.body = to_json(shared.script).dump(0)};
}

Page reset(Shared& shared) {
  shared.error.reset();
  return {.body = "{}"};
}

constexpr std::array kRoutes = {
    Route{"GET", "/v1/models", models},
    Route{"GET", "/health", health},
    Route{"GET", "/health_generate", nothing},
    Route{"GET", "/version", version},
    Route{"GET", "/metrics", metrics},
    Route{"GET", "/server_info", server_info},
    Route{"GET", "/get_server_info", server_info},
    Route{"POST", "/flush_cache", nothing},
    Route{"POST", "/reset_prefix_cache", nothing},
    Route{"GET", "/mock/stats", stats},
    Route{"GET", "/mock/script", script},
    Route{"POST", "/mock/reset", reset},
};

}  // namespace

Page make_page(Shared& shared, std::string_view method, std::string_view path) {
  const bool known = std::any_of(kRoutes.begin(), kRoutes.end(),
                                 [&](const Route& route) { return route.path == path; }) ||
                     api::dialect_of_path(path).has_value();
  const std::string_view as = method == "HEAD" ? "GET" : method;
  const auto* found = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& route) {
    return route.path == path && route.method == as;
  });
  if (found != kRoutes.end()) return found->make(shared);
  const int status = known ? 405 : 404;
  const char* message = known ? "this path takes another method" : "there is nothing at this path";
  return {.status = status, .body = api::error_body(api::Dialect::kChat, status, message)};
}

}  // namespace nibble::mock
