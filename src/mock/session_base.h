// What every answer has, whoever says when its tokens are due: its parts on the wire, its truth,
// its place in the counters.
//
//   class TimedSession : SessionBase { ... co_await write(std::move(bytes)); account(chunk,
//   before); };
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "mock/answer_stream.h"
#include "mock/request.h"
#include "mock/shared.h"
#include "net/http_server.h"

namespace nibble::mock {

// g++ 12 miscompiles some coroutines: every co_await stands in a statement of its own, with its
// arguments made before it.
class SessionBase {
 public:
  // All that is given must outlive the session.
  SessionBase(Shared& shared, net::ResponseWriter& writer, const ClientRequest& request,
              Nanoseconds arrival, std::uint64_t index);
  SessionBase(const SessionBase&) = delete;
  SessionBase& operator=(const SessionBase&) = delete;

 protected:
  template <class T>
  using awaitable = boost::asio::awaitable<T>;

  // How long a wait may be blind to a client that has gone.
  static constexpr Nanoseconds kGlance = 50'000'000;

  std::string truth_header() const;
  // Of a fault that strikes before anything else; false: there is none.
  awaitable<bool> struck_at_once();
  // An answer that was not ended in good order is broken, and all of it is recorded.
  void close_and_record();
  // Once it has been admitted, and its truth recorded.
  void count_end();

  awaitable<bool> send_head_at_arrival();
  awaitable<bool> send_head();
  // When a wait until `due` has to look up.
  Nanoseconds next_glance(Nanoseconds due) const;
  Nanoseconds keep_alive_due() const;
  awaitable<bool> keep_alive();

  // The bytes of a chunk that is due now, and their way out: a token whose bytes the kernel takes
  // at once costs no coroutine. Where this gives false, finish_write() has the rest.
  std::string next_bytes(const Chunk& chunk);
  bool write_at_once(const std::string& bytes);
  awaitable<bool> finish_write(std::string bytes);
  // Of a client that had all chunks so far: the counters and the truth agree on what it was given.
  void account(const Chunk& chunk, Nanoseconds before);

  awaitable<bool> write_tail();
  // The last bytes of a stream, or a whole body.
  awaitable<bool> end_with(std::string bytes);
  // What a fault puts in the place of the rest; always false.
  awaitable<bool> end_with_fault(const Fault& fault);
  awaitable<bool> break_off(const Fault& fault);
  awaitable<bool> respond(int status, std::string body);
  // Nothing is written where there is nothing to write.
  awaitable<bool> write(std::string bytes);

  Shared& shared_;
  const MockScript& script_;
  Pump& pump_;
  net::ResponseWriter& writer_;
  RequestPlan plan_;
  AnswerWriter answer_;
  AnswerStream stream_;
  RequestTruth truth_;
  bool streams_ = false;
  bool keeps_alive_ = false;  // comments while nothing else is sent
  bool admitted_ = false;
  std::int64_t generated_ = 0;

 private:
  void set_times(const Chunk& last);
  awaitable<bool> end_stream(std::string bytes);
  awaitable<bool> write_cut(std::string bytes);

  bool cuts_ = false;   // events leave in pieces
  bool ended_ = false;  // in good order, or as the script breaks it
  Nanoseconds first_due_ = 0;
};

}  // namespace nibble::mock
