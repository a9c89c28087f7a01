#include "drive/server_identity.h"

#include <gtest/gtest.h>

#include "drive/redact.h"
#include "drive/test_pages.h"

namespace nibble::drive {
namespace {

Json parse(std::string_view text) {
  return std::move(Json::parse(text, "test")).value();
}

std::string reason_of(const ServerIdentity& identity, std::string_view page) {
  const Json* reason = identity.json.find("reasons")->find(page);
  return reason == nullptr ? "" : reason->as_string();
}

constexpr const char* kSecrets = R"({
  "model_path": "m", "api_key": "a1", "admin_api_key": "a2", "adminApiKey": "a3",
  "max_total_tokens": 7, "tokenizer_path": "t", "eos_token_id": 2, "token_usage": 0.5,
  "deep": [{"hf_token": "a4", "n": 1}, {"x": {"Password": "a5", "ssl_keyfile_password": "a6"}}],
  "secret": {"a": "a7"}, "aws-secret-access-key": "a8", "Authorization": "a9",
  "argv": ["serve", "--api-key", "a10", "--port", "80"],
  "line": "serve --api-key a11", "env": "HF_TOKEN=a12", "proxy": "http://u:a13@host/x",
  "template": "{{ bos_token }} the secretary keeps keys"
})";

TEST(WithoutSent, HidesWhatWasSent) {
  const net::Headers sent = {{"Authorization", "Bearer sk-0123456789"}, {"X-Kind", "json"}};
  EXPECT_EQ(without_sent("401: got 'Bearer sk-0123456789' and sk-0123456789, json", sent),
            "401: got 'Bearer ***' and ***, json");
  EXPECT_EQ(without_sent("401: no key", sent), "401: no key");
}

TEST(Redact, LeavesSecretsOutAtAnyDepth) {
  const Json clean = without_secrets(parse(kSecrets), {});
  const std::string text = clean.dump(0);
  for (int secret = 1; secret <= 13; ++secret) {
    for (const char* end : {"\"", "@"}) {
      EXPECT_EQ(text.find(fmt::format("a{}{}", secret, end)), std::string::npos) << text;
    }
  }
  EXPECT_EQ(*clean.find("model_path"), Json("m"));
  EXPECT_EQ(*clean.find("max_total_tokens"), Json(7));
  EXPECT_EQ(*clean.find("tokenizer_path"), Json("t"));
  EXPECT_EQ(*clean.find("eos_token_id"), Json(2));
  EXPECT_EQ(*clean.find("token_usage"), Json(0.5));
  EXPECT_EQ(*clean.find("deep"), parse(R"([{"n": 1}, {"x": {}}])"));
  EXPECT_EQ(*clean.find("template"), Json("{{ bos_token }} the secretary keeps keys"));
  EXPECT_EQ(clean.find("argv")->as_array()[4], Json("80"));
}

TEST(Redact, LeavesOutWhatTheRequestSent) {
  const net::Headers sent = {{"Authorization", "Bearer my-own-key"}, {"Accept", "json"}};
  const Json clean = without_secrets(parse(R"({"echo": "got my-own-key", "kind": "json"})"), sent);
  EXPECT_EQ(clean.dump(0).find("my-own-key"), std::string::npos);
  EXPECT_EQ(*clean.find("kind"), Json("json"));
}

TEST(Redact, CutsLongTextsAndLists) {
  Json list = Json::array();
  for (int item = 0; item < 100; ++item) list.push(item);
  Json json = Json::object();
  json.set("text", std::string(5000, 'x')).set("list", std::move(list));
  const Json clean = without_secrets(json, {});
  EXPECT_LE(clean.find("text")->as_string().size(), 400u);
  ASSERT_EQ(clean.find("list")->as_array().size(), 65u);
  EXPECT_EQ(clean.find("list")->as_array()[64], Json("... 36 more"));
}

TEST(ServerIdentity, PutsVllmTogether) {
  const ServerIdentity identity =
      identity_of({{"/v1/models", std::string(R"({"object": "list", "data": [
           {"id": "org/a", "owned_by": "vllm", "max_model_len": 4096}, {"id": "b"}]})")},
                   {"/version", std::string(R"({"version": "0.11.0"})")},
                   {"/health", std::string()},
                   {"/props", run_error("/props answers status 404")}},
                  {});
  EXPECT_EQ(identity.models, (std::vector<std::string>{"org/a", "b"}));
  EXPECT_EQ(identity.models_reason, "");
  EXPECT_EQ(identity.engine, "vllm");
  EXPECT_EQ(*identity.json.find("version"), Json("0.11.0"));
  EXPECT_EQ(*identity.json.find("healthy"), Json(true));
  EXPECT_EQ(*identity.json.find("models")->as_array()[0].find("max_model_len"), Json(4096));
  EXPECT_TRUE(identity.json.find("props")->is_null());
  EXPECT_EQ(reason_of(identity, "/props"), "/props answers status 404");
}

