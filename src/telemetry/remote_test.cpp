// Two hosts in one process: a store that is served, and a store that joins it.
#include <gtest/gtest.h>
#include <thread>

#include "telemetry/prometheus.h"
#include "telemetry/remote_source.h"
#include "telemetry/sampler.h"
#include "telemetry/serve.h"
#include "telemetry/server_source.h"
#include "telemetry/stream.h"
#include "telemetry/web.h"

namespace nibble::telemetry {
namespace {

using std::chrono::milliseconds;

net::Url local(int port) {
  return std::move(net::parse_url(fmt::format("http://127.0.0.1:{}", port))).value();
}

// Until it is true, for four seconds at most.
template <class Condition>
bool wait_for(Condition condition) {
  for (int step = 0; step < 400; ++step) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() { power_ = there_->declare({.name = "gpu0.power", .unit = "W", .high = 5000}); }
  void serve() {
    server_ = std::make_unique<TelemetryServer>(there_, net::ServerOptions{.port = port_});
    const Result<int> port = server_->start();
    ASSERT_TRUE(port.ok()) << port.error().message;
    port_ = *port;
    where_ = fmt::format("127.0.0.1:{}", port_);
  }
  std::string page(std::string_view target) {
    auto pages = PageFetcher::make(local(port_), {});
    const Result<std::string> body = (*pages)->get(target);
    return body ? *body : body.error().message;
  }

  std::shared_ptr<SampleStore> there_ = std::make_shared<SampleStore>();
  SignalId power_ = 0;
  std::unique_ptr<TelemetryServer> server_;
  int port_ = 0;
  std::string where_;
};

TEST_F(RemoteTest, ServesPrometheusTextAndTheClock) {
  serve();
  there_->add(power_, monotonic_now(), 445);
  const MetricsPage metrics = parse_metrics(page("/metrics"));
  ASSERT_FALSE(metrics.samples.empty());
  EXPECT_EQ(metrics.samples[0].name, "nibble_power_watts");
  EXPECT_EQ(metrics.samples[0].value, 445);
  const Nanoseconds before = monotonic_now();
  const Result<ClockExchange> clock = parse_clock_answer(page("/clock"));
  ASSERT_TRUE(clock.ok());
  EXPECT_GE(clock->received_at, before);
  EXPECT_GE(clock->answered_at, clock->received_at);
  EXPECT_LE(clock->answered_at, monotonic_now());
  EXPECT_NE(page("/nothing").find("status 404"), std::string::npos);
}

TEST(ClockAnswer, RefusesTimesThatNoHostHas) {
  for (const char* body :
       {"", "[]", "{}", R"({"received_ns":1})", R"({"received_ns":-1,"answered_ns":1})",
        R"({"received_ns":1,"answered_ns":9e18})"}) {
    EXPECT_FALSE(parse_clock_answer(body).ok()) << body;
  }
}

TEST_F(RemoteTest, JoinsSamplesOnOurClock) {
  serve();
  auto here = std::make_shared<SampleStore>();
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::move(remote_source(local(port_), *here)).value());
  Sampler sampler(here, std::move(sources));
  sampler.start();
  const std::string name = where_ + "/gpu0.power";
  ASSERT_TRUE(wait_for([&] { return here->find(name).has_value(); }));
  const Nanoseconds at = monotonic_now();
  there_->add(power_, at, 445.1);
  const SignalId id = *here->find(name);
  ASSERT_TRUE(wait_for([&] { return here->state(id).kept == 1; }));
  const Point point = *here->state(id).latest;
  EXPECT_EQ(point.value, 445.1);
  // Both clocks are one clock: the offset is 0 to within its own bound, and the join below 1 ms.
  const SignalState bound = here->state(*here->find(where_ + "/clock.offset_bound"));
  ASSERT_TRUE(bound.latest);
  EXPECT_LE(std::abs(seconds(point.at - at)), bound.latest->value + 1e-9);
  EXPECT_EQ(here->state(id).signal.unit, "W");
  there_->set_unavailable(power_, "GPU is lost");
  EXPECT_TRUE(wait_for([&] { return !here->state(id).signal.available; }));
  EXPECT_EQ(here->state(id).signal.reason, "GPU is lost");
  sampler.stop();
}

TEST_F(RemoteTest, ARemoteThatDiesIsAReasonAndComesBack) {
  serve();
  auto here = std::make_shared<SampleStore>();
  auto source = std::move(remote_source(local(port_), *here)).value();
  ASSERT_TRUE(source->sample().ok());
  const std::string name = where_ + "/gpu0.power";
  ASSERT_TRUE(wait_for([&] { return here->find(name).has_value(); }));
  server_.reset();
  ASSERT_TRUE(wait_for([&] { return !source->sample().ok(); }));
  EXPECT_TRUE(wait_for([&] {
    static_cast<void>(source->sample());
    return !here->state(*here->find(name)).signal.available;
  })) << here->state(*here->find(name)).signal.reason;
  serve();  // on the same port
  EXPECT_TRUE(wait_for([&] {
    static_cast<void>(source->sample());
    there_->add(power_, monotonic_now(), 7);
    return here->state(*here->find(name)).kept > 0;
  }));
}

TEST_F(RemoteTest, NobodyThereIsAnErrorOfTheSource) {
  serve();
  server_.reset();  // the port is free now
  SampleStore here;
  const auto source = std::move(remote_source(local(port_), here)).value();
  const Result<> result = source->sample();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find(where_), std::string::npos);
}

// A server that is no nibble: answers anything with the same page.
class StrangeServer {
 public:
  explicit StrangeServer(std::string body) : server_(loops_, {}) {
    const Result<int> port =
        server_.start([body](net::ServerRequest request,
                             net::ResponseWriter& writer) -> boost::asio::awaitable<void> {
          std::string answer = body;
          if (request.path() == "/clock") {
            answer = R"({"received_ns":5,"answered_ns":6})";
          }
          co_await writer.respond(200, {}, std::move(answer));
        });
    NIBBLE_CHECK(port.ok());
    port_ = *port;
  }
  ~StrangeServer() {
    server_.stop(0);
    loops_.stop();
  }
  int port() const { return port_; }

 private:
  net::Loops loops_{1};
  net::HttpServer server_;
  int port_ = 0;
};

TEST(RemoteSource, AStreamOfSomethingElseIsRefused) {
  for (const char* body : {"<html>\n", "{\"schema\":\"nibble.telemetry/9\"}\n", "{\"t\":1}\n",
                           "{\"signal\":{\"name\":\"clock.offset_bound\"}}\n"}) {
    StrangeServer server(body);
    SampleStore here;
    const auto source = std::move(remote_source(local(server.port()), here)).value();
    std::string fault;
    EXPECT_TRUE(wait_for([&] {
      const Result<> result = source->sample();
      if (!result) fault = result.error().message;
      return !result.ok();
    })) << body;
    EXPECT_NE(fault.find("stream of samples"), std::string::npos) << fault;
  }
}

TEST(ServerScrape, OverHttp) {
  StrangeServer server("vllm:num_requests_running 3\n");
  SampleStore store;
  std::shared_ptr<PageFetcher> pages =
      std::move(PageFetcher::make(local(server.port()), {})).value();
  const auto source = server_source([pages](std::string_view target) { return pages->get(target); },
                                    {.where = "x"}, store, nullptr);
  ASSERT_TRUE(source->sample().ok());
  EXPECT_EQ(store.state(*store.find("server.running")).latest->value, 3);
}

}  // namespace
}  // namespace nibble::telemetry
