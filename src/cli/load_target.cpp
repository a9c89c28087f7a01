// Whom to ask and what every request carries.
#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "cli/load_flags.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kMostKeyBytes = 64 << 10;
constexpr double kMostSeconds = 1e6;
constexpr double kLeastSeconds = 1e-3;  // above 0; less would round to none at all

struct EndpointBackend {
  api::Dialect dialect;
  const char* backend;  // what to call a server that speaks so
};
constexpr EndpointBackend kByEndpoint[] = {{api::Dialect::kCompletions, "openai"},
                                           {api::Dialect::kChat, "openai-chat"},
                                           {api::Dialect::kSglang, "sglang"},
                                           {api::Dialect::kLlamacpp, "llamacpp"}};

const char* backend_of(api::Dialect dialect) {
  for (const EndpointBackend& entry : kByEndpoint) {
    if (entry.dialect == dialect) return entry.backend;
  }
  return "openai";
}

Result<api::Backend> backend_from(const Arguments& arguments, const std::string& endpoint) {
  const std::optional<api::Dialect> spoken = api::dialect_of_path(endpoint);
  const std::optional<std::string> name = arguments.text("--backend");
  if (!name) return api::find_backend(spoken ? backend_of(*spoken) : "openai");
  const Result<api::Backend> backend = api::find_backend(*name);
  if (!backend.ok()) return backend.error().within("--backend");
  if (spoken && *spoken != backend->dialect) {
    return usage_error(
        "--endpoint {} speaks {}, and --backend {} speaks {}; leave one of them out, or give "
        "--backend {}",
        endpoint, api::dialect_name(*spoken), *name, api::dialect_name(backend->dialect),
        backend_of(*spoken));
  }
  return backend;
}

Result<std::string> endpoint_from(const Arguments& arguments) {
  const std::string endpoint = arguments.text("--endpoint").value_or("");
  const bool plain = std::all_of(endpoint.begin(), endpoint.end(),
                                 [](char byte) { return byte > 0x20 && byte < 0x7f; });
  if (!endpoint.empty() && (endpoint.front() != '/' || !plain)) {
    return usage_error("--endpoint is \"{}\"; give a path without blanks, as /v1/completions",
                       printable(endpoint));
  }
  return endpoint;
}

Result<net::Url> url_from(const Arguments& arguments, const api::Backend& backend,
                          std::string_view endpoint, Notes& notes) {
  NIBBLE_ASSIGN_OR_RETURN(const auto port, arguments.integer("--port", 1, 65535));
  if (const auto base = arguments.text("--base-url")) {
    if (arguments.has("--host") || port) {
      return usage_error("--base-url names host and port; leave --host and --port out");
    }
    Result<net::Url> url = net::parse_url(*base);
    if (!url.ok()) return url.error().within("--base-url");
    // As clients of OpenAI's library write it.
    if (url->path.ends_with("/v1") && endpoint.starts_with("/v1/")) {
      url->path.resize(url->path.size() - 3);
      notes.push_back("--base-url ends with /v1, which the endpoint already has: taken once");
    }
    return url;
  }
  const bool sglang = follows_sglang(backend);
  const std::int64_t usual = sglang                                       ? 30000
                             : backend.dialect == api::Dialect::kLlamacpp ? 8080
                                                                          : 8000;
  std::string host = arguments.text("--host").value_or("127.0.0.1");
  // What a server listens on is no address to connect to.
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host.find(':') != std::string::npos && !host.starts_with('[')) host = "[" + host + "]";
  Result<net::Url> url = net::parse_url(fmt::format("http://{}:{}", host, port.value_or(usual)));
  if (!url.ok()) return url.error().within("--host");
  return url;
}

