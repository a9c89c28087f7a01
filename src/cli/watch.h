// `nibble watch`: what works and what waits on this machine, in its inference server and on others.
//
//   std::vector<CommandDef> list = {watch_command()};
#pragma once

#include <string_view>

#include "cli/command.h"
#include "net/http_server.h"

namespace nibble::cli {

CommandDef watch_command();

// "9753", "0.0.0.0:9753" or "[::]:9753"; without an address only this machine can connect.
Result<net::ServerOptions> parse_listen(std::string_view text);

}  // namespace nibble::cli
