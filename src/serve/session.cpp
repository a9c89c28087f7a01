#include "serve/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/core.h>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/reply.h"
#include "serve/choice.h"
#include "serve/logprobs.h"
#include "serve/mailbox.h"
#include "serve/prompt.h"
#include "serve/respond.h"

namespace nibble::serve {
namespace {

using boost::asio::awaitable;

api::ReplyNames names_of(Core& core, const Parameters& asked) {
  const bool chat = asked.dialect == api::Dialect::kChat;
  return {.id = core.new_id(chat ? "chatcmpl" : "cmpl"),
          .model = core.model.name,
          .created_s = api::unix_seconds()};
}

// g++ 12 miscompiles some coroutines: every co_await stands in a statement of its own, with its
// arguments made before it.
class Session {
 public:
  Session(Core& core, net::ResponseWriter& writer, Parameters asked,
          std::vector<ReadyPrompt> prompts, Nanoseconds arrival)
      : core_(core),
        writer_(writer),
        asked_(std::move(asked)),
        prompts_(std::move(prompts)),
        arrival_(arrival),
        deadline_(core.options.request_timeout > 0 ? arrival + core.options.request_timeout
                                                   : std::numeric_limits<Nanoseconds>::max()),
        reply_(asked_.dialect, names_of(core, asked_)) {}
  ~Session() {
    if (mailbox_ != nullptr) mailbox_->close();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  awaitable<void> run() {
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    mailbox_ = std::make_shared<Mailbox>(std::move(executor));
    writer_.when_gone([mailbox = mailbox_] { mailbox->wake(); });
    failure_ = submit();
    if (failure_) {
      co_await refuse(core_, writer_, *failure_);
      co_return;
    }
    usage_.prompt_tokens = prompt_tokens_;
    bool going = true;
    if (asked_.stream) going = co_await send_head();
    while (going && open_ > 0 && !failure_) going = co_await step();
    if (going) co_await end();
  }

 private:
  // All choices, or none: those of a request that is refused count for nothing.
  std::optional<Refusal> submit() {
    const std::int64_t count = std::ssize(prompts_) * asked_.n;
    std::vector<HeldPlace> places = core_.places.take(count);
    if (places.empty()) return no_place(count);
    std::vector<engine::Ticket> tickets;
    for (ReadyPrompt& prompt : prompts_) {
      prompt_tokens_ += std::ssize(prompt.ids);
      for (std::int64_t copy = 0; copy < asked_.n; ++copy) {
        Result<engine::Ticket> ticket = core_.engine.submit(
            engine_request(prompt, copy), sink(tickets.size(), places[tickets.size()]));
        if (!ticket.ok()) return refusal_of(ticket.error());
        tickets.push_back(std::move(*ticket));
      }
      prompt.ids = {};  // the engine has them
    }
    choices_.reserve(tickets.size());  // they stay in place
    for (engine::Ticket& ticket : tickets) {
      const std::int64_t index = std::ssize(choices_);
      choices_.emplace_back(core_, asked_, index, arrival_).hold(std::move(ticket));
    }
    open_ = choices_.size();
    return std::nullopt;
  }

  Refusal no_place(std::int64_t count) const {
    return {503,
            fmt::format("{} answers are asked for, and {} of the {} places (max_running_requests + "
                        "max_queued_requests) are taken; try again later",
                        count, core_.places.taken(), core_.places.most()),
            ""};
  }

  // Keeps its place for as long as the engine keeps the request: whoever has the last update finds
  // the place free.
  engine::Sink sink(std::size_t index, HeldPlace place) const {
    return [mailbox = mailbox_, index, kept = std::move(place)](engine::Update update) mutable {
      if (update.finish) kept.reset();
      mailbox->put(index, std::move(update));
    };
  }

  Refusal refusal_of(const Error& error) const {
    if (error.kind == ErrorKind::kRun) return {503, error.message, ""};
    return {400, error.message, field_of(error.message)};
  }

  // The engine's sentences begin with the name of the field, which for a prompt is the endpoint's.
  std::string field_of(std::string_view sentence) const {
    const std::string_view field = sentence.substr(0, sentence.find_first_of(" :"));
    if (field != "prompt") return std::string(field);
    return asked_.dialect == api::Dialect::kChat ? "messages" : "prompt";
  }

  engine::EngineRequest engine_request(const ReadyPrompt& prompt, std::int64_t copy) const {
    const std::int64_t room =
        std::max<std::int64_t>(1, core_.engine.options().max_model_len - std::ssize(prompt.ids));
    const bool chat = asked_.dialect == api::Dialect::kChat;
    const std::int64_t most = asked_.max_tokens.value_or(chat ? room : kShortCompletion);
    engine::EngineRequest request{.prompt = prompt.ids, .sampling = asked_.sampling};
    request.sampling.seed += static_cast<std::uint64_t>(copy);
    request.max_tokens = std::min(most, room);
    request.min_tokens = std::min(asked_.min_tokens, request.max_tokens);
    request.stop_ids = asked_.stop_ids;
    if (!asked_.ignore_eos) {
      const auto& ends = core_.model.end_ids;
      request.stop_ids.insert(request.stop_ids.end(), ends.begin(), ends.end());
    }
    return request;
  }

  awaitable<bool> send_head() {
    net::Headers headers = headers_for(core_.options, "text/event-stream; charset=utf-8");
    const bool sent = co_await writer_.head(200, std::move(headers), net::Framing::chunked());
    co_return sent;
  }

  // What has come since the last one. False: the client has gone.
  awaitable<bool> step() {
    if (writer_.peer_gone()) co_return false;  // before it could be told to wake us
    co_await mailbox_->wait_until(deadline_);
    if (writer_.peer_gone()) co_return false;
    std::string events;
    const bool slow = core_.blocks_loops();
    for (const Arrival& arrival : mailbox_->take(slow ? 1 : SIZE_MAX)) {
      core_.block_loop();
      take(arrival, events);
    }
    if (slow) co_await give_turn();
    if (open_ > 0 && !failure_ && monotonic_now() >= deadline_) time_out();
    if (events.empty()) co_return true;
    const bool written = co_await writer_.write(std::move(events));
    co_return written;
  }

  // To the others of this loop, as a front end of limited speed does between two updates.
  awaitable<void> give_turn() {
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    co_await boost::asio::post(executor, boost::asio::use_awaitable);
  }

  void time_out() {
    failure_ = Refusal{504,
                       fmt::format("the answer took longer than the {} s that this server gives "
                                   "(--request-timeout)",
                                   seconds(core_.options.request_timeout)),
                       ""};
    for (Choice& choice : choices_) {
      if (!choice.ended()) choice.cut_off(Outcome::kTimeout, *failure_);
    }
  }

  void take(const Arrival& arrival, std::string& events) {
    Choice& choice = choices_[arrival.choice];
    if (choice.ended()) return;  // on its way when a stop string came
    const std::int64_t before = choice.tokens();
    choice.take(arrival.update);
    output_tokens_ += choice.tokens() - before;
    usage_.output_tokens = output_tokens_;
    count_cached();
    if (choice.failure()) {
      failure_ = choice.failure();
      return;
    }
    if (choice.ended()) --open_;
    if (asked_.stream) append_events(choice, before == 0, events);
  }

  // Choices of one prompt find the same of it in the cache: one of them tells.
  void count_cached() {
    std::int64_t cached = 0;
    for (std::size_t index = 0; index < choices_.size();
         index += static_cast<std::size_t>(asked_.n)) {
      cached += choices_[index].cached_tokens();
    }
    usage_.cached_tokens = cached;
  }

  const ReadyPrompt& prompt_of(const Choice& choice) const {
    return prompts_[static_cast<std::size_t>(choice.index() / asked_.n)];
  }

  void append_events(Choice& choice, bool first, std::string& events) {
    const api::Usage* usage = asked_.continuous_usage ? &usage_ : nullptr;
    if (first) reply_.role(events, usage, choice.index());
    std::string text = choice.text().take_text();
    if (first) text.insert(0, prompt_of(choice).text);
    const std::vector<GivenToken> tokens = choice.text().take_tokens();
    // Of a character that has only begun there is nothing to say, but that it counts.
    const bool silent = text.empty() && tokens.empty() && !choice.ended();
    if (silent && usage == nullptr) return;
    std::string logprobs;
    if (!tokens.empty()) {
      append_logprobs(logprobs, asked_.dialect, core_.model.tokenizer, tokens);
    }
    reply_.piece(events, {.text = text,
                          .usage = usage,
                          .finish_reason = choice.reason(),
                          .index = choice.index(),
                          .logprobs = logprobs});
  }

  awaitable<void> end() {
    if (!asked_.stream) {
      co_await respond();
      co_return;
    }
    std::string events;
    if (failure_) {
      api::append_error_event(events, asked_.dialect, failure_->status, failure_->message);
    } else if (asked_.include_usage) {
      reply_.usage(events, usage_);
    }
    reply_.done(events);
    const bool written = co_await writer_.write(std::move(events));
    if (written) co_await writer_.finish();
  }

  awaitable<void> respond() {
    if (failure_) {
      co_await respond_error(core_.options, writer_, *failure_);
      co_return;
    }
    std::string body = whole();
    net::Headers headers = headers_for(core_.options, "application/json");
    co_await writer_.respond(200, std::move(headers), std::move(body));
  }

  std::string whole() {
    std::vector<std::string> texts;
    std::vector<std::string> logprobs(choices_.size());
    for (Choice& choice : choices_) {
      texts.push_back(prompt_of(choice).text + choice.text().take_text());
      if (!asked_.sampling.logprobs) continue;
      append_logprobs(logprobs[texts.size() - 1], asked_.dialect, core_.model.tokenizer,
                      choice.text().take_tokens());
    }
    std::vector<api::WholeChoice> whole;
    for (std::size_t index = 0; index < choices_.size(); ++index) {
      whole.push_back({.text = texts[index],
                       .finish_reason = choices_[index].reason(),
                       .logprobs = logprobs[index]});
    }
    return reply_.body(whole, usage_);
  }

  Core& core_;
  net::ResponseWriter& writer_;
  const Parameters asked_;
  std::vector<ReadyPrompt> prompts_;
  const Nanoseconds arrival_;
  const Nanoseconds deadline_;
  api::ReplyWriter reply_;
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<Choice> choices_;
  std::size_t open_ = 0;  // choices that have not ended
  std::int64_t prompt_tokens_ = 0;
  std::int64_t output_tokens_ = 0;
  api::Usage usage_ = {.prompt_tokens = 0, .output_tokens = 0, .cached_tokens = 0};
  std::optional<Refusal> failure_;
};

// The request as it will be answered, or why not.
Checked<std::unique_ptr<Session>> prepare(Core& core, net::ResponseWriter& writer,
                                          api::Dialect dialect, net::ServerRequest request) {
  if (core.draining) {
    return Refusal{503, "the server is stopping and takes no more requests", ""};
  }
  Checked<Parameters> read = read_parameters(dialect, request.body, core.bounds);
  if (auto* refusal = std::get_if<Refusal>(&read)) return std::move(*refusal);
  Parameters& asked = std::get<Parameters>(read);
  Checked<std::vector<ReadyPrompt>> prompts = make_prompts(core, asked);
  if (auto* refusal = std::get_if<Refusal>(&prompts)) return std::move(*refusal);
  // Answers take longer than the prompts' texts are needed.
  asked.prompts.clear();
  asked.messages.clear();
  return std::make_unique<Session>(core, writer, std::move(asked),
                                   std::move(std::get<std::vector<ReadyPrompt>>(prompts)),
                                   request.received_at);
}

}  // namespace

awaitable<void> answer(Core& core, net::ResponseWriter& writer, api::Dialect dialect,
                       net::ServerRequest request) {
  const ActiveRequest active(core);
  core.block_loop();
  Checked<std::unique_ptr<Session>> made = prepare(core, writer, dialect, std::move(request));
  if (auto* refusal = std::get_if<Refusal>(&made)) {
    co_await refuse(core, writer, std::move(*refusal));
  } else {
    co_await std::get<std::unique_ptr<Session>>(made)->run();
  }
}

}  // namespace nibble::serve
