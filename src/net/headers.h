// Header fields of requests and responses, in the order in which they stand.
//
//   const Headers headers = {{"Content-Type", "application/json"}};
//   find_header(headers, "content-type");  // "application/json"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::net {

using Headers = std::vector<std::pair<std::string, std::string>>;

// The value of the first field of that name; case does not count.
std::optional<std::string_view> find_header(const Headers& headers, std::string_view name);

// Whether a field may be sent: a token for a name, no control characters in the value. Anything
// else would let a value from a file (an API key with its line end) write fields of its own.
bool valid_header(std::string_view name, std::string_view value);

}  // namespace nibble::net