TEST(ServerIdentity, KnowsEnginesByWhatOnlyTheyHave) {
  const auto engine = [](Answers answers) { return identity_of(answers, {}).engine; };
  EXPECT_EQ(engine({{"/get_server_info", std::string(R"({"internal_states": []})")}}), "sglang");
  EXPECT_EQ(engine({{"/props", std::string(R"({"default_generation_settings": {}})")}}),
            "llamacpp");
  EXPECT_EQ(engine({{"/v1/models",
                     std::string(R"({"data": [{"id": "x", "owned_by": "tensorrt_llm"}]})")}}),
            "trtllm");
  const std::string own = R"({"data": [{"id": "x", "owned_by": "nibble"}]})";
  EXPECT_EQ(engine({{"/v1/models", own},
                    {"/server_info", std::string(R"({"engine": {"kv_blocks": 64}})")}}),
            "nibble");
  // A mock, or nobody knows who.
  EXPECT_EQ(engine({{"/v1/models", own}, {"/server_info", std::string(R"({"version": "1"})")}}),
            "");
  EXPECT_EQ(engine({{"/server_info", std::string(R"({"engine": {"kv_blocks": 64}})")}}), "");
  EXPECT_EQ(engine({}), "");
}

TEST(ServerIdentity, KnowsTheVocabularyWhereItIsTold) {
  const auto vocabulary = [](const char* page, const char* body) {
    return identity_of({{page, std::string(body)}}, {}).vocabulary;
  };
  EXPECT_EQ(vocabulary("/server_info", R"({"model": {"vocabulary": 4096}})"), 4096);
  // llama.cpp
  EXPECT_EQ(vocabulary("/v1/models", R"({"data": [{"id": "x", "meta": {"n_vocab": 32000}}]})"),
            32000);
  for (const char* odd : {"{}", "[]", R"({"model": 3})", R"({"model": {"vocabulary": "4096"}})",
                          R"({"model": {"vocabulary": 0}})", R"({"model": {"vocabulary": -5}})",
                          R"({"model": {"vocabulary": 4096.5}})", R"({"data": [3]})"}) {
    EXPECT_FALSE(vocabulary("/server_info", odd).has_value()) << odd;
    EXPECT_FALSE(vocabulary("/v1/models", odd).has_value()) << odd;
  }
}

TEST(ServerIdentity, TakesTheNewNameOfServerInfo) {
  const ServerIdentity identity =
      identity_of({{"/get_server_info", run_error("/get_server_info answers status 404")},
                   {"/server_info", std::string(R"({"version": "0.5.4", "tp_size": 8})")}},
                  {});
  EXPECT_EQ(*identity.json.find("server_info")->find("tp_size"), Json(8));
  EXPECT_EQ(*identity.json.find("version"), Json("0.5.4"));
  EXPECT_EQ(reason_of(identity, "/get_server_info"), "");
}

TEST(ServerIdentity, OddAnswersAreReasons) {
  for (const char* body : {"", "<html>", "[]", "3", "null", "{", R"({"data": 3})",
                           R"({"data": {}})", R"({"error": {"message": "no key"}})",
                           R"({"data": []})", R"({"data": [{"id": ""}, {"id": 3}, 7, null]})"}) {
    const ServerIdentity identity = identity_of({{"/v1/models", std::string(body)},
                                                 {"/version", std::string(body)},
                                                 {"/props", std::string(body)},
                                                 {"/get_server_info", std::string(body)}},
                                                {});
    EXPECT_TRUE(identity.models.empty()) << body;
    EXPECT_NE(identity.models_reason, "") << body;
    EXPECT_TRUE(identity.json.find("version")->is_null()) << body;
  }
}

TEST(ServerIdentity, AsksAServer) {
  PageServer server({{"/v1/models", {200, R"({"data": [{"id": "m", "owned_by": "sglang"}]})"}},
                     {"/health", {503, "starting"}},
                     {"/server_info", {200, R"({"api_key": "k", "dp_size": 2})"}},
                     {"/props", {200, std::string(std::size_t{2} << 20, ' ')}}});
  const ServerIdentity identity = identify(server.url(), {});
  EXPECT_EQ(identity.models, std::vector<std::string>{"m"});
  EXPECT_EQ(identity.engine, "sglang");
  EXPECT_EQ(*identity.json.find("healthy"), Json(false));
  EXPECT_EQ(reason_of(identity, "/health"), "/health answers status 503");
  EXPECT_EQ(*identity.json.find("server_info"), parse(R"({"dp_size": 2})"));
  EXPECT_EQ(reason_of(identity, "/version"), "/version answers status 404");
  EXPECT_NE(reason_of(identity, "/props"), "");  // larger than a page of this kind is
}

TEST(ServerIdentity, WaitsForNobody) {
  PageServer server({{"/v1/models", {-1, ""}}, {"/version", {200, R"({"version": "1"})"}}});
  const Nanoseconds begin = monotonic_now();
  const ServerIdentity identity = identify(server.url(), {.timeout = 2'000'000'000});
  EXPECT_LT(monotonic_now() - begin, 20'000'000'000);  // the silence lasts a minute
  EXPECT_NE(identity.models_reason, "");
  const Json* version = identity.json.find("version");
  ASSERT_NE(version, nullptr);
  EXPECT_EQ(*version, Json("1"));
}

TEST(ServerIdentity, NobodyListens) {
  const ServerIdentity identity = identify(*net::parse_url("http://127.0.0.1:1"), {});
  EXPECT_NE(identity.models_reason.find("127.0.0.1:1"), std::string::npos)
      << identity.models_reason;
  EXPECT_EQ(*identity.json.find("healthy"), Json(false));
}

}  // namespace
}  // namespace nibble::drive
