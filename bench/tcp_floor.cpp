// The least that a streamed event costs on a machine: what net_stream does, on bare sockets. One
// thread sends small messages over many connections of the loopback at a fixed pace, another reads
// each once when epoll says that it is there. No HTTP, no parsing, no coroutines.
//
//   build/bench/tcp_floor [STREAMS [INTERVAL_MS [SECONDS [TICK_US]]]]
//
// What is due within a tick is sent together at its end. CPU time is that of the two threads by
// their own clocks; latenesses are of the receiver's stamp against the schedule, with the wait for
// the end of the tick.
#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/stats.h"
#include "net/loop.h"

namespace nibble::net {
namespace {

constexpr std::size_t kMessageBytes = 180;
constexpr Nanoseconds kSecond = 1'000'000'000;

struct Plan {
  std::size_t streams = 1000;
  Nanoseconds interval = 10'000'000;
  Nanoseconds span = 3 * kSecond;
  Nanoseconds tick = 100'000;

  std::size_t messages() const { return streams * static_cast<std::size_t>(span / interval); }
  // Of the message of that number: the streams take turns.
  Nanoseconds due(Nanoseconds start, std::size_t number) const {
    const auto round = static_cast<Nanoseconds>(number / streams);
    const auto turn = static_cast<Nanoseconds>(number % streams);
    return start + round * interval + turn * interval / static_cast<Nanoseconds>(streams);
  }
};

struct Sockets {
  std::vector<int> senders;
  std::vector<int> receivers;
};

Nanoseconds thread_cpu() {
  timespec time = {};
  NIBBLE_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return Nanoseconds{time.tv_sec} * kSecond + time.tv_nsec;
}

Sockets connect_all(std::size_t count) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  NIBBLE_CHECK(::bind(listener, generic, size) == 0 && ::listen(listener, 64) == 0);
  NIBBLE_CHECK(::getsockname(listener, generic, &size) == 0);
  Sockets sockets;
  for (std::size_t i = 0; i < count; ++i) {
    const int receiver = ::socket(AF_INET, SOCK_STREAM, 0);
    NIBBLE_CHECK(::connect(receiver, generic, size) == 0);
    const int sender = ::accept(listener, nullptr, nullptr);
    NIBBLE_CHECK(sender >= 0);
    const int yes = 1;
    ::setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockets.senders.push_back(sender);
    sockets.receivers.push_back(receiver);
  }
  ::close(listener);
  return sockets;
}

// The CPU that it took.
Nanoseconds send_all(const Plan& plan, const std::vector<int>& sockets) {
  const Nanoseconds start = monotonic_now();
  const Nanoseconds cpu_start = thread_cpu();
  std::string message(kMessageBytes, 'x');
  for (std::size_t number = 0; number < plan.messages();) {
    const Nanoseconds first = plan.due(start, number);
    const Nanoseconds wake = start + ((first - start) / plan.tick + 1) * plan.tick;
    if (monotonic_now() < wake) {
      const timespec until = {.tv_sec = wake / kSecond, .tv_nsec = wake % kSecond};
      ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    }
    const Nanoseconds now = monotonic_now();
    for (; number < plan.messages() && plan.due(start, number) <= now; ++number) {
      const Nanoseconds due = plan.due(start, number);
      std::memcpy(message.data(), &due, sizeof due);
      const ssize_t sent = ::send(sockets[number % plan.streams], message.data(), message.size(),
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
      NIBBLE_CHECK(sent == static_cast<ssize_t>(message.size()));
    }
  }
  return thread_cpu() - cpu_start;
}

// The same, and the latenesses of all messages. The waits have an end, should one never come.
Nanoseconds receive_all(const Plan& plan, const std::vector<int>& sockets,
                        std::vector<double>& lateness_us) {
  constexpr int kAtOnce = 128;
  constexpr int kPatienceMs = 5000;
  const int poll = ::epoll_create1(0);
  for (const int socket : sockets) {
    epoll_event wanted = {.events = EPOLLIN, .data = {.fd = socket}};
    NIBBLE_CHECK(::epoll_ctl(poll, EPOLL_CTL_ADD, socket, &wanted) == 0);
  }
  const Nanoseconds cpu_start = thread_cpu();
  std::vector<char> bytes(std::size_t{64} << 10);
  std::vector<epoll_event> ready(kAtOnce);
  while (lateness_us.size() < plan.messages()) {
    const int count = ::epoll_wait(poll, ready.data(), kAtOnce, kPatienceMs);
    if (count <= 0) break;
    for (int i = 0; i < count; ++i) {
      const int socket = ready[static_cast<std::size_t>(i)].data.fd;
      const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
      const Nanoseconds now = monotonic_now();
      // Sends of one size into buffers that never fill are read whole.
      for (std::size_t at = 0; got > 0 && at < static_cast<std::size_t>(got); at += kMessageBytes) {
        Nanoseconds due = 0;
        std::memcpy(&due, bytes.data() + at, sizeof due);
        lateness_us.push_back(static_cast<double>(now - due) * 1e-3);
      }
    }
  }
  const Nanoseconds cpu = thread_cpu() - cpu_start;
  ::close(poll);
  return cpu;
}

int measure(const Plan& plan) {
  const Result<> allowed = allow_descriptors(plan.streams * 2 + 100);
  if (!allowed.ok()) {
    fmt::print(stderr, "{}\n", allowed.error().message);
    return 1;
  }
  const Sockets sockets = connect_all(plan.streams);
  std::vector<double> lateness_us;
  lateness_us.reserve(plan.messages());
  Nanoseconds receive_cpu = 0;
  std::thread receiver([&] { receive_cpu = receive_all(plan, sockets.receivers, lateness_us); });
  Nanoseconds send_cpu = 0;
  std::thread sender([&] { send_cpu = send_all(plan, sockets.senders); });
  sender.join();
  receiver.join();
  const bool whole = lateness_us.size() == plan.messages();
  if (!whole) fmt::print(stderr, "of {} messages some never came\n", plan.messages());
  if (lateness_us.empty()) return 1;
  const auto count = static_cast<double>(lateness_us.size());
  fmt::print("{} streams, a message each {} ms, ticks of {} us: {:.0f} messages\n", plan.streams,
             milliseconds(plan.interval), static_cast<double>(plan.tick) * 1e-3, count);
  fmt::print("CPU a message: send {:.2f} us, receive {:.2f} us\n",
             static_cast<double>(send_cpu) * 1e-3 / count,
             static_cast<double>(receive_cpu) * 1e-3 / count);
  fmt::print("late    p50 {:.1f} p99 {:.1f} max {:.1f} us\n", quantile(lateness_us, 0.5),
             quantile(lateness_us, 0.99), quantile(lateness_us, 1));
  return whole ? 0 : 1;
}

}  // namespace
}  // namespace nibble::net

