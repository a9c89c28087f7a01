// The address of a server: scheme, host, port and the prefix of its paths.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Url url, parse_url("https://[::1]:8443/api/"));
//   url.tls; url.host;                 // true, "::1"
//   url.target("/v1/completions");     // "/api/v1/completions"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble::net {

struct Url {
  bool tls = false;
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 80;
  std::string path;  // empty, or "/prefix" without a slash at its end

  // host:port as the Host field has it: brackets around IPv6, the port unless it is the scheme's.
  std::string authority() const;
  std::string text() const;  // what parse_url reads back to the same address
  std::string target(std::string_view endpoint) const { return path + std::string(endpoint); }
};

// "http://host", "https://host:port/prefix"; refuses everything else with one sentence: other
// schemes, user information, queries, fragments, blanks and control characters.
Result<Url> parse_url(std::string_view text);

}  // namespace nibble::net
