#include "mock/session.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <fmt/core.h>

#include "mock/answer_stream.h"
#include "mock/faults.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

// How long a wait may be blind to a client that has gone.
constexpr Nanoseconds kGlance = 50'000'000;

// g++ 12 miscompiles some coroutines: every co_await stands in a statement of its own, with its
// arguments made before it.
class Session {
 public:
  Session(Shared& shared, net::ResponseWriter& writer, const ClientRequest& request,
          Nanoseconds arrival, std::uint64_t index)
      : shared_(shared),
        script_(shared.script),
        pump_(shared.pump()),
        writer_(writer),
        plan_(plan_request(
            script_, index,
            {.prompt_tokens = request.prompt_tokens, .max_tokens = request.asked.max_tokens})),
        answer_(script_, request, plan_, api::unix_seconds()),
        stream_(script_, plan_, answer_),
        streams_(request.asked.stream && script_.stream.mode != StreamMode::kBody),
        cuts_(script_.sse.cut_bytes > 0 || script_.sse.cut_characters),
        keeps_alive_(streams_ && script_.sse.keep_alive_ms > 0) {
    truth_.index = index;
    truth_.arrival = arrival;
    truth_.prompt_tokens = answer_.prompt_tokens();
    truth_.output_tokens = plan_.output_tokens;
    if (plan_.fault != nullptr) truth_.fault = to_string(plan_.fault->kind);
  }

  awaitable<void> run() {
    if (plan_.fault != nullptr && strikes_at_once(*plan_.fault)) {
      std::string truth = truth_header();
      co_await strike_at_once(shared_, writer_, *plan_.fault, std::move(truth));
      shared_.record(truth_);
      co_return;
    }
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    const std::shared_ptr<QueueTicket> ticket = shared_.arrive(truth_.arrival, std::move(executor));
    const bool head = co_await send_head_at_arrival();
    if (head) {
      const bool started = co_await wait_for_slot(ticket);
      if (started) co_await serve(ticket->start);
    }
    // Else what is missing would look like a whole answer.
    if (!ended_) writer_.close();
    // In this order, so that whoever sees that the request has ended finds its truth.
    shared_.record(truth_);
    leave(*ticket);
  }

 private:
  std::string truth_header() const {
    return fmt::format(
        R"({{"index":{},"arrival_ns":{},"ttft_ns":{},"output_tokens":{},"fault":{}}})",
        truth_.index, truth_.arrival, plan_.ttft, plan_.output_tokens,
        truth_.fault.empty() ? "null" : "\"" + truth_.fault + "\"");
  }

  // Frees the slot, or the place in the queue.
  void leave(const QueueTicket& ticket) {
    const bool waited = shared_.abandon(ticket);
    if (!waited) shared_.leave(truth_.complete ? end_ : monotonic_now());
    if (!admitted_) return;
    const Finish finish = !truth_.complete    ? Finish::kAbort
                          : plan_.ended_early ? Finish::kStop
                                              : Finish::kLength;
    shared_.counters.end(finish, monotonic_now() - truth_.arrival,
                         truth_.prompt_tokens + generated_);
  }

  awaitable<bool> send_head_at_arrival() {
    const bool hidden = plan_.fault != nullptr && plan_.fault->kind == FaultKind::kHang &&
                        plan_.fault->after_tokens == 0 && !plan_.fault->head;
    if (!streams_ || hidden) co_return true;
    const bool sent = co_await send_head();
    if (!sent || script_.stream.role != RoleDelta::kAtStart) co_return sent;
    std::string bytes = stream_.role();
    const bool written = co_await write(std::move(bytes));
    co_return written;
  }

