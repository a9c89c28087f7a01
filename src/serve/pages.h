// All that is answered without the model's work: lists, tokens, health, metrics, state.
//
//   Page page = make_page(core, request);
//   co_await writer.respond(page.status, headers_for(core.options, page.type), page.body);
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "net/http_server.h"
#include "serve/core.h"

namespace nibble::serve {

struct Page {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

// 404 for a path that is not there, 405 for one that takes another method.
std::variant<Page, Refusal> make_page(Core& core, const net::ServerRequest& request);

// Paths that are open without the key: a balancer and a scraper have none.
bool open_to_all(std::string_view path);

std::string metrics_page(Core& core);

}  // namespace nibble::serve
