#include "serve/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <string_view>

#include "base/text.h"
#include "serve/field_reader.h"
#include "serve/sampling_fields.h"

namespace nibble::serve {
namespace {

// Fields whose work this server does not do, and the value that asks for nothing; null and what is
// empty ask for nothing in all of them.
struct NeutralField {
  std::string_view name;
  std::string_view value = "null";
};
constexpr std::array kNeutral = {
    NeutralField{"tools"},
    NeutralField{"tool_choice", R"("none")"},
    NeutralField{"tool_choice", R"("auto")"},
    NeutralField{"functions"},
    NeutralField{"function_call", R"("none")"},
    NeutralField{"function_call", R"("auto")"},
    NeutralField{"response_format", R"({"type":"text"})"},
    NeutralField{"modalities", R"(["text"])"},
    NeutralField{"audio"},
    NeutralField{"prediction"},
    NeutralField{"web_search_options"},
    NeutralField{"suffix"},
    NeutralField{"prompt_logprobs"},
    NeutralField{"prompt_embeds"},
    NeutralField{"chat_template"},
    NeutralField{"continue_final_message", "false"},
    NeutralField{"documents"},
    NeutralField{"structured_outputs"},
    NeutralField{"use_beam_search", "false"},
    NeutralField{"length_penalty", "1"},
    NeutralField{"truncate_prompt_tokens"},
    NeutralField{"bad_words"},
    NeutralField{"allowed_token_ids"},
    NeutralField{"logits_processors"},
    NeutralField{"return_tokens_as_token_ids", "false"},
    NeutralField{"return_token_ids", "false"},
    NeutralField{"priority", "0"},
};
constexpr std::string_view kGuided = "guided_";  // guided_json, guided_regex, ...

bool is_empty(const Json& value) {
  if (value.is_string()) return value.as_string().empty();
  if (value.is_array()) return value.as_array().empty();
  return value.is_null() || (value.is_object() && value.as_object().empty());
}

// Whether the field asks for something that this server does not do.
bool is_not_done(std::string_view name, const Json& given) {
  bool known = name.starts_with(kGuided);
  for (const NeutralField& neutral : kNeutral) {
    if (neutral.name != name) continue;
    known = true;
    if (given == Json::parse(neutral.value, name).value()) return false;
  }
  return known && !is_empty(given);
}

constexpr NumberRange kTokens = {.min = 1, .max = 2147483647};

std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

class ParameterReader {
 public:
  ParameterReader(api::Dialect dialect, api::SplitBody split, const Bounds& bounds)
      : split_(std::move(split)),
        fields_(split_.rest),
        bounds_(bounds),
        chat_(dialect == api::Dialect::kChat) {
    asked_.dialect = dialect;
  }

  Checked<Parameters> read() {
    const std::optional<Refusal> other_model = fields_.other_model(bounds_);
    read_prompt();
    refuse_what_is_not_done();
    read_lengths();
    read_sampling();
    read_logit_bias();
    read_logprobs();
    read_stops();
    read_form();
    read_template();
    if (const auto refusal = fields_.refusal()) return *refusal;
    if (other_model) return *other_model;
    return std::move(asked_);
  }

 private:
  void read_prompt() {
    const char* key = chat_ ? "messages" : "prompt";
    api::PromptMember& member = split_.prompt;
    if (member.fault) return fields_.fault(key, *member.fault);
    asked_.prompts = std::move(member.prompts);
    asked_.messages = std::move(member.messages);
  }

  void refuse_what_is_not_done() {
    for (const auto& [name, value] : split_.rest.as_object()) {
      if (!is_not_done(name, value)) continue;
      fields_.fault_at(name, "asks for what this server does not do; leave it out");
    }
  }

  void read_lengths() {
    asked_.max_tokens = fields_.integer("max_tokens", kTokens);
    if (chat_) {
      if (const auto newer = fields_.integer("max_completion_tokens", kTokens)) {
        asked_.max_tokens = newer;
      }
    }
    asked_.min_tokens = fields_.integer("min_tokens", {.min = 0, .max = kTokens.max}).value_or(0);
    check_min_tokens();
    asked_.n = fields_.integer("n", {.min = 1, .max = kMostChoices}).value_or(1);
    const auto best_of = fields_.integer("best_of", {.min = 1, .max = kMostChoices});
    if (best_of && *best_of != asked_.n) {
      fields_.fault_at("best_of", fmt::format("is {}; it must be n, which is {}: all answers are "
                                              "given",
                                              *best_of, asked_.n));
    }
    check_choices();
  }

  void check_min_tokens() {
    if (chat_ && !asked_.max_tokens) return;
    const std::int64_t most = asked_.max_tokens.value_or(kShortCompletion);
    if (asked_.min_tokens <= most) return;
    fields_.fault_at("min_tokens",
                     fmt::format("is {}, above max_tokens, which is {}{}", asked_.min_tokens, most,
                                 asked_.max_tokens ? "" : " where it is not given"));
  }

  void check_choices() {
    const std::int64_t most = std::min(kMostChoices, bounds_.places);
    if (asked_.choices() <= most) return;
    const char* holder = most == kMostChoices
                             ? "one request has"
                             : "this server (max_running_requests + max_queued_requests) holds";
    fields_.fault_at(asked_.n > 1 ? "n" : "prompt",
                     fmt::format("asks for {} answers, n for each prompt; {} at most {}",
                                 asked_.choices(), holder, most));
  }

