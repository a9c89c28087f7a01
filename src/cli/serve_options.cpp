// The options of `nibble serve`.
#include "cli/serve.h"

namespace nibble::cli {
namespace {

OptionDef serve_count(const char* name, const char* help, const char* by_default,
                      const char* group) {
  return {.name = name,
          .value = "N",
          .kind = ValueKind::kInteger,
          .help = help,
          .default_text = by_default,
          .group = group};
}

OptionDef serve_seconds(const char* name, const char* help, const char* by_default) {
  return {.name = name,
          .value = "SECONDS",
          .kind = ValueKind::kNumber,
          .help = help,
          .default_text = by_default};
}

std::vector<OptionDef> serving_options() {
  return {{.name = "--model",
           .value = "DIR",
           .kind = ValueKind::kDirectory,
           .help = "the folder of a checkpoint, with its tokenizer",
           .default_text = "the small model that is built in"},
          {.name = "--served-model-name",
           .value = "NAME",
           .help = "what requests call it",
           .default_text = "the folder's name"},
          {.name = "--generation-config",
           .value = "SOURCE",
           .kind = ValueKind::kChoice,
           .help = "of the sampling of requests that do not say: the checkpoint's "
                   "generation_config.json, or none",
           .default_text = "auto",
           .choices = {"auto", "none"}},
          {.name = "--host",
           .value = "ADDRESS",
           .help = "the address to listen on; 0.0.0.0: all of this machine",
           .default_text = "127.0.0.1"},
          {.name = "--port",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "where to listen; 0: any port that is free",
           .default_text = "8000"},
          {.name = "--api-key-file",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "ask for the key that is in this file"},
          {.name = "--api-key-env",
           .value = "VARIABLE",
           .help = "ask for the key that is in this environment variable"},
          {.name = "--allow-origin",
           .value = "ORIGIN",
           .help = "pages of this origin may ask from a browser; *: all"},
          serve_seconds("--request-timeout", "from a request to its last token; 0: no limit", "0"),
          serve_seconds("--ready-timeout",
                        "without a sign of life of the engine, until /health/ready says 503", "30"),
          serve_seconds("--shutdown-timeout", "that answers under way have after SIGTERM or Ctrl-C",
                        "30"),
          {.name = "--max-body-bytes",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "the longest request",
           .default_text = "16777216"},
          {.name = "--http-threads",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "event loops; text is tokenized on them too",
           .default_text = "1"}};
}

std::vector<OptionDef> engine_flags() {
  const char* group = "The engine";
  return {serve_count("--max-running-requests", "sequences of one step", "64", group),
          serve_count("--max-num-batched-tokens", "tokens of one step, prompts in chunks", "256",
                      group),
          serve_count("--max-queued-requests", "that wait; more are answered 503", "1024", group),
          serve_count("--max-model-len", "tokens of one request, prompt and output",
                      "the model's own", group),
          serve_count("--kv-blocks", "blocks of the KV cache",
                      "as 1024 tokens a running request need, in half of the memory", group),
          {.name = "--kv-cache-memory",
           .value = "GB",
           .kind = ValueKind::kNumber,
           .help = "size of the KV cache, instead of blocks",
           .group = group},
          {.name = "--block-tokens",
           .aliases = {"--block-size"},
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "tokens of a block",
           .default_text = "16",
           .group = group},
          {.name = "--kv-format",
           .aliases = {"--kv-cache-dtype"},
           .value = "FORMAT",
           .kind = ValueKind::kChoice,
           .help = "of keys and values",
           .default_text = "fp32",
           .choices = {"fp32", "bf16"},
           .group = group},
          {.name = "--activations",
           .value = "FORMAT",
           .kind = ValueKind::kChoice,
           .help = "that meet 4-bit weights",
           .default_text = "fp32",
           .choices = {"bf16", "fp32", "int8", "nvfp4"},
           .group = group},
          {.name = "--isa",
           .value = "NAME",
           .kind = ValueKind::kChoice,
           .help = "instructions of the kernels",
           .default_text = "the best that this processor has",
           .choices = {"portable", "avx2", "avx512"},
           .group = group},
          {.name = "--tuning",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "take the choices that nibble tune wrote there for the experts",
           .group = group},
          {.name = "--no-prefix-caching", .help = "compute every prompt anew", .group = group},
          serve_count("--threads", "of the engine", "one a processor", group),
          {.name = "--inject",
           .value = "KEY=VALUE,...",
           .help = "faults on purpose, to test diagnoses: step_stall_ms, front_end_block_ms, "
                   "router_bias (docs/serve.md)",
           .repeatable = true,
           .group = group}};
}

}  // namespace

std::vector<OptionDef> serve_options() {
  std::vector<OptionDef> options = serving_options();
  for (OptionDef& option : engine_flags()) options.push_back(std::move(option));
  return options;
}

}  // namespace nibble::cli
