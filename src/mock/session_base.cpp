#include "mock/session_base.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "api/reply.h"
#include "mock/faults.h"

namespace nibble::mock {

using boost::asio::awaitable;

SessionBase::SessionBase(Shared& shared, net::ResponseWriter& writer, const ClientRequest& request,
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
      keeps_alive_(streams_ && script_.sse.keep_alive_ms > 0),
      cuts_(script_.sse.cut_bytes > 0 || script_.sse.cut_characters) {
  truth_.index = index;
  truth_.arrival = arrival;
  truth_.prompt_tokens = answer_.prompt_tokens();
  truth_.output_tokens = plan_.output_tokens;
  if (plan_.fault != nullptr) truth_.fault = to_string(plan_.fault->kind);
}

std::string SessionBase::truth_header() const {
  return fmt::format(
      R"({{"index":{},"arrival_ns":{},"ttft_ns":{},"output_tokens":{},"fault":{}}})", truth_.index,
      truth_.arrival, shared_.runner ? std::string("null") : fmt::format("{}", plan_.ttft),
      plan_.output_tokens, truth_.fault.empty() ? "null" : "\"" + truth_.fault + "\"");
}

awaitable<bool> SessionBase::struck_at_once() {
  if (plan_.fault == nullptr || !strikes_at_once(*plan_.fault)) co_return false;
  std::string truth = truth_header();
  co_await strike_at_once(shared_, writer_, *plan_.fault, std::move(truth));
  shared_.record(truth_);
  co_return true;
}

void SessionBase::close_and_record() {
  // Else what is missing would look like a whole answer.
  if (!ended_) writer_.close();
  shared_.record(truth_);
}

void SessionBase::count_end() {
  if (!admitted_) return;
  const Finish finish = !truth_.complete    ? Finish::kAbort
                        : plan_.ended_early ? Finish::kStop
                                            : Finish::kLength;
  shared_.counters.end(finish, monotonic_now() - truth_.arrival, truth_.prompt_tokens + generated_);
}

awaitable<bool> SessionBase::send_head_at_arrival() {
  const bool hidden = plan_.fault != nullptr && plan_.fault->kind == FaultKind::kHang &&
                      plan_.fault->after_tokens == 0 && !plan_.fault->head;
  if (!streams_ || hidden) co_return true;
  const bool sent = co_await send_head();
  if (!sent || script_.stream.role != RoleDelta::kAtStart) co_return sent;
  std::string bytes = stream_.role();
  const bool written = co_await write(std::move(bytes));
  co_return written;
}

awaitable<bool> SessionBase::send_head() {
  net::Headers headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                          {"Cache-Control", "no-cache"},
                          {"X-Nibble-Truth", truth_header()}};
  const net::Framing framing = script_.sse.framing == Framing::kClose ? net::Framing::until_close()
                                                                      : net::Framing::chunked();
  return writer_.head(200, std::move(headers), framing);
}

Nanoseconds SessionBase::next_glance(Nanoseconds due) const {
  const Nanoseconds next = std::min(due, monotonic_now() + kGlance);
  return keeps_alive_ ? std::min(next, keep_alive_due()) : next;
}

Nanoseconds SessionBase::keep_alive_due() const {
  return std::max(truth_.arrival, writer_.last_write()) +
         from_milliseconds(script_.sse.keep_alive_ms);
}

awaitable<bool> SessionBase::keep_alive() {
  if (!keeps_alive_ || monotonic_now() < keep_alive_due()) co_return true;
  std::string bytes = stream_.keep_alive();
  const bool written = co_await write(std::move(bytes));
  co_return written;
}

std::string SessionBase::next_bytes(const Chunk& chunk) {
  if (chunk.last) set_times(chunk);
  return streams_ ? stream_.chunk(chunk) : std::string();
}

void SessionBase::account(const Chunk& chunk, Nanoseconds before) {
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

void SessionBase::set_times(const Chunk& last) {
  const Nanoseconds first = first_due_ == 0 ? last.due : first_due_;
  answer_.set_times({.prompt_ms = milliseconds(first - truth_.start),
                     .output_ms = milliseconds(last.due - first)});
}

awaitable<bool> SessionBase::write_tail() {
  return end_with(streams_ ? stream_.tail() : answer_.body());
}

awaitable<bool> SessionBase::end_with(std::string bytes) {
  if (streams_) return end_stream(std::move(bytes));
  bytes.insert(0, static_cast<std::size_t>(script_.body_padding_bytes), ' ');
  return respond(200, std::move(bytes));
}

awaitable<bool> SessionBase::end_stream(std::string bytes) {
  bool written = co_await write(std::move(bytes));
  ended_ = true;
  if (written) written = co_await writer_.finish();
  co_return written;
}

awaitable<bool> SessionBase::respond(int status, std::string body) {
  ended_ = true;
  net::Headers headers = {{"Content-Type", "application/json"}, {"X-Nibble-Truth", truth_header()}};
  return writer_.respond(status, std::move(headers), std::move(body));
}

awaitable<bool> SessionBase::end_with_fault(const Fault& fault) {
  std::string bytes = streams_ ? stream_.tail_with(fault_event(fault, answer_.dialect()))
                               : fault_body(fault, answer_.dialect());
  co_await end_with(std::move(bytes));
  co_return false;
}

awaitable<bool> SessionBase::break_off(const Fault& fault) {
  ended_ = true;
  co_await break_connection(writer_, fault);
  co_return false;
}

awaitable<bool> SessionBase::write(std::string bytes) {
  if (bytes.empty() || cuts_) return write_cut(std::move(bytes));
  return writer_.write(std::move(bytes));
}

bool SessionBase::write_at_once(const std::string& bytes) {
  return !bytes.empty() && !cuts_ && writer_.write_now(bytes);
}

awaitable<bool> SessionBase::finish_write(std::string bytes) {
  if (bytes.empty() || cuts_) return write_cut(std::move(bytes));
  return writer_.drain();
}

awaitable<bool> SessionBase::write_cut(std::string bytes) {
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

}  // namespace nibble::mock
