// The server's end of request.h.
#include "api/request.h"
#include "api/request_prompt.h"

namespace nibble::api {
namespace {

constexpr double kMaxTokens = 1e9;
constexpr NumberRange kTokens = {.min = 1, .max = kMaxTokens};

class RequestReader {
 public:
  RequestReader(Dialect dialect, SplitBody split)
      : dialect_(dialect),
        split_(std::move(split)),
        body_(split_.rest),
        reader_(body_, "request") {}

  Result<GenerationRequest> read() {
    request_.model = reader_.string("model").value_or("");
    if (dialect_ == Dialect::kSglang) {
      read_sglang();
    } else if (dialect_ == Dialect::kLlamacpp) {
      read_llamacpp();
    } else {
      read_openai();
    }
    check_limits();
    NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
    return std::move(request_);
  }

 private:
  // Members that we read; the others are kept as they are.
  template <class... Names>
  void keep_unknown(const Json& object, Names... names) {
    for (const Json::Member& member : object.as_object()) {
      const bool known = ((member.first == names) || ...);
      if (!known) extra_of(object).set(member.first, member.second);
    }
  }
  Json& extra_of(const Json& object) {
    if (&object == &body_) return request_.extra_body;
    Json* nested = request_.extra_body.find("sampling_params");
    if (nested == nullptr) {
      request_.extra_body.set("sampling_params", Json::object());
      nested = request_.extra_body.find("sampling_params");
    }
    return *nested;
  }

  void read_stream(bool default_usage) {
    request_.stream = reader_.boolean("stream").value_or(false);
    request_.include_usage = default_usage;
    request_.continuous_usage = default_usage;
  }

  void read_openai() {
    const bool chat = dialect_ == Dialect::kChat;
    take_prompt();
    request_.max_tokens = reader_.integer("max_tokens", kTokens);
    const auto newer = reader_.integer("max_completion_tokens", kTokens);
    if (chat && newer) {
      request_.max_tokens = newer;
      request_.max_completion_tokens = true;
    }
    request_.min_tokens = reader_.integer("min_tokens", {.min = 0, .max = kMaxTokens});
    read_sampling(reader_);
    request_.seed = reader_.integer("seed");
    request_.ignore_eos = reader_.boolean("ignore_eos").value_or(false);
    read_stream(false);
    read_stream_options();
    if (reader_.integer("n", {.min = 1}).value_or(1) != 1) {
      reader_.fault_at("n", "must be 1: a request has one answer here");
    }
    keep_unknown(body_, "model", "prompt", "messages", "max_tokens", "max_completion_tokens",
                 "min_tokens", "temperature", "top_p", "stop", "seed", "ignore_eos", "stream",
                 "stream_options", "n");
  }

  void read_stream_options() {
    const Json* given = reader_.object("stream_options");
    if (given == nullptr) return;
    if (!request_.stream) {
      return reader_.fault_at("stream_options", "is for streams; set stream to true");
    }
    ObjectReader options(*given, "request: stream_options");
    request_.include_usage = options.boolean("include_usage").value_or(false);
    request_.continuous_usage =
        options.boolean("continuous_usage_stats").value_or(false) && request_.include_usage;
    take_fault(options);
  }

  void read_sglang() {
    take_prompt();
    static const Json kNone = Json::object();
    const Json* given = reader_.object("sampling_params");
    const Json& parameters = given == nullptr ? kNone : *given;
    ObjectReader sampling(parameters, "request: sampling_params");
    request_.max_tokens = sampling.integer("max_new_tokens", kTokens);
    request_.min_tokens = sampling.integer("min_new_tokens", {.min = 0, .max = kMaxTokens});
    read_sampling(sampling);
    request_.seed = sampling.integer("sampling_seed");
    request_.ignore_eos = sampling.boolean("ignore_eos").value_or(false);
    take_fault(sampling);
    read_stream(true);
    keep_unknown(body_, "model", "text", "input_ids", "sampling_params", "stream");
    keep_unknown(parameters, "max_new_tokens", "min_new_tokens", "temperature", "top_p", "stop",
                 "sampling_seed", "ignore_eos");
  }

  void read_llamacpp() {
    take_prompt();
    // -1 means without a limit, and other names are taken too.
    for (const char* key : {"max_tokens", "n_predict"}) {
      const auto limit = reader_.integer(key, {.min = -1, .max = kMaxTokens});
      if (limit && *limit == 0) reader_.fault_at(key, "must be -1 (no limit), or 1 or more");
      if (limit) request_.max_tokens = *limit < 0 ? std::nullopt : limit;
    }
    read_sampling(reader_);
    request_.seed = reader_.integer("seed");
    request_.ignore_eos = reader_.boolean("ignore_eos").value_or(false);
    read_stream(true);
    keep_unknown(body_, "model", "prompt", "n_predict", "max_tokens", "temperature", "top_p",
                 "stop", "seed", "ignore_eos", "stream");
  }

  void read_sampling(ObjectReader& from) {
    request_.temperature = from.number("temperature", {.min = 0, .max = 1e6});
    request_.top_p = from.number("top_p", {.max = 1, .above = 0.0});
    const Json* stop = from.any("stop");
    if (stop == nullptr) return;
    if (stop->is_string()) {
      request_.stop = {stop->as_string()};
      return;
    }
    const bool list = stop->is_array();
    if (list) {
      for (const Json& text : stop->as_array()) {
        if (!text.is_string()) return from.fault_at("stop", "must hold strings only");
        request_.stop.push_back(text.as_string());
      }
    } else {
      from.fault_at("stop", "must be a string or a list of strings");
    }
  }

  void take_prompt() {
    PromptMember& member = split_.prompt;
    // The first thing to mend, whatever else is wrong with them.
    if (member.prompts.size() > 1) {
      return reader_.fault_at(
          dialect_ == Dialect::kSglang ? "text" : "prompt",
          fmt::format("holds {} prompts; send a request for each of them", member.prompts.size()));
    }
    if (member.fault) return reader_.fault(*member.fault);
    request_.messages = std::move(member.messages);
    if (member.prompts.empty()) return;
    request_.prompt = std::move(member.prompts.front().text);
    request_.prompt_ids = std::move(member.prompts.front().ids);
  }

  void check_limits() {
    if (request_.min_tokens && request_.max_tokens && *request_.min_tokens > *request_.max_tokens) {
      reader_.fault(input_error("request: at least {} and at most {} tokens are asked for",
                                *request_.min_tokens, *request_.max_tokens));
    }
  }

  void take_fault(const ObjectReader& of) {
    const Result<> state = of.finish_lenient();
    if (!state) reader_.fault(state.error());
  }

  Dialect dialect_;
  SplitBody split_;
  const Json& body_;
  ObjectReader reader_;
  GenerationRequest request_;
};

}  // namespace

Result<GenerationRequest> parse_request(Dialect dialect, std::string_view body) {
  NIBBLE_ASSIGN_OR_RETURN(SplitBody split, split_body(dialect, body));
  return RequestReader(dialect, std::move(split)).read();
}

}  // namespace nibble::api
