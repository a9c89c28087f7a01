#include "drive/server_identity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/reply.h"
#include "base/text.h"
#include "drive/redact.h"
#include "net/http_client.h"

namespace nibble::drive {
namespace {

constexpr Nanoseconds kLongest = 3'000'000'000;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;   // of an answer
constexpr std::size_t kMostKept = std::size_t{128} << 10;  // of one in the report
constexpr std::size_t kLongestModel = 1024;
constexpr std::size_t kLongestVersion = 100;

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kVersion = "/version";
constexpr std::string_view kOldInfo = "/get_server_info";  // SGLang until it took the shorter name
constexpr std::string_view kInfo = "/server_info";
constexpr std::string_view kProps = "/props";  // llama.cpp
constexpr std::string_view kHealth = "/health";
constexpr std::array kPages = {kModels, kVersion, kOldInfo, kInfo, kProps, kHealth};

Result<std::string> body_of(net::Response response, std::string_view page) {
  const net::Exchange& exchange = response.exchange;
  if (exchange.fault != net::NetFault::kNone) return run_error("{}", exchange.message);
  if (exchange.status != 200) return run_error("{} answers status {}", page, exchange.status);
  return std::move(response.body);
}

Answers ask_all(const net::Url& url, const telemetry::WebOptions& web) {
  const Nanoseconds most = web.timeout > 0 ? std::min(web.timeout, kLongest) : kLongest;
  net::ClientOptions options;
  options.timeouts = {.connect = most, .first_byte = most, .idle = most, .total = most};
  options.headers = web.headers;
  options.verify_certificate = web.verify_certificate;
  options.ca_file = web.ca_file;
  Answers answers;
  net::Loops loops(1);
  Result<net::HttpClient> client = net::HttpClient::make(loops, 0, url, std::move(options));
  if (!client) {
    for (const std::string_view page : kPages) answers.emplace(page, client.error());
    return answers;
  }
  std::array<net::Response, kPages.size()> responses;
  std::size_t left = kPages.size();
  net::Event all_done(loops.executor(0));
  loops.run(0, [&]() -> boost::asio::awaitable<void> {
    for (std::size_t at = 0; at < kPages.size(); ++at) {
      loops.spawn(0, [&, at]() -> boost::asio::awaitable<void> {
        net::HttpRequest request{.target = url.target(kPages[at])};
        net::Response response = co_await client->fetch(std::move(request), kMostBytes);
        responses[at] = std::move(response);
        if (--left == 0) all_done.notify_all();
      });
    }
    while (left > 0) co_await all_done.wait();
  });
  for (std::size_t at = 0; at < kPages.size(); ++at) {
    answers.emplace(kPages[at], body_of(std::move(responses[at]), kPages[at]));
  }
  return answers;
}

// Puts the identity together; what is missing is a reason under the page's name.
class Reader {
 public:
  Reader(const Answers& answers, const net::Headers& sent) : answers_(answers), sent_(sent) {}

  ServerIdentity read() {
    const Json models = object_of(kModels);
    read_models();
    const Json version = object_of(kVersion);
    Json info = object_of(kOldInfo);
    if (info.is_null()) {
      info = object_of(kInfo);
      if (!info.is_null()) reasons_.erase(std::string(kOldInfo));
    }
    const Json props = object_of(kProps);
    const Result<std::string>* health = answer(kHealth);
    if (health != nullptr && !health->ok()) note(kHealth, health->error().message);

    identity_.engine = engine_of(models, info, props);
    identity_.vocabulary = vocabulary_of(models, info);
    const Json* entries = identity_.models.empty() ? nullptr : models.find("data");
    identity_.json = Json::object()
                         .set("engine", identity_.engine.empty() ? Json() : identity_.engine)
                         .set("version", version_of(version, info, props))
                         .set("healthy", health != nullptr && health->ok())
                         .set("models", entries == nullptr ? Json() : kept(kModels, *entries))
                         .set("server_info", kept(kInfo, info))
                         .set("props", kept(kProps, props));
    Json reasons = Json::object();
    for (const auto& [page, reason] : reasons_) reasons.set(page, reason);
    identity_.json.set("reasons", std::move(reasons));
    return std::move(identity_);
  }

 private:
  const Result<std::string>* answer(std::string_view page) const {
    const auto found = answers_.find(page);
    return found == answers_.end() ? nullptr : &found->second;
  }

