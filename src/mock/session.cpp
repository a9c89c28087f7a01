#include "mock/session.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "mock/session_base.h"
#include "mock/step_session.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

// An answer whose every token has a due time of its own.
class TimedSession : SessionBase {
 public:
  using SessionBase::SessionBase;

  awaitable<void> run() {
    const bool struck = co_await struck_at_once();
    if (struck) co_return;
    boost::asio::any_io_executor executor = co_await boost::asio::this_coro::executor;
    const std::shared_ptr<QueueTicket> ticket = shared_.arrive(truth_.arrival, std::move(executor));
    const bool head = co_await send_head_at_arrival();
    if (head) {
      const bool started = co_await wait_for_slot(ticket);
      if (started) co_await serve(ticket->start);
    }
    // In this order, so that whoever sees that the request has ended finds its truth.
    close_and_record();
    leave(*ticket);
    count_end();
  }

 private:
  // Frees the slot, or the place in the queue.
  void leave(const QueueTicket& ticket) {
    const bool waited = shared_.abandon(ticket);
    if (!waited) shared_.leave(truth_.complete ? end_ : monotonic_now());
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
      std::string bytes = next_bytes(*chunk);
      bool written = write_at_once(bytes);
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

  Nanoseconds end_ = 0;
};

}  // namespace

awaitable<void> answer_request(Shared& shared, net::ResponseWriter& writer, ClientRequest request,
                               Nanoseconds arrival, std::uint64_t index) {
  if (shared.runner) {
    co_await answer_in_steps(shared, writer, std::move(request), arrival, index);
    co_return;
  }
  TimedSession session(shared, writer, request, arrival, index);
  co_await session.run();
}

}  // namespace nibble::mock
