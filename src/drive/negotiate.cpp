#include "drive/negotiate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

#include "drive/send.h"
#include "load/dataset_words.h"
#include "load/record_json.h"

namespace nibble::drive {
namespace {

constexpr std::int64_t kProbeTokens = 4;
constexpr std::int64_t kShortProbe = 16;  // words, or token ids
constexpr std::int64_t kLongProbe = 144;
constexpr std::int64_t kWordNoise = 4;  // words differ in their tokens
constexpr auto kRetryEvery = std::chrono::milliseconds(250);
constexpr std::int64_t kHarmlessId = load::kFirstId;
constexpr std::int64_t kHarmlessIds = 1000;

// A field that servers refuse, and the target without it.
struct Relaxation {
  const char* what;
  bool Target::*field;
};
constexpr Relaxation kRelaxations[] = {
    {"stream_options.continuous_usage_stats, so that tokens per chunk are not known exactly",
     &Target::continuous_usage},
    {"prompts as token ids, so that they are sent as text", &Target::token_ids},
    {"stream_options.include_usage, so that it does not count tokens for us", &Target::usage},
    {"ignore_eos or min_tokens, so that answers may be shorter than asked", &Target::ignore_eos},
};

bool sends_ids(const Target& target) {
  return target.token_ids && target.backend.token_ids;
}

class Negotiation {
 public:
  Negotiation(Target target, std::unique_ptr<Prober> prober, const std::atomic<bool>& interrupted)
      : prober_(std::move(prober)), interrupted_(interrupted) {
    wire_.target = std::move(target);
  }

  Result<Wire> run(Nanoseconds patience) {
    deadline_ = monotonic_now() + patience;
    NIBBLE_RETURN_IF_ERROR(wait_for_listener());
    wire_.identity = identify(wire_.target.url, web_options());
    if (wire_.identity.vocabulary) take_vocabulary(*wire_.identity.vocabulary);
    NIBBLE_RETURN_IF_ERROR(choose_model());
    const auto& limits = wire_.identity.max_model_len;
    if (const auto limit = limits.find(wire_.target.model); limit != limits.end()) {
      wire_.facts.max_model_len = limit->second;
    }
    NIBBLE_ASSIGN_OR_RETURN(const bool answered, find_form());
    wire_.facts.token_ids = sends_ids(wire_.target);
    if (answered) NIBBLE_RETURN_IF_ERROR(measure_words());
    if (interrupted_) return run_error("interrupted before the load began: nothing was measured");
    return std::move(wire_);
  }

 private:
  telemetry::WebOptions web_options() const {
    const net::ClientOptions& client = wire_.target.client;
    return {.headers = client.headers,
            .verify_certificate = client.verify_certificate,
            .ca_file = client.ca_file};
  }

  bool may_wait() const { return monotonic_now() < deadline_ && !interrupted_; }

  Result<> wait_for_listener() {
    while (true) {
      if (interrupted_) return run_error("interrupted before the load began: nothing was measured");
      const net::Response response = prober_->get("/v1/models");
      if (response.exchange.status != 0) return {};
      if (response.exchange.fault == net::NetFault::kTls) {
        return input_error("{}", response.exchange.message);
      }
      if (!may_wait()) {
        return input_error(
            "{}; start the server, give another --base-url, or wait for it with "
            "--ready-check-timeout-sec",
            response.exchange.message);
      }
      std::this_thread::sleep_for(kRetryEvery);
    }
  }

  Result<> choose_model() {
    if (!wire_.target.model.empty()) return {};
    if (!wire_.identity.models.empty()) {
      wire_.target.model = wire_.identity.models.front();
      return {};
    }
    const api::Dialect dialect = wire_.target.backend.dialect;
    const bool needs = dialect == api::Dialect::kCompletions || dialect == api::Dialect::kChat;
    if (!needs) return {};
    return input_error("{} does not name its models ({}); give the name by --model",
                       wire_.target.url.text(), wire_.identity.models_reason);
  }

