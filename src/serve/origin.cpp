#include "serve/origin.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "base/text.h"

namespace nibble::serve {
namespace {

// "[::1]:80" -> "::1", "localhost:80" -> "localhost".
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(std::string_view name) {
  boost::system::error_code fault;
  boost::asio::ip::make_address(std::string(name), fault);
  return !fault;
}

bool is_loopback(std::string_view name) {
  if (name == "localhost") return true;
  boost::system::error_code fault;
  const auto address = boost::asio::ip::make_address(std::string(name), fault);
  return !fault && address.is_loopback();
}

// Whether a name of the Host header is surely that of this machine.
bool is_trusted(std::string_view name, std::string_view listens_on) {
  return !is_loopback(listens_on) || is_address(name) || name == "localhost" || name == listens_on;
}

bool is_own(std::string_view origin, std::string_view host, std::string_view listens_on) {
  if (host.empty()) return false;
  if (origin == fmt::format("https://{}", host)) return true;
  return origin == fmt::format("http://{}", host) && is_trusted(name_of(host), listens_on);
}

}  // namespace

std::optional<Refusal> refuse_origin(const ServeOptions& options, const net::Headers& headers) {
  const std::optional<std::string_view> given = net::find_header(headers, "Origin");
  if (!given || options.allow_origin == "*") return std::nullopt;
  const std::string origin = to_lower(trim(*given));
  if (!options.allow_origin.empty() && origin == to_lower(options.allow_origin)) {
    return std::nullopt;
  }
  const std::string host = to_lower(trim(net::find_header(headers, "Host").value_or("")));
  if (is_own(origin, host, to_lower(options.host))) return std::nullopt;
  return Refusal{403,
                 fmt::format("pages of the origin \"{}\" may not ask this server; start it with "
                             "--allow-origin to let them",
                             printable(*given)),
                 ""};
}

}  // namespace nibble::serve
