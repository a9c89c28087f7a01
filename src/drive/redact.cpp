#include "drive/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"

namespace nibble::drive {
namespace {

constexpr std::size_t kLongestText = 400;
constexpr std::size_t kMostItems = 64;
constexpr std::size_t kMostMembers = 1024;
constexpr std::size_t kShortestSecret = 6;   // shorter header values ("json") stand anywhere
constexpr std::size_t kShortestIssued = 20;  // of OpenAI's and Hugging Face's keys
constexpr std::string_view kHidden = "***";
constexpr const char* kLeftOut = "(left out: it may hold a secret)";

// Within a name, without what separates its words.
constexpr std::array<std::string_view, 13> kSecretParts = {
    "apikey",     "password",  "passwd",      "passphrase", "secret", "credential", "authorization",
    "privatekey", "accesskey", "accesstoken", "authtoken",  "cookie", "bearer"};
// As its last word: "hf_token", but neither "tokenizer" nor "eos_token_id" nor "max_tokens".
constexpr std::array<std::string_view, 5> kSecretWords = {"token", "key", "keys", "auth", "pwd"};

// "adminApiKey" -> {"admin", "api", "key"}.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  bool lower_before = false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = std::isalnum(byte) != 0;
    const bool upper = std::isupper(byte) != 0;
    if ((!letter || (upper && lower_before)) && !words.back().empty()) words.emplace_back();
    if (letter) words.back() += static_cast<char>(std::tolower(byte));
    lower_before = letter && !upper;
  }
  if (words.back().empty() && words.size() > 1) words.pop_back();
  return words;
}

// The part of a header's value that nobody may see; empty where it is too short to be a secret.
std::string_view secret_of(std::string_view value) {
  value = trim(value);
  const std::string_view secret = value.substr(value.rfind(' ') + 1);  // behind "Bearer"
  return secret.size() >= kShortestSecret ? secret : std::string_view();
}

bool repeats(std::string_view text, const net::Headers& sent) {
  return std::any_of(sent.begin(), sent.end(), [&](const auto& header) {
    const std::string_view secret = secret_of(header.second);
    return !secret.empty() && text.find(secret) != std::string_view::npos;
  });
}

// "--api-key sk-1", "hf_token='x'", "http://user:pass@host": a name of a secret with a value behind
// it. Names of a template ("{{ bos_token }}") are no more than names.
bool tells_secret(std::string_view text) {
  const std::string lower = to_lower(text);
  if (lower.find("-----begin") != std::string::npos) return true;  // a key in PEM
  const bool issued = lower.starts_with("sk-") || lower.starts_with("hf_");
  if (issued && text.size() >= kShortestIssued && text.find(' ') == std::string::npos) return true;
  const std::size_t scheme = lower.find("://");
  if (scheme != std::string::npos) {
    const std::string_view authority = std::string_view(lower).substr(scheme + 3);
    const std::size_t end = authority.find_first_of("/ \"'");
    if (authority.substr(0, end).find('@') != std::string_view::npos) return true;
  }
  for (const std::string_view name :
       {"api_key", "api-key", "apikey", "password", "passwd", "secret", "hf_token", "auth_token",
        "access_token", "bearer "}) {
    for (std::size_t at = lower.find(name); at != std::string::npos;
         at = lower.find(name, at + 1)) {
      const std::size_t behind = lower.find_first_not_of("\"' ", at + name.size());
      const bool value =
          behind != std::string::npos && (lower[behind] == '=' || lower[behind] == ':' ||
                                          name == "bearer " || text[at + name.size()] == ' ');
      if (value) return true;
    }
  }
  return false;
}

bool is_flag_of_secret(const Json& json) {
  if (!json.is_string()) return false;
  const std::string& text = json.as_string();
  return text.starts_with("-") && text.find_first_of("= ") == std::string::npos &&
         names_a_secret(text);
}

}  // namespace

std::string without_sent(std::string text, const net::Headers& sent) {
  for (const auto& [name, value] : sent) {
    const std::string_view secret = secret_of(value);
    if (secret.empty()) continue;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kHidden.size())) {
      text.replace(at, secret.size(), kHidden);
    }
  }
  return text;
}

bool names_a_secret(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  const std::string all = nibble::join(words, "");
  const auto inside = [&](std::string_view part) { return all.find(part) != std::string::npos; };
  return std::any_of(kSecretParts.begin(), kSecretParts.end(), inside) ||
         std::find(kSecretWords.begin(), kSecretWords.end(), words.back()) != kSecretWords.end();
}

Json without_secrets(const Json& json, const net::Headers& sent) {
  if (json.is_string()) {
    const std::string& text = json.as_string();
    if (repeats(text, sent) || tells_secret(text)) return kLeftOut;
    return text.size() > kLongestText ? Json(printable(text, kLongestText)) : json;
  }
  if (json.is_array()) {
    Json kept = Json::array();
    const Json::Array& items = json.as_array();
    for (std::size_t at = 0; at < std::min(items.size(), kMostItems); ++at) {
      // Of a command line the word behind "--api-key" is the secret.
      const bool behind_flag = at > 0 && is_flag_of_secret(items[at - 1]);
      kept.push(behind_flag ? Json(kLeftOut) : without_secrets(items[at], sent));
    }
    if (items.size() > kMostItems) kept.push(fmt::format("... {} more", items.size() - kMostItems));
    return kept;
  }
  if (!json.is_object()) return json;
  Json::Object kept;
  for (const auto& [name, value] : json.as_object()) {
    if (names_a_secret(name) || repeats(name, sent)) continue;
    if (kept.size() == kMostMembers) break;
    kept.emplace_back(name, without_secrets(value, sent));
  }
  return Json::object(std::move(kept));
}

}  // namespace nibble::drive