  // A prompt of harmless ids, or of words. `last_id` stands at the end of the ids.
  Result<Sent> ask(const Target& target, std::int64_t length,
                   std::optional<std::int64_t> last_id = std::nullopt) {
    load::Prompt prompt{.output_tokens = kProbeTokens};
    Random random(load::mix({static_cast<std::uint64_t>(monotonic_now())}));
    if (sends_ids(target)) {
      const std::int64_t end = wire_.facts.vocabulary.value_or(load::kEndId);
      const std::int64_t first = std::min(kHarmlessId, end / 2);
      const std::int64_t choices = std::min(kHarmlessIds, end - first);
      for (std::int64_t count = 0; count < length; ++count) {
        const auto drawn =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(choices)));
        prompt.ids.push_back(static_cast<std::int32_t>(first + drawn));
      }
      if (last_id) prompt.ids.back() = static_cast<std::int32_t>(*last_id);
    } else {
      prompt.text = load::text_of(length, "", 0, {}, random).text;
    }
    prompt.prompt_tokens = length;
    NIBBLE_ASSIGN_OR_RETURN(Job job, make_job(target, std::move(prompt)));
    return prober_->ask(target, std::move(job));
  }

  // Some servers stumble over a field that they do not know, instead of refusing it.
  static bool refused(const Sent& sent) {
    const int status = sent.record.http_status;
    return status == 400 || status == 422 || status == 500 || status == 501;
  }
  static bool not_ready(const Sent& sent) {
    const int status = sent.record.http_status;
    return status == 0 || status == 429 || status >= 500;
  }

  // True: the server has answered, and wire_.target is what it takes. False: it fails for reasons
  // of its own, which the load will show.
  Result<bool> find_form() {
    NIBBLE_ASSIGN_OR_RETURN(Sent first, ask(wire_.target, kShortProbe));
    if (refused(first) && relax(first)) return true;
    while (not_ready(first) && may_wait()) {
      std::this_thread::sleep_for(kRetryEvery);
      NIBBLE_ASSIGN_OR_RETURN(first, ask(wire_.target, kShortProbe));
    }
    if (first.record.http_status == 200) {
      note_usage(first);
      return first.record.outcome == load::Outcome::kOk;
    }
    if (not_ready(first)) {
      wire_.notes.push_back(fmt::format("the first request, of {} tokens, failed: {}", kProbeTokens,
                                        first.record.message));
      return false;
    }
    return refusal(first);
  }

  // One field alone, then one after the other until the server takes it.
  bool relax(const Sent& first) {
    for (const Relaxation& relaxation : kRelaxations) {
      Target target = wire_.target;
      if (!(target.*relaxation.field)) continue;
      target.*relaxation.field = false;
      if (try_form(target)) return note_refused(relaxation, first);
    }
    Target target = wire_.target;
    std::vector<const Relaxation*> dropped;
    for (const Relaxation& relaxation : kRelaxations) {
      if (!(target.*relaxation.field)) continue;
      target.*relaxation.field = false;
      dropped.push_back(&relaxation);
      if (dropped.size() < 2 || !try_form(target)) continue;
      for (const Relaxation* each : dropped) note_refused(*each, first);
      return true;
    }
    return false;
  }

  bool try_form(const Target& target) {
    const Result<Sent> sent = ask(target, kShortProbe);
    if (!sent.ok() || sent->record.outcome != load::Outcome::kOk) return false;
    wire_.target = target;
    note_usage(*sent);
    return true;
  }

  bool note_refused(const Relaxation& relaxation, const Sent& first) {
    wire_.notes.push_back(
        fmt::format("the server refuses {} ({})", relaxation.what, first.record.message));
    return true;
  }

  void note_usage(const Sent& sent) {
    const load::RequestRecord& record = sent.record;
    if (record.outcome != load::Outcome::kOk || !wire_.target.usage) return;
    const bool streamed = wire_.target.stream && record.streamed;
    if (!record.output_tokens) {
      wire_.notes.push_back("the server gives no usage, although it was asked for");
    } else if (*record.output_tokens > 0 && streamed && wire_.target.continuous_usage &&
               record.token_source != load::TokenSource::kContinuousUsage) {
      wire_.notes.push_back(
          "the server passes over continuous_usage_stats: tokens per chunk are not known exactly");
    }
  }