// From a file or a variable; empty: none. No message repeats a byte of it.
Result<std::string> api_key_from(const Arguments& arguments, bool has_authorization, Notes& notes) {
  const std::optional<std::string> file = arguments.text("--api-key-file");
  const std::optional<std::string> variable = arguments.text("--api-key-env");
  if (file && variable) return usage_error("give one of --api-key-file and --api-key-env");
  if (has_authorization && (file || variable)) {
    return usage_error("--header gives an Authorization already; leave {} out",
                       file ? "--api-key-file" : "--api-key-env");
  }
  std::string key;
  if (file) {
    const Result<std::string> text = read_file(*file, kMostKeyBytes);
    if (!text.ok()) return text.error().within("--api-key-file");
    key = trim(*text);
    if (key.empty()) return input_error("--api-key-file {} holds no key", printable(*file));
  } else if (variable) {
    const bool name = std::all_of(variable->begin(), variable->end(), [](char letter) {
      const char lower = static_cast<char>(letter | 0x20);
      return (lower >= 'a' && lower <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
    });
    // A key given by mistake must not appear in the message.
    if (!name) return usage_error("--api-key-env takes the name of a variable, not the key");
    const char* value = std::getenv(variable->c_str());
    if (value == nullptr || *value == '\0') {
      return usage_error("the variable that --api-key-env names is not set; export it");
    }
    key = trim(value);
  } else if (const char* usual = std::getenv("OPENAI_API_KEY");
             usual != nullptr && !has_authorization) {
    key = trim(usual);
    if (!key.empty()) notes.push_back("the API key is that of the variable OPENAI_API_KEY");
  }
  if (!net::valid_header("Authorization", key)) {
    return input_error("the API key holds characters that a header cannot; see {}",
                       file ? "--api-key-file" : "its variable");
  }
  return key;
}

Result<net::Headers> headers_from(const Arguments& arguments, Notes& notes) {
  net::Headers headers;
  for (const std::string& text : arguments.all("--header")) {
    const std::size_t end = text.find_first_of(":=");
    const std::string name(trim(std::string_view(text).substr(0, end)));
    const std::string value(
        end == std::string::npos ? "" : trim(std::string_view(text).substr(end + 1)));
    if (end == std::string::npos || !net::valid_header(name, value)) {
      return usage_error("--header {} is no header; write NAME=VALUE or \"NAME: VALUE\"",
                         end == std::string::npos ? "" : printable(name));
    }
    const std::string lower = to_lower(name);
    if (lower == "host" || lower == "content-length" || lower == "transfer-encoding") {
      return usage_error("--header {} is for the connection to say; leave it out", name);
    }
    headers.emplace_back(name, value);
  }
  const bool authorized = net::find_header(headers, "Authorization").has_value();
  NIBBLE_ASSIGN_OR_RETURN(const std::string key, api_key_from(arguments, authorized, notes));
  if (!key.empty()) headers.emplace_back("Authorization", "Bearer " + key);
  return headers;
}

Result<net::ClientOptions> client_from(const Arguments& arguments, Notes& notes) {
  net::ClientOptions client;
  struct Timeout {
    const char* option;
    Nanoseconds* target;
  };
  net::Timeouts& timeouts = client.timeouts;
  for (const Timeout& timeout :
       {Timeout{"--timeout-connect", &timeouts.connect},
        Timeout{"--timeout-first-byte", &timeouts.first_byte},
        Timeout{"--timeout-idle", &timeouts.idle}, Timeout{"--timeout-total", &timeouts.total}}) {
    NIBBLE_ASSIGN_OR_RETURN(const auto given, seconds_from(arguments, timeout.option));
    if (given) *timeout.target = *given;
  }
  NIBBLE_ASSIGN_OR_RETURN(client.headers, headers_from(arguments, notes));
  client.verify_certificate = !arguments.has("--insecure");
  client.ca_file = arguments.text("--ca-file").value_or("");
  if (!client.verify_certificate && !client.ca_file.empty()) {
    return usage_error("--insecure verifies nothing; leave it or --ca-file out");
  }
  return client;
}

struct Sampling {
  const char* option;
  const char* member;
  double least;
  double most;
  bool above;  // the least itself is out
};
constexpr Sampling kSampling[] = {{"--min-p", "min_p", 0, 1, false},
                                  {"--frequency-penalty", "frequency_penalty", -2, 2, false},
                                  {"--presence-penalty", "presence_penalty", -2, 2, false},
                                  {"--repetition-penalty", "repetition_penalty", 0, 100, true}};

// Settings that only some servers know travel in the extra body, whose own members win.
Result<> add_sampling(const Arguments& arguments, drive::Target& target) {
  Json settings = Json::object();
  NIBBLE_ASSIGN_OR_RETURN(const auto top_k, arguments.integer("--top-k", -1, INT32_MAX));
  if (top_k) settings.set("top_k", *top_k);
  for (const Sampling& sampling : kSampling) {
    NIBBLE_ASSIGN_OR_RETURN(const auto value, arguments.number(sampling.option, sampling.least,
                                                               sampling.most, sampling.above));
    if (value) settings.set(sampling.member, *value);
  }
  if (settings.as_object().empty()) return {};
  if (target.extra_body.is_null()) target.extra_body = Json::object();
  Json* place = &target.extra_body;
  if (target.backend.dialect == api::Dialect::kSglang) {
    if (place->find("sampling_params") == nullptr) place->set("sampling_params", Json::object());
    place = place->find("sampling_params");
    if (!place->is_object()) {
      return usage_error("--extra-body has sampling_params that are no object");
    }
  }
  for (const Json::Member& member : settings.as_object()) {
    if (place->find(member.first) == nullptr) place->set(member.first, member.second);
  }
  return {};
}

Result<> add_body(const Arguments& arguments, drive::Target& target) {
  if (const auto text = arguments.text("--temperature")) {
    NIBBLE_ASSIGN_OR_RETURN(target.temperature, *text == "server"
                                                    ? Result(std::optional<double>())
                                                    : arguments.number("--temperature", 0, 100));
  }
  NIBBLE_ASSIGN_OR_RETURN(target.top_p, arguments.number("--top-p", 0, 1, true));
  if (const auto text = arguments.text("--extra-body")) {
    NIBBLE_ASSIGN_OR_RETURN(target.extra_body, Json::parse(*text, "--extra-body"));
    if (!target.extra_body.is_object()) {
      return usage_error("--extra-body is {}; give a JSON object, as '{{\"stop\": [\"END\"]}}'",
                         target.extra_body.kind_name());
    }
  }
  return add_sampling(arguments, target);
}

}  // namespace

