#include "cli/load_flags.h"

#include <cmath>

#include "base/file.h"
#include "cli/load_flags_fixture.h"
#include "drive/redact.h"

namespace nibble::cli {
namespace {

// ---- the target --------------------------------------------------------------------------------

TEST_F(LoadFlagsTest, DefaultsAreThoseOfTheBenchmarks) {
  const auto flags = flags_with({});
  ASSERT_TRUE(flags.ok());
  const drive::Target& target = flags->run.target;
  EXPECT_EQ(target.backend.name, "openai");
  EXPECT_EQ(target.url.text(), "http://127.0.0.1:8000");
  EXPECT_TRUE(target.ignore_eos && target.stream && target.token_ids);
  EXPECT_EQ(target.temperature, 0);
  EXPECT_EQ(flags->run.levels[0].warmups, 1);
  EXPECT_TRUE(has_note(*flags, "ignore_eos is on"));
  EXPECT_EQ(flags_with({"--backend", "sglang"})->run.target.url.port, 30000);
  EXPECT_EQ(flags_with({"--backend", "llamacpp"})->run.target.url.port, 8080);
  EXPECT_TRUE(has_note(*flags_with({"--backend", "sglang-oai"}), "rules of SGLang's benchmark"));
}

TEST_F(LoadFlagsTest, HostAndPortMakeAnAddress) {
  EXPECT_EQ(flags_with({"--host", "node7", "--port", "81"})->run.target.url.text(),
            "http://node7:81");
  EXPECT_EQ(flags_with({"--host", "::1"})->run.target.url.text(), "http://[::1]:8000");
  EXPECT_EQ(flags_with({"--host", "0.0.0.0"})->run.target.url.host, "127.0.0.1");
  EXPECT_FALSE(flags_with({"--host", "a", "--base-url", "http://b"}).ok());
  EXPECT_FALSE(flags_with({"--port", "0"}).ok());
}

TEST_F(LoadFlagsTest, AnAddressOfOpenAisLibraryIsUnderstood) {
  const auto flags = flags_with({"--base-url", "http://h:1/x/v1/"});
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->run.target.url.text(), "http://h:1/x");
  EXPECT_TRUE(has_note(*flags, "taken once"));
  EXPECT_EQ(flags_with({"--base-url", "http://h:1/v1", "--backend", "sglang"})->run.target.url.path,
            "/v1");
}

TEST_F(LoadFlagsTest, EndpointAndBackendAgree) {
  EXPECT_EQ(flags_with({"--endpoint", "/v1/chat/completions"})->run.target.backend.name,
            "openai-chat");
  EXPECT_EQ(flags_with({"--endpoint", "/my/own"})->run.target.backend.name, "openai");
  EXPECT_TRUE(contains(fault_with({"--endpoint", "/v1/chat/completions", "--backend", "vllm"}),
                       "speaks chat completions, and --backend vllm speaks completions"));
  EXPECT_FALSE(flags_with({"--endpoint", "v1/completions"}).ok());
  EXPECT_FALSE(flags_with({"--endpoint", "/a b"}).ok());
  EXPECT_FALSE(flags_with({"--backend", "vlm"}).ok());
}

TEST_F(LoadFlagsTest, TheServedNameIsAskedFor) {
  EXPECT_EQ(flags_with({"--model", "m"})->run.target.model, "m");
  EXPECT_EQ(flags_with({"--model", "/data/m", "--served-model-name", "s"})->run.target.model, "s");
  EXPECT_EQ(flags_with({})->run.target.model, "");
}

TEST_F(LoadFlagsTest, BodyOptions) {
  const auto flags = flags_with({"--temperature", "server", "--top-p", "0.9", "--top-k", "20",
                                 "--extra-body", R"({"stop": ["x"], "top_k": 3})",
                                 "--disable-ignore-eos", "--disable-stream", "--no-token-ids"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  const drive::Target& target = flags->run.target;
  EXPECT_EQ(target.temperature, std::nullopt);
  EXPECT_EQ(target.top_p, 0.9);
  EXPECT_EQ(target.extra_body.dump(0), R"({"stop":["x"],"top_k":3})");
  EXPECT_FALSE(target.ignore_eos || target.stream || target.token_ids);
  const auto sglang = flags_with({"--backend", "sglang", "--min-p", "0.1"});
  EXPECT_EQ(sglang->run.target.extra_body.dump(0), R"({"sampling_params":{"min_p":0.1}})");
  for (const Words& words : {Words{"--extra-body", "[1]"},
                             {"--extra-body", "{"},
                             {"--temperature", "hot"},
                             {"--temperature", "-1"},
                             {"--top-p", "0"},
                             {"--top-p", "1.1"},
                             {"--ignore-eos", "--disable-ignore-eos"},
                             {"--insecure", "--ca-file", "x"}}) {
    EXPECT_FALSE(flags_with(words).ok()) << words[0];
  }
}

TEST_F(LoadFlagsTest, Timeouts) {
  const auto flags = flags_with({"--timeout-connect", "1.5", "--timeout-first-byte", "2",
                                 "--timeout-idle", "0", "--timeout-total", "9"});
  ASSERT_TRUE(flags.ok());
  const net::Timeouts& timeouts = flags->run.target.client.timeouts;
  EXPECT_EQ(timeouts.connect, 1'500'000'000);
  EXPECT_EQ(timeouts.first_byte, 2'000'000'000);
  EXPECT_EQ(timeouts.idle, 0);
  EXPECT_EQ(timeouts.total, 9'000'000'000);
}

// ---- secrets -----------------------------------------------------------------------------------

TEST_F(LoadFlagsTest, KeysComeFromVariablesAndFiles) {
  const auto authorization = [](const Words& words) {
    const auto flags = flags_with(words);
    if (!flags.ok()) return "fault: " + flags.error().message;
    const auto found = net::find_header(flags->run.target.client.headers, "authorization");
    return found ? std::string(*found) : std::string();
  };
  const ScopedEnvironment variable("NIBBLE_TEST_KEY", "hidden1");
  EXPECT_EQ(authorization({}), "");
  EXPECT_EQ(authorization({"--api-key-env", "NIBBLE_TEST_KEY"}), "Bearer hidden1");
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "key").string();
  ASSERT_TRUE(write_file(path, "hidden2\n").ok());
  EXPECT_EQ(authorization({"--api-key-file", path}), "Bearer hidden2");
  const ScopedEnvironment usual("OPENAI_API_KEY", "hidden3");
  EXPECT_EQ(authorization({}), "Bearer hidden3");
  EXPECT_EQ(authorization({"--header", "Authorization=Basic x="}), "Basic x=");
  EXPECT_TRUE(contains(authorization({"--api-key-file", path, "--header", "authorization: y"}),
                       "fault: --header gives an Authorization already"));
}

TEST_F(LoadFlagsTest, MessagesNeverRepeatAKey) {
  const ScopedEnvironment broken("NIBBLE_TEST_KEY", "hid\nden");
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "key").string();
  ASSERT_TRUE(write_file(path, "hid\001den").ok());
  for (const Words& words : {Words{"--api-key-env", "NIBBLE_TEST_KEY"},
                             {"--api-key-env", "sk-hidden"},
                             {"--api-key-env", "hf_hidden"},
                             {"--api-key-file", path},
                             {"--header", "hidden"},
                             {"--header", "X: hid\001den"},
                             {"--header", "Host=hidden"},
                             {"--extra-body", "{\"hidden"},
                             {"--base-url", "http://u:hidden@h"},
                             {"--api-key", "hidden"}}) {
    const std::string fault = fault_with(words);
    EXPECT_NE(fault, "") << words[0];
    EXPECT_FALSE(contains(fault, "hidden") || contains(fault, "hid")) << fault;
  }
}

TEST_F(LoadFlagsTest, TheKeptCommandLineHasNoSecrets) {
  const Words words = {"nibble",
                       "load",
                       "--header",
                       "X-Key=hidden",
                       "Y: hidden=",
                       "--header=Z=hidden",
                       "--extra-body",
                       R"({"api_key": "hidden", "max_tokens": 5})",
                       "--metadata",
                       "gpu=h200",
                       "password=hidden",
                       "--label",
                       "a b"};
  EXPECT_EQ(command_without_secrets(words),
            "nibble load --header 'X-Key=***' 'Y:***' '--header=Z=***' --extra-body "
            "'{\"api_key\":\"***\",\"max_tokens\":5}' --metadata gpu=h200 'password=***' --label "
            "'a b'");
  const auto flags =
      flags_with({"--header", "X-Key=hidden", "--metadata", "gpu=h200", "auth_token=hidden",
                  "--extra-request-body={\"token\":\"hidden\"}"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_FALSE(contains(flags->run.setup.command, "hidden"));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(flags->run.setup.metadata, (Pairs{{"gpu", "h200"}, {"auth_token", "***"}}));
}

TEST_F(LoadFlagsTest, NamesOfSecrets) {
  for (const char* name : {"api_key", "API-KEY", "Authorization", "token", "hf_token", "x-api-key",
                           "client_secret", "Cookie", "access_token", "db_password"}) {
    EXPECT_TRUE(drive::names_a_secret(name)) << name;
  }
  for (const char* name : {"max_tokens", "min_tokens", "stop_token_ids", "model", "label"}) {
    EXPECT_FALSE(drive::names_a_secret(name)) << name;
  }
}

TEST_F(LoadFlagsTest, AKeyIsForItsServerAlone) {
  const Words key = {"--header", "Authorization=x", "--base-url", "http://a:1"};
  Words own = key;
  own.insert(own.end(), {"--server-metrics", "a:1"});
  EXPECT_EQ(flags_with(own)->run.telemetry_options.web.headers.size(), 1u);
  Words other = key;
  other.insert(other.end(), {"--server-metrics", "http://a:1,http://b:1"});
  const auto flags = flags_with(other);
  ASSERT_TRUE(flags.ok());
  EXPECT_TRUE(flags->run.telemetry_options.web.headers.empty());
  EXPECT_TRUE(has_note(*flags, "not sent to metrics pages"));
}

// ---- results and the rest ----------------------------------------------------------------------

TEST_F(LoadFlagsTest, GoodputTakesWordsListsAndRepetitions) {
  for (const Words& words : {Words{"--goodput", "ttft:200", "tpot:50.5"},
                             {"--goodput", "ttft:200,tpot:50.5"},
                             {"--goodput=ttft:200", "--goodput", "tpot:50.5"}}) {
    const auto flags = flags_with(words);
    ASSERT_TRUE(flags.ok()) << flags.error().message;
    EXPECT_EQ(flags->run.metrics.slo.ttft_ms, 200);
    EXPECT_EQ(flags->run.metrics.slo.tpot_ms, 50.5);
    EXPECT_EQ(flags->run.metrics.slo.e2el_ms, std::nullopt);
  }
  for (const char* text : {"ttft", "ttft:", "ttft:x", "ttft:-1", "speed:1", ":1", "ttft:1,,"}) {
    EXPECT_TRUE(contains(fault_with({"--goodput", text}), "--goodput has \"")) << text;
  }
  EXPECT_TRUE(contains(fault_with({"--goodput", "itl:1", "itl:2"}), "limits itl twice"));
}

TEST_F(LoadFlagsTest, PercentilesAreAdded) {
  const auto flags = flags_with({"--metric-percentiles", "99.9,50,25"});
  ASSERT_TRUE(flags.ok());
  const std::vector<double> expected = {0.25, 0.5, 0.9, 0.95, 0.99, 0.999};
  ASSERT_EQ(flags->run.metrics.quantiles.size(), expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) {
    EXPECT_DOUBLE_EQ(flags->run.metrics.quantiles[index], expected[index]);
  }
  EXPECT_EQ(flags->run.metrics.asked.size(), 3U);
  EXPECT_TRUE(flags->run.metrics.is_asked(0.5));
  EXPECT_FALSE(flags->run.metrics.is_asked(0.99));
  for (const char* text : {"0", "100", "x", "50,,99", "-5"}) {
    EXPECT_FALSE(flags_with({std::string("--metric-percentiles=") + text}).ok()) << text;
  }
}

// "set" within "dataset" is no word of it.
TEST_F(LoadFlagsTest, OnlyNearNamesAreSuggested) {
  EXPECT_FALSE(contains(fault_of({"--plot-dataset-stats"}), "did you mean"));
  EXPECT_TRUE(contains(fault_of({"--plot-dataset-stats"}), "\"nibble load --help\" lists"));
  EXPECT_TRUE(contains(fault_of({"--rate"}), "--request-rate"));
  EXPECT_TRUE(contains(fault_of({"--max-conc"}), "did you mean --max-concurrency"));
  EXPECT_TRUE(contains(fault_of({"--request-rat"}), "did you mean --request-rate"));
}

TEST_F(LoadFlagsTest, HowManyPromptsWereAskedForIsKept) {
  const auto asked = [](const Words& words) {
    const auto flags = flags_of(words);
    EXPECT_TRUE(flags.ok());
    return flags->run.setup.num_prompts;
  };
  EXPECT_EQ(asked({"--max-concurrency", "1,2", "--num-prompts", "10"}), 10);
  EXPECT_EQ(asked({"--max-concurrency", "1,2", "--num-prompts", "10,20"}), std::nullopt);
  EXPECT_EQ(asked({"--max-concurrency", "1,2", "--duration", "5"}), std::nullopt);
}

TEST_F(LoadFlagsTest, OtherBenchmarksFlagsAreNotedOrRefused) {
  const auto flags = flags_with({"--trust-remote-code", "--tokenizer-mode", "auto",
                                 "--percentile-metrics", "ttft,tpot", "--disable-tqdm"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_TRUE(has_note(*flags, "--trust-remote-code changes nothing"));
  EXPECT_TRUE(has_note(*flags, "--tokenizer-mode changes nothing"));
  EXPECT_FALSE(flags->progress);
  for (const char* flag : {"--use-beam-search", "--profile", "--apply-chat-template"}) {
    EXPECT_TRUE(contains(fault_with({flag}), std::string(flag) + " is not done here")) << flag;
  }
}

TEST_F(LoadFlagsTest, OutputsThatNeedOthers) {
  EXPECT_EQ(fault_with({"--save-detailed"}),
            "--save-detailed needs --save-result or "
            "--append-result");
  EXPECT_FALSE(flags_with({"--result-dir", "x"}).ok());
  EXPECT_FALSE(flags_with({"--output-details"}).ok());
  EXPECT_FALSE(flags_with({"--metadata", "x"}).ok());
  EXPECT_FALSE(flags_with({"--metadata", "a=1", "a=2"}).ok());
  EXPECT_FALSE(flags_with({"--no-telemetry", "--telemetry", "h:1"}).ok());
  EXPECT_TRUE(flags_with({"--append-result", "--result-filename", "x"})->outputs.save);
}

TEST_F(LoadFlagsTest, ThePhysicalFitKnowsTheModelByName) {
  const auto flags = flags_with({"--model", "glm-5-nvfp4", "--gpu", "h200", "--tp", "8",
                                 "--random-input-len", "1000", "--random-output-len", "200"});
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  ASSERT_TRUE(flags->ledger.has_value());
  EXPECT_EQ(flags->run.target.model, "glm-5-nvfp4");
  EXPECT_EQ(flags->ledger->deployment().layout.tp, 8);
  EXPECT_EQ(flags->ledger->deployment().context, 1100);  // prompt and half of the answer
  const auto own = flags_with({"--model", "prod", "--model-config", "glm-5-nvfp4", "--gpu", "h200",
                               "--tp", "8", "--context", "77"});
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->run.target.model, "prod");
  EXPECT_EQ(own->ledger->deployment().context, 77);
  EXPECT_TRUE(contains(fault_with({"--model", "prod-model-x", "--gpu", "h200"}),
                       "--model-config names what is served"));
  EXPECT_TRUE(contains(fault_with({"--gpu", "h200"}), "--gpu asks for the physical fit"));
  EXPECT_TRUE(contains(fault_with({"--tp", "8"}), "name its GPU"));
  EXPECT_FALSE(flags_with({"--model", "glm-5-nvfp4"})->ledger.has_value());
}

TEST_F(LoadFlagsTest, NoncesDiffer) {
  EXPECT_NE(flags_with({})->run.nonce, flags_with({})->run.nonce);
}

TEST(LoadText, ALineOfProgress) {
  drive::Progress progress{.levels = 1, .phase = "warm-up"};
  EXPECT_EQ(progress_text(progress), "warm-up");
  progress = {.level = 1,
              .levels = 4,
              .users = 8,
              .in_flight = 7,
              .done = 12,
              .failed = 1,
              .requests = 100,
              .tokens_per_s = 1234,
              .phase = "measuring"};
  EXPECT_EQ(progress_text(progress),
            "level 2/4  8 users  measuring  12/100 done, 1 failed  7 in flight  1234 tok/s");
  progress.requests = 0;
  progress.failed = 0;
  EXPECT_EQ(progress_text(progress),
            "level 2/4  8 users  measuring  12 done  7 in flight  1234 tok/s");
}

}  // namespace
}  // namespace nibble::cli
