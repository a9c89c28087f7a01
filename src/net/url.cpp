#include "net/url.h"

#include <algorithm>
#include <arpa/inet.h>
#include <optional>

#include "base/text.h"

namespace nibble::net {
namespace {

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
constexpr std::size_t kMostNameBytes = 253;  // of a host name (RFC 1035)
constexpr std::size_t kMostPathBytes = 4096;

struct Authority {
  std::string host;
  std::optional<std::uint16_t> port;
};

bool is_ipv6(const std::string& text) {
  in6_addr address = {};
  return ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool is_host_byte(char byte) {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  return letter || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= kMostNameBytes &&
         std::all_of(text.begin(), text.end(), is_host_byte);
}

std::optional<std::uint16_t> read_port(std::string_view text) {
  constexpr int kMostPort = 65535;
  if (text.empty() || text.size() > 5) return std::nullopt;
  int port = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    port = port * 10 + (digit - '0');
  }
  if (port < 1 || port > kMostPort) return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

Result<Authority> read_authority(std::string_view text, const std::string& shown) {
  Authority authority;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    authority.host = text.substr(1, close == std::string_view::npos ? close : close - 1);
    if (close == std::string_view::npos || !is_ipv6(authority.host)) {
      return input_error("\"{}\" has no IPv6 address between its brackets", shown);
    }
    port = text.substr(close + 1);
  } else {
    const std::size_t colon = text.find(':');
    authority.host = text.substr(0, colon);
    if (!is_host(authority.host)) {
      return input_error("\"{}\" names no host; write http://host:port", shown);
    }
    port = colon == std::string_view::npos ? "" : text.substr(colon);
  }
  if (port.empty()) return authority;
  authority.port = port.starts_with(':') ? read_port(port.substr(1)) : std::nullopt;
  if (!authority.port) {
    return input_error("\"{}\" has a port that is no number from 1 to 65535", shown);
  }
  return authority;
}

// What a message may repeat: nothing before an '@', where names and keys stand, and no query.
std::string shown_part(std::string_view text) {
  text = text.substr(0, text.find_first_of("?#"));
  const std::size_t at = text.rfind('@');
  return at == std::string_view::npos ? printable(text) : "..." + printable(text.substr(at));
}

Result<> check_bytes(std::string_view text, const std::string& shown) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char byte) { return byte > 0x20 && byte < 0x7f; });
  if (!plain) {
    return input_error("\"{}\" holds blanks or other characters that an address cannot", shown);
  }
  if (text.find('#') != std::string_view::npos || text.find('?') != std::string_view::npos) {
    return input_error("\"{}\" has a query or a fragment; give scheme, host, port and path", shown);
  }
  return {};
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const bool usual = port == (tls ? kHttpsPort : kHttpPort);
  return usual ? name : fmt::format("{}:{}", name, port);
}

std::string Url::text() const {
  return (tls ? "https://" : "http://") + authority() + path;
}

Result<Url> parse_url(std::string_view text) {
  const std::string shown = shown_part(text);
  NIBBLE_RETURN_IF_ERROR(check_bytes(text, shown));
  const std::size_t colon = text.find("://");
  const std::string scheme = to_lower(text.substr(0, colon));
  if (colon == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return input_error("\"{}\" is no http:// or https:// address", shown);
  }
  const std::string_view rest = text.substr(colon + 3);
  const std::size_t slash = rest.find('/');
  const std::string_view place = rest.substr(0, slash);
  if (place.find('@') != std::string_view::npos) {
    return input_error("the address names a user; give an API key by its own option instead");
  }
  NIBBLE_ASSIGN_OR_RETURN(const Authority authority, read_authority(place, shown));
  Url url{.tls = scheme == "https", .host = authority.host};
  url.port = authority.port.value_or(url.tls ? kHttpsPort : kHttpPort);
  if (slash != std::string_view::npos) url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.size() > kMostPathBytes) {
    return input_error("the path of the address is longer than {} bytes", kMostPathBytes);
  }
  return url;
}

}  // namespace nibble::net
