// Which pages in a browser may have something computed. A browser sends a form or a text of any
// page to any server without asking it, and says in Origin where the page comes from.
//
//   ServeOptions options;                                // on 127.0.0.1, no --allow-origin
//   refuse_origin(options, {{"Host", "127.0.0.1:8000"},
//                           {"Origin", "http://example.com"}});      // 403
#pragma once

#include <optional>

#include "net/headers.h"
#include "serve/options.h"
#include "serve/parameters.h"

namespace nibble::serve {

// Nothing where there is no Origin, where --allow-origin allows it, or where it is the server's
// own: that of the Host header, by http, or by https through a proxy. A server on a loopback
// address takes by http no names but localhost and --host: another one could be anybody's whose
// name leads here (DNS rebinding).
std::optional<Refusal> refuse_origin(const ServeOptions& options, const net::Headers& headers);

}  // namespace nibble::serve
