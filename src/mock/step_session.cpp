#include "mock/step_session.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "api/reply.h"
#include "mock/session_base.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

class StepSession : SessionBase {
 public:
  using SessionBase::SessionBase;

  awaitable<void> run() {
    const bool struck = co_await struck_at_once();
    if (struck) co_return;
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    const StepRequest request{.prompt_tokens = truth_.prompt_tokens,
                              .cached_tokens = answer_.cached_tokens(),
                              .output_tokens = plan_.output_tokens};
    const std::shared_ptr<StepTicket> ticket =
        shared_.runner->arrive(request, truth_.arrival, pump_, std::move(executor));
    if (ticket == nullptr) {
      co_await refuse_too_long();
      shared_.record(truth_);
      co_return;
    }
    const bool head = co_await send_head_at_arrival();
    if (head) co_await serve(ticket);
    close_and_record();
    count_end();
    shared_.runner->leave(*ticket);
  }

 private:
  awaitable<bool> refuse_too_long() {
    const std::string sentence =
        fmt::format("{} tokens of prompt and {} of output never fit into a cache of {} tokens",
                    truth_.prompt_tokens, plan_.output_tokens, script_.kv_capacity_tokens);
    return respond(400, api::error_body(answer_.dialect(), 400, sentence));
  }

  awaitable<void> serve(std::shared_ptr<StepTicket> ticket) {
    Nanoseconds before = 0;
    while (generated_ < plan_.output_tokens) {
      if (plan_.fault != nullptr && generated_ >= plan_.fault->after_tokens) {
        co_await strike();
        co_return;
      }
      const bool came = co_await wait_for_token(ticket);
      if (!came) co_return;
      const Chunk chunk{.first = generated_,
                        .tokens = 1,
                        .due = token_.due,
                        .last = generated_ + 1 == plan_.output_tokens};
      if (!std::exchange(admitted_, true)) {
        truth_.start = token_.start;
        shared_.counters.start(truth_.prompt_tokens, token_.start - truth_.arrival);
      }
      std::string bytes = next_bytes(chunk);
      bool written = write_at_once(bytes);
      if (!written) written = co_await finish_write(std::move(bytes));
      if (!written) co_return;
      account(chunk, before);
      before = chunk.due;
    }
    const bool written = co_await write_tail();
    truth_.complete = written;
  }

  // Until token_ is the next one. False: the client has gone, or the server stops.
  awaitable<bool> wait_for_token(std::shared_ptr<StepTicket> ticket) {
    while (true) {
      const std::optional<DueToken> token = shared_.runner->take(*ticket);
      if (token) {
        token_ = *token;
        co_return true;
      }
      const Nanoseconds next = next_glance(kEndOfTime);
      const bool on_time = co_await pump_.until_woken(next, ticket->id());
      if (!on_time || writer_.peer_gone()) co_return false;
      if (!keeps_alive_) continue;
      const bool alive = co_await keep_alive();
      if (!alive) co_return false;
    }
  }

  awaitable<bool> strike() {
    const Fault& fault = *plan_.fault;
    const bool told = fault.kind == FaultKind::kErrorEvent || fault.kind == FaultKind::kBadJson;
    return told ? end_with_fault(fault) : break_off(fault);
  }

  DueToken token_;
};

}  // namespace

awaitable<void> answer_in_steps(Shared& shared, net::ResponseWriter& writer, ClientRequest request,
                                Nanoseconds arrival, std::uint64_t index) {
  StepSession session(shared, writer, request, arrival, index);
  co_await session.run();
}

}  // namespace nibble::mock