bool follows_sglang(const api::Backend& backend) {
  return backend.name.starts_with("sglang");
}

Result<std::optional<Nanoseconds>> seconds_from(const Arguments& arguments, std::string_view option,
                                                bool above_zero) {
  NIBBLE_ASSIGN_OR_RETURN(const auto given, arguments.number(option, 0, kMostSeconds, above_zero));
  if (!given) return std::optional<Nanoseconds>();
  if (*given > 0 && *given < kLeastSeconds) {
    return usage_error("{} is {}; give {} or more, in seconds", option, *given, kLeastSeconds);
  }
  return std::optional<Nanoseconds>(from_milliseconds(*given * 1e3));
}

Result<drive::Target> target_from(const Arguments& arguments, Notes& notes) {
  drive::Target target;
  NIBBLE_ASSIGN_OR_RETURN(target.endpoint, endpoint_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(target.backend, backend_from(arguments, target.endpoint));
  if (!target.backend.note.empty()) {
    notes.push_back(fmt::format("{}: {}", target.backend.name, target.backend.note));
  }
  const std::string_view endpoint =
      target.endpoint.empty() ? target.backend.endpoint : std::string_view(target.endpoint);
  NIBBLE_ASSIGN_OR_RETURN(target.url, url_from(arguments, target.backend, endpoint, notes));
  NIBBLE_ASSIGN_OR_RETURN(target.client, client_from(arguments, notes));
  target.model =
      arguments.text("--served-model-name").value_or(arguments.text("--model").value_or(""));
  if (arguments.has("--ignore-eos") && arguments.has("--disable-ignore-eos")) {
    return usage_error("--ignore-eos and --disable-ignore-eos exclude each other; give one");
  }
  target.ignore_eos = !arguments.has("--disable-ignore-eos");
  target.stream = !arguments.has("--disable-stream");
  target.token_ids = !arguments.has("--no-token-ids");
  NIBBLE_RETURN_IF_ERROR(add_body(arguments, target));
  return target;
}

}  // namespace nibble::cli