  void note(std::string_view page, std::string reason) {
    reasons_.insert_or_assign(std::string(page), printable(reason, 300));
  }

  // null where there is none.
  Json object_of(std::string_view page) {
    const Result<std::string>* body = answer(page);
    if (body == nullptr) {
      note(page, "was not asked for");
      return {};
    }
    if (!body->ok()) {
      note(page, body->error().message);
      return {};
    }
    Result<Json> json = Json::parse(**body, page);
    if (!json) {
      note(page, json.error().message);
      return {};
    }
    if (json->is_object()) return std::move(*json);
    note(page, fmt::format("{} answers {}, not an object", page, json->kind_name()));
    return {};
  }

  void read_models() {
    const Result<std::string>* body = answer(kModels);
    if (body == nullptr) {
      identity_.models_reason = "/v1/models was not asked for";
      return;
    }
    const Result<std::vector<api::ModelInfo>> models =
        body->ok() ? api::read_models(**body) : Result<std::vector<api::ModelInfo>>(body->error());
    if (!models) {
      identity_.models_reason = printable(models.error().message, 300);
      note(kModels, identity_.models_reason);
      return;
    }
    for (const api::ModelInfo& model : *models) {
      if (model.id.empty() || model.id.size() > kLongestModel) continue;
      identity_.models.push_back(model.id);
      if (model.max_model_len) identity_.max_model_len.emplace(model.id, *model.max_model_len);
    }
    if (identity_.models.empty()) identity_.models_reason = "/v1/models names no model";
  }

  static std::string engine_of(const Json& models, const Json& info, const Json& props) {
    const Json* data = models.find("data");
    const bool any = data != nullptr && data->is_array() && !data->as_array().empty();
    const Json* owner = any ? data->as_array().front().find("owned_by") : nullptr;
    const std::string name =
        owner != nullptr && owner->is_string() ? to_lower(owner->as_string()) : "";
    for (const auto& [part, engine] : {std::pair{"vllm", "vllm"},
                                       {"sglang", "sglang"},
                                       {"tensorrt", "trtllm"},
                                       {"trtllm", "trtllm"},
                                       {"llamacpp", "llamacpp"},
                                       {"llama.cpp", "llamacpp"}}) {
      if (name.find(part) != std::string::npos) return engine;
    }
    if (props.find("default_generation_settings") != nullptr) return "llamacpp";
    if (info.find("internal_states") != nullptr) return "sglang";
    if (is_nibble_serve(name, info)) return "nibble";
    return "";
  }

  // The mock has the same owner, and pretends to be others.
  static bool is_nibble_serve(const std::string& owner, const Json& info) {
    const Json* engine = info.find("engine");
    return owner == "nibble" && engine != nullptr && engine->find("kv_blocks") != nullptr;
  }

  static std::optional<std::int64_t> vocabulary_of(const Json& models, const Json& info) {
    const Json* model = info.find("model");
    const Json* told = model != nullptr ? model->find("vocabulary") : nullptr;
    const Json* data = models.find("data");
    if (told == nullptr && data != nullptr && data->is_array() && !data->as_array().empty()) {
      const Json* meta = data->as_array().front().find("meta");
      told = meta != nullptr ? meta->find("n_vocab") : nullptr;
    }
    const bool sensible = told != nullptr && told->is_integer() && told->as_integer() > 0;
    return sensible ? std::optional(told->as_integer()) : std::nullopt;
  }

  static Json version_of(const Json& version, const Json& info, const Json& props) {
    for (const Json* found :
         {version.find("version"), info.find("version"), props.find("build_info")}) {
      if (found != nullptr && found->is_string() && !found->as_string().empty()) {
        return printable(found->as_string(), kLongestVersion);
      }
    }
    return {};
  }

  Json kept(std::string_view page, const Json& json) {
    Json clean = without_secrets(json, sent_);
    const std::size_t size = clean.dump(0).size();
    if (size <= kMostKept) return clean;
    note(page, fmt::format("{} is too long to keep: {} bytes", page, size));
    return {};
  }

  const Answers& answers_;
  const net::Headers& sent_;
  ServerIdentity identity_;
  std::map<std::string, std::string> reasons_;
};

}  // namespace

ServerIdentity identity_of(const Answers& answers, const net::Headers& sent) {
  return Reader(answers, sent).read();
}

ServerIdentity identify(const net::Url& url, const telemetry::WebOptions& web) {
  return identity_of(ask_all(url, web), web.headers);
}

}  // namespace nibble::drive