  awaitable<bool> send_head() {
    net::Headers headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                            {"Cache-Control", "no-cache"},
                            {"X-Nibble-Truth", truth_header()}};
    const net::Framing framing = script_.sse.framing == Framing::kClose
                                     ? net::Framing::until_close()
                                     : net::Framing::chunked();
    return writer_.head(200, std::move(headers), framing);
  }

  awaitable<bool> wait_for_slot(std::shared_ptr<QueueTicket> ticket) {
    while (ticket->start == 0) {
      const Nanoseconds next = next_glance(kEndOfTime);
      const bool on_time = co_await pump_.until_woken(next, ticket->id);
      if (!on_time || writer_.peer_gone()) co_return false;
      if (ticket->start != 0) break;
      const bool alive = co_await keep_alive();
      if (!alive) co_return false;
    }
    co_return true;
  }

  // When a wait until `due` has to look up.
  Nanoseconds next_glance(Nanoseconds due) const {
    const Nanoseconds next = std::min(due, monotonic_now() + kGlance);
    return keeps_alive_ ? std::min(next, keep_alive_due()) : next;
  }
  Nanoseconds keep_alive_due() const {
    return std::max(truth_.arrival, writer_.last_write()) +
           from_milliseconds(script_.sse.keep_alive_ms);
  }

  awaitable<bool> keep_alive() {
    if (!keeps_alive_ || monotonic_now() < keep_alive_due()) co_return true;
    std::string bytes = stream_.keep_alive();
    const bool written = co_await write(std::move(bytes));
    co_return written;
  }

  // False: the client has gone, or the server stops. A wait between tokens is one suspension.
  awaitable<bool> wait_until(Nanoseconds due) {
    if (keeps_alive_ || due > monotonic_now() + kGlance) return wait_long(due);
    return pump_.until(due);
  }

  awaitable<bool> wait_long(Nanoseconds due) {
    while (true) {
      const Nanoseconds next = next_glance(due);
      const bool on_time = co_await pump_.until(next);
      if (!on_time || writer_.peer_gone()) co_return false;
      if (next >= due) co_return true;
      const bool alive = co_await keep_alive();
      if (!alive) co_return false;
    }
  }

  awaitable<void> serve(Nanoseconds start) {
    truth_.start = start;
    admitted_ = true;
    shared_.counters.admit(truth_.prompt_tokens, answer_.cached_tokens(), start - truth_.arrival);
    ChunkSchedule chunks(script_, plan_, start);
    while (true) {
      if (chunks.struck()) {
        const bool over = co_await strike(chunks);
        if (!over) co_return;
      }
      const Nanoseconds before = chunks.due();
      const std::optional<Chunk> chunk =
          chunks.next(load_factor(script_, shared_.running(), before - shared_.started_at));
      if (!chunk) break;
      if (streams_ && stream_.empty_is_next()) {
        const bool written = co_await write_empty(before + (chunk->due - before) / 2);
        if (!written) co_return;
      }
      const bool on_time = co_await wait_until(chunk->due);
      if (!on_time) co_return;
      // A token whose bytes the kernel takes at once costs no coroutine.
      std::string bytes = next_bytes(*chunk);
      bool written = !bytes.empty() && !cuts_ && writer_.write_now(bytes);
      if (!written) written = co_await finish_write(std::move(bytes));
      if (!written) co_return;
      account(*chunk, before);
    }
    end_ = chunks.due();
    const bool written = co_await write_tail();
    truth_.complete = written;
  }

  awaitable<bool> write_empty(Nanoseconds due) {
    const bool on_time = co_await wait_until(due);
    if (!on_time) co_return false;
    std::string bytes = stream_.empty();
    const bool written = co_await write(std::move(bytes));
    co_return written;
  }

  std::string next_bytes(const Chunk& chunk) {
    if (chunk.last) set_times(chunk);
    return streams_ ? stream_.chunk(chunk) : std::string();
  }

  // Of a client that had all chunks so far: the counters and the truth agree on what it was given.
  void account(const Chunk& chunk, Nanoseconds before) {
    if (chunk.first == 0) {
      first_due_ = chunk.due;
      shared_.counters.first_token(chunk.due - truth_.arrival);
    } else {
      shared_.counters.next_tokens(chunk.tokens, chunk.due - before);
    }
    shared_.counters.generated(chunk.tokens);
    generated_ += chunk.tokens;
    const bool sent = streams_ && (script_.stream.mode == StreamMode::kTokens || chunk.last);
    if (sent) shared_.error.add(writer_.last_write() - chunk.due);
    if (!shared_.keeps_truths()) return;
    truth_.chunks.push_back(chunk);
    truth_.written.push_back(sent ? writer_.last_write() : 0);
  }

  void set_times(const Chunk& last) {
    const Nanoseconds first = first_due_ == 0 ? last.due : first_due_;
    answer_.set_times({.prompt_ms = milliseconds(first - truth_.start),
                       .output_ms = milliseconds(last.due - first)});
  }

  awaitable<bool> write_tail() { return end_with(streams_ ? stream_.tail() : answer_.body()); }
  // The last bytes of a stream, or a whole body.
  awaitable<bool> end_with(std::string bytes) {
    return streams_ ? end_stream(std::move(bytes)) : respond(std::move(bytes));
  }

  awaitable<bool> end_stream(std::string bytes) {
    bool written = co_await write(std::move(bytes));
    ended_ = true;
    if (written) written = co_await writer_.finish();
    co_return written;
  }

  awaitable<bool> respond(std::string body) {
    ended_ = true;
    body.insert(0, static_cast<std::size_t>(script_.body_padding_bytes), ' ');
    net::Headers headers = {{"Content-Type", "application/json"},
                            {"X-Nibble-Truth", truth_header()}};
    return writer_.respond(200, std::move(headers), std::move(body));
  }

  // True: it is over, and the answer goes on.
  awaitable<bool> strike(ChunkSchedule& chunks) {
    const Fault& fault = *plan_.fault;
    switch (fault.kind) {
      case FaultKind::kHang:
        return hang(fault, chunks);
      case FaultKind::kEmpty:
        return end_empty(chunks.due() + plan_.ttft);
      case FaultKind::kErrorEvent:
      case FaultKind::kBadJson:
        return end_with_fault(fault);
      default:
        return break_off(fault);
    }
  }

  awaitable<bool> hang(const Fault& fault, ChunkSchedule& chunks) {
    const bool kept_alive = std::exchange(keeps_alive_, false);
    if (fault.ms) chunks.delay(from_milliseconds(*fault.ms));
    chunks.fault_is_over();
    const Nanoseconds until = fault.ms ? chunks.due() : kEndOfTime;
    bool going = co_await wait_until(until);
    keeps_alive_ = kept_alive;
    const bool headless = streams_ && !writer_.head_sent();
    if (going && headless) going = co_await send_head();
    co_return going;
  }

  awaitable<bool> end_empty(Nanoseconds due) {
    const bool on_time = co_await wait_until(due);
    if (!on_time) co_return false;
    std::string bytes = streams_ ? stream_.tail_alone() : R"({"choices":[]})";
    co_await end_with(std::move(bytes));
    co_return false;
  }

  awaitable<bool> end_with_fault(const Fault& fault) {
    std::string bytes = streams_ ? stream_.tail_with(fault_event(fault, answer_.dialect()))
                                 : fault_body(fault, answer_.dialect());
    co_await end_with(std::move(bytes));
    co_return false;
  }

  awaitable<bool> break_off(const Fault& fault) {
    ended_ = true;
    co_await break_connection(writer_, fault);
    co_return false;
  }

  // Nothing is written where there is nothing to write.
  awaitable<bool> write(std::string bytes) {
    if (bytes.empty() || cuts_) return write_cut(std::move(bytes));
    return writer_.write(std::move(bytes));
  }
  // What write_now() did not take, or all that was not for it.
  awaitable<bool> finish_write(std::string bytes) {
    if (bytes.empty() || cuts_) return write_cut(std::move(bytes));
    return writer_.drain();
  }

  awaitable<bool> write_cut(std::string bytes) {
    std::vector<std::string> pieces;
    if (!bytes.empty()) pieces = cut(script_.sse, std::move(bytes));
    for (std::size_t index = 0; index < pieces.size(); ++index) {
      if (index > 0 && script_.sse.cut_pause_ms > 0) {
        const Nanoseconds until = monotonic_now() + from_milliseconds(script_.sse.cut_pause_ms);
        const bool on_time = co_await pump_.until(until);
        if (!on_time) co_return false;
      }
      const bool written = co_await writer_.write(std::move(pieces[index]));
      if (!written) co_return false;
    }
    co_return !writer_.peer_gone();
  }

  Shared& shared_;
  const MockScript& script_;
  Pump& pump_;
  net::ResponseWriter& writer_;
  RequestPlan plan_;
  AnswerWriter answer_;
  AnswerStream stream_;
  RequestTruth truth_;
  bool streams_ = false;
  bool cuts_ = false;         // events leave in pieces
  bool keeps_alive_ = false;  // comments while nothing else is sent
  bool admitted_ = false;
  bool ended_ = false;  // in good order, or as the script breaks it
  Nanoseconds first_due_ = 0;
  Nanoseconds end_ = 0;
  std::int64_t generated_ = 0;
};

}  // namespace

awaitable<void> answer_request(Shared& shared, net::ResponseWriter& writer, ClientRequest request,
                               Nanoseconds arrival, std::uint64_t index) {
  Session session(shared, writer, request, arrival, index);
  co_await session.run();
}

}  // namespace nibble::mock