int main(int argc, char** argv) {
  constexpr double kMostStreams = 30'000;  // ports of this host
  constexpr double kMostMessages = 100e6;  // 8 bytes each are kept
  double streams = 1000;
  double interval_ms = 10;
  double seconds = 3;
  double tick_us = 100;
  if (argc > 1) streams = std::atof(argv[1]);
  if (argc > 2) interval_ms = std::atof(argv[2]);
  if (argc > 3) seconds = std::atof(argv[3]);
  if (argc > 4) tick_us = std::atof(argv[4]);
  const double messages = streams * seconds * 1e3 / interval_ms;
  const bool sensible = streams >= 1 && streams <= kMostStreams && interval_ms >= 0.001 &&
                        interval_ms <= 1e6 && tick_us >= 1 && tick_us <= 1e6 &&
                        messages >= streams && messages <= kMostMessages;
  if (!sensible) {
    fmt::print(stderr,
               "usage: tcp_floor [STREAMS [INTERVAL_MS [SECONDS [TICK_US]]]], up to {} "
               "streams and {} messages in all\n",
               kMostStreams, kMostMessages);
    return 2;
  }
  return nibble::net::measure({.streams = static_cast<std::size_t>(streams),
                               .interval = nibble::from_milliseconds(interval_ms),
                               .span = nibble::from_milliseconds(seconds * 1e3),
                               .tick = nibble::from_milliseconds(tick_us * 1e-3)});
}
