// What others say of themselves, made fit for a report that is passed on.
//
//   const Json safe = without_secrets(answer, request.headers);
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "net/headers.h"

namespace nibble::drive {

// "api_key", "Authorization", "hf_token"; not "max_tokens" or "stop_token_ids".
bool names_a_secret(std::string_view name);

// The text with "***" for every value of the headers that were sent: servers repeat what they do
// not like.
std::string without_sent(std::string text, const net::Headers& sent);

// A copy without members whose names look like secrets (api_key, hf_token, password, ...), at any
// depth, and without texts that hold one or repeat a value of the headers that were sent. Long
// texts and lists are cut.
Json without_secrets(const Json& json, const net::Headers& sent);

}  // namespace nibble::drive