  Error refusal(const Sent& first) const {
    const std::string where = wire_.target.url.text();
    const std::string& message = first.record.message;
    const int status = first.record.http_status;
    if (status == 401 || status == 403) {
      return input_error("{} wants a key ({}); give it by --api-key-env or --api-key-file", where,
                         message);
    }
    const std::vector<std::string>& models = wire_.identity.models;
    const std::string known =
        models.empty() ? "" : fmt::format("; its models: {}", fmt::join(models, ", "));
    return input_error(
        "{} refuses a request of {} tokens for model \"{}\" ({}){}; see --model, --backend and "
        "--endpoint",
        where, kProbeTokens, wire_.target.model, message, known);
  }

  // How long words are in tokens, and what a chat template adds: from two prompts.
  Result<> measure_words() {
    NIBBLE_ASSIGN_OR_RETURN(const Sent small, ask(wire_.target, kShortProbe));
    const std::int64_t last_id = wire_.facts.vocabulary.value_or(load::kEndId) - 1;
    NIBBLE_ASSIGN_OR_RETURN(Sent large, ask(wire_.target, kLongProbe, last_id));
    if (sends_ids(wire_.target) && refused(large) && !wire_.facts.vocabulary) {
      NIBBLE_RETURN_IF_ERROR(find_vocabulary());
      NIBBLE_ASSIGN_OR_RETURN(large, ask(wire_.target, kLongProbe));
    }
    const auto& few = small.record.prompt_tokens;
    const auto& many = large.record.prompt_tokens;
    if (!few || !many || *many <= *few) return {};
    const double each = static_cast<double>(*many - *few) / (kLongProbe - kShortProbe);
    const std::int64_t added = std::llround(static_cast<double>(*few) - each * kShortProbe);
    const bool ids = sends_ids(wire_.target);
    if (!ids) wire_.facts.tokens_per_word = each;
    wire_.facts.template_tokens = std::max<std::int64_t>(0, added);
    if (added >= (ids ? 1 : kWordNoise)) {
      wire_.notes.push_back(
          fmt::format("the server counts {} tokens more than were sent in every prompt: its "
                      "template or special "
                      "tokens",
                      added));
    }
    return {};
  }

  void take_vocabulary(std::int64_t count) {
    if (count >= load::kEndId) return;
    wire_.facts.vocabulary = count;
    wire_.notes.push_back(
        fmt::format("the server has {} token ids: prompts of random ids hold no others", count));
  }

  // A model of few tokens refuses most prompts of random ids, or all. Its server says why in words
  // of its own; which ids it takes is the same everywhere. Harmless ids were taken before.
  Result<> find_vocabulary() {
    std::int64_t taken = kHarmlessId;
    std::int64_t refused_id = load::kEndId - 1;
    NIBBLE_ASSIGN_OR_RETURN(const Sent highest, ask(wire_.target, kShortProbe, refused_id));
    if (!refused(highest)) return {};  // it was not for its ids that the long one was refused
    while (refused_id - taken > 1 && !interrupted_) {
      const std::int64_t middle = taken + (refused_id - taken) / 2;
      NIBBLE_ASSIGN_OR_RETURN(const Sent sent, ask(wire_.target, kShortProbe, middle));
      (refused(sent) ? refused_id : taken) = middle;
    }
    take_vocabulary(refused_id);
    return {};
  }

  std::unique_ptr<Prober> prober_;
  const std::atomic<bool>& interrupted_;
  Nanoseconds deadline_ = 0;
  Wire wire_;
};

}  // namespace

Result<Wire> negotiate(Target target, Nanoseconds patience, const std::atomic<bool>& interrupted) {
  NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<Prober> prober,
                          Prober::make(target.url, target.client, interrupted));
  return Negotiation(std::move(target), std::move(prober), interrupted).run(patience);
}

}  // namespace nibble::drive