  void read_sampling() {
    engine::Sampling& sampling = asked_.sampling;
    sampling = bounds_.defaults;
    read_distribution(fields_, bounds_.vocabulary, sampling);
    constexpr NumberRange kPenalty = {.min = -2, .max = 2};
    sampling.presence_penalty = fields_.number("presence_penalty", kPenalty).value_or(0);
    sampling.frequency_penalty = fields_.number("frequency_penalty", kPenalty).value_or(0);
    const auto seed = fields_.integer("seed", {});
    sampling.seed = seed ? static_cast<std::uint64_t>(*seed) : drawn_seed();
  }

  void read_logit_bias() {
    const Json* given = fields_.object("logit_bias");
    if (given == nullptr) return;
    for (const auto& [key, value] : given->as_object()) {
      engine::TokenId id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      // "07" would be a second name of 7.
      const bool plain = error == std::errc() && end == key.data() + key.size() &&
                         (key == "0" || !key.starts_with('0'));
      if (!plain || id < 0 || id >= bounds_.vocabulary) {
        return fields_.fault_at("logit_bias",
                                fmt::format("has the key \"{}\", which is no token id below {}",
                                            printable(key, 40), bounds_.vocabulary));
      }
      if (!value.is_number() || !(value.as_number() >= -100 && value.as_number() <= 100)) {
        return fields_.fault_at("logit_bias",
                                fmt::format("of {} must be a number from -100 to 100", key));
      }
      asked_.sampling.logit_bias.emplace_back(id, static_cast<float>(value.as_number()));
    }
  }

  void read_logprobs() {
    const auto most = static_cast<double>(std::min(kMostTopLogprobs, bounds_.vocabulary));
    if (!chat_) {
      asked_.sampling.logprobs = fields_.integer("logprobs", {.min = 0, .max = most});
      return;
    }
    const bool wanted = fields_.boolean("logprobs", false);
    const auto top = fields_.integer("top_logprobs", {.min = 0, .max = most});
    if (top.value_or(0) > 0 && !wanted) {
      fields_.fault_at("top_logprobs", "is for log probabilities; set logprobs to true");
    }
    if (wanted) asked_.sampling.logprobs = top.value_or(0);
  }

  void read_stops() {
    asked_.stop = fields_.strings("stop");
    if (asked_.stop.size() > kMostStops) {
      fields_.fault_at("stop", fmt::format("holds {} strings; at most {} are taken",
                                           asked_.stop.size(), kMostStops));
    }
    for (const std::string& stop : asked_.stop) {
      if (stop.empty()) fields_.fault_at("stop", "holds an empty string, which would end any text");
      if (stop.size() > kLongestStop) {
        fields_.fault_at("stop", fmt::format("holds a string of {} bytes; at most {} are taken",
                                             stop.size(), kLongestStop));
      }
    }
    asked_.stop_ids = fields_.token_ids("stop_token_ids", bounds_.vocabulary);
    asked_.ignore_eos = fields_.boolean("ignore_eos", false);
    asked_.include_stop = fields_.boolean("include_stop_str_in_output", false);
    asked_.skip_special = fields_.boolean("skip_special_tokens", true);
    fields_.boolean("spaces_between_special_tokens", true);
  }

  void read_form() {
    asked_.echo = fields_.boolean("echo", false);
    if (asked_.echo && chat_) fields_.fault_at("echo", "is for completions");
    if (asked_.echo && asked_.sampling.logprobs) {
      fields_.fault_at("echo",
                       "cannot stand beside logprobs: those of a prompt are not known here");
    }
    fields_.string("user");
    asked_.stream = fields_.boolean("stream", false);
    const Json* given = fields_.object("stream_options");
    if (given == nullptr) return;
    if (!asked_.stream) {
      return fields_.fault_at("stream_options", "is for streams; set stream to true");
    }
    ObjectReader options(*given, "request: stream_options");
    asked_.include_usage = options.boolean("include_usage").value_or(false);
    asked_.continuous_usage =
        options.boolean("continuous_usage_stats").value_or(false) && asked_.include_usage;
    const Result<> state = options.finish_lenient();
    if (!state.ok()) fields_.fault("stream_options", state.error());
  }

  void read_template() {
    asked_.add_special = fields_.boolean("add_special_tokens", !chat_);
    if (!chat_) return;
    asked_.add_generation_prompt = fields_.boolean("add_generation_prompt", true);
    if (const Json* values = fields_.object("chat_template_kwargs")) {
      asked_.template_values = *values;
      read_template_values(*values);
    }
  }

  // As in vLLM, add_generation_prompt may stand there, too, and then counts.
  void read_template_values(const Json& values) {
    for (const std::string_view name : {"messages", "tools"}) {
      const Json* value = values.find(name);
      if (value == nullptr || value->is_null()) continue;
      fields_.fault_at("chat_template_kwargs",
                       fmt::format("holds {}, which the server itself gives the template", name));
    }
    const Json* prompt = values.find("add_generation_prompt");
    if (prompt == nullptr || prompt->is_null()) return;
    if (!prompt->is_bool()) {
      return fields_.fault_at("chat_template_kwargs",
                              "holds an add_generation_prompt that is neither true nor false");
    }
    asked_.add_generation_prompt = prompt->as_bool();
  }

  api::SplitBody split_;
  FieldReader fields_;
  const Bounds& bounds_;
  bool chat_;
  Parameters asked_;
};

}  // namespace

Checked<Parameters> read_parameters(api::Dialect dialect, std::string_view body,
                                    const Bounds& bounds) {
  Result<api::SplitBody> split = api::split_body(dialect, body);
  if (!split) return Refusal{.message = split.error().message};
  return ParameterReader(dialect, std::move(*split), bounds).read();
}

}  // namespace nibble::serve
