#include "mock/shared.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/text.h"

namespace nibble::mock {
namespace {

// The most truths kept for a reader that never comes: with 128 tokens each some 400 MB.
constexpr std::size_t kMostTruths = 100'000;

// Of the call that has just failed.
Error cannot_write(const std::filesystem::path& path) {
  return run_error("cannot write {}: {}", printable(path.string()), errno_text(errno));
}

}  // namespace

Shared::Shared(MockScript given_script, MockOptions given_options)
    : script(std::move(given_script)),
      options(std::move(given_options)),
      started_at(monotonic_now()),
      runner(script.steps ? std::make_unique<StepRunner>(script, counters, started_at) : nullptr),
      slots_(script.capacity),
      rate_time_(started_at) {}

Shared::~Shared() {
  if (truth_file_ != nullptr) std::fclose(truth_file_);
}

Pump& Shared::pump() const {
  const std::thread::id self = std::this_thread::get_id();
  const auto found = std::find_if(pumps_.begin(), pumps_.end(),
                                  [&](const LoopPump& each) { return each.thread == self; });
  NIBBLE_CHECK(found != pumps_.end());
  return *found->pump;
}

void Shared::add_pump(std::thread::id thread, boost::asio::any_io_executor executor) {
  pumps_.push_back({thread, executor, std::make_unique<Pump>(executor)});
}

void Shared::stop_pumps() {
  for (const LoopPump& each : pumps_) {
    boost::asio::post(each.executor, [pump = each.pump.get()] { pump->stop(); });
  }
}

void Shared::clear_pumps() {
  pumps_.clear();
}

std::shared_ptr<QueueTicket> Shared::arrive(Nanoseconds at, boost::asio::any_io_executor executor) {
  auto ticket = std::make_shared<QueueTicket>();
  ticket->pump = &pump();
  ticket->executor = std::move(executor);
  const std::lock_guard lock(queue_mutex_);
  ticket->id = next_ticket_++;
  if (const auto start = slots_.arrive(ticket->id, at)) {
    ticket->start = start->at;
  } else {
    waiting_.emplace(ticket->id, ticket);
  }
  running_ = slots_.running();
  most_running_ = std::max(most_running_.load(), slots_.running());
  return ticket;
}

void Shared::leave(Nanoseconds at) {
  const std::lock_guard lock(queue_mutex_);
  const std::optional<Slots::Start> next = slots_.leave(at);
  running_ = slots_.running();
  if (!next) return;
  const auto found = waiting_.find(next->id);
  NIBBLE_CHECK(found != waiting_.end());
  const std::shared_ptr<QueueTicket> ticket = std::move(found->second);
  waiting_.erase(found);
  ticket->start = next->at;
  boost::asio::post(ticket->executor, [ticket] { ticket->pump->wake(ticket->id); });
}

bool Shared::abandon(const QueueTicket& ticket) {
  const std::lock_guard lock(queue_mutex_);
  waiting_.erase(ticket.id);
  return slots_.abandon(ticket.id);
}

Occupancy Shared::occupancy() const {
  if (runner) {
    const StepCounts counts = runner->counts();
    return {.running = counts.running,
            .waiting = counts.waiting,
            .engine = Occupancy::Engine{.kv_tokens = counts.kv_tokens,
                                        .preemptions = counts.preemptions,
                                        .busy_share = runner->busy_share(monotonic_now())}};
  }
  const std::lock_guard lock(queue_mutex_);
  return {.running = slots_.running(), .waiting = slots_.waiting()};
}

Result<> Shared::open_truth_file() {
  if (options.truth_file.empty()) return {};
  truth_file_ = std::fopen(options.truth_file.c_str(), "we");
  if (truth_file_ != nullptr) return {};
  return cannot_write(options.truth_file);
}

Result<> Shared::close_truth_file() {
  const std::lock_guard lock(truth_mutex_);
  if (truth_file_ != nullptr && std::fclose(std::exchange(truth_file_, nullptr)) != 0) {
    truth_fault_ = cannot_write(options.truth_file);
  }
  if (truth_fault_) return *truth_fault_;
  return {};
}

void Shared::record(const RequestTruth& truth) {
  if (!keeps_truths()) return;
  const std::lock_guard lock(truth_mutex_);
  if (truth_file_ != nullptr && !truth_fault_) {
    const std::string line = to_json(truth).dump(0) + "\n";
    // Flushed each time, so that the file can be read while the mock runs.
    if (std::fwrite(line.data(), 1, line.size(), truth_file_) != line.size() ||
        std::fflush(truth_file_) != 0) {
      truth_fault_ = cannot_write(options.truth_file);
    }
  }
  if (options.keep_truths && truths_.size() < kMostTruths) truths_.push_back(truth);
}

std::vector<RequestTruth> Shared::take_truths() {
  const std::lock_guard lock(truth_mutex_);
  return std::exchange(truths_, {});
}

MockStats Shared::stats() const {
  const Occupancy now = occupancy();
  return {.requests = static_cast<std::int64_t>(requests_.load()),
          .running = runner ? runner->in_service() : now.running,
          .waiting = now.waiting,
          .most_running = runner ? runner->counts().most_running : most_running_.load(),
          .prompt_tokens = counters.prompt_tokens(),
          .generation_tokens = counters.generation_tokens(),
          .completed = counters.ended(Finish::kLength) + counters.ended(Finish::kStop),
          .aborted = counters.ended(Finish::kAbort),
          .steps = runner ? static_cast<std::int64_t>(runner->steps()) : 0,
          .preemptions = now.engine ? now.engine->preemptions : 0,
          .error = error.snapshot()};
}

double Shared::generation_rate() {
  const std::lock_guard lock(rate_mutex_);
  const Nanoseconds now = monotonic_now();
  const std::int64_t tokens = counters.generation_tokens();
  const double span = seconds(now - rate_time_);
  const double rate = span > 0 ? static_cast<double>(tokens - rate_tokens_) / span : 0;
  rate_time_ = now;
  rate_tokens_ = tokens;
  return rate;
}

Json to_json(const RequestTruth& truth) {
  Json due = Json::array();
  Json tokens = Json::array();
  Json written = Json::array();
  for (const Chunk& chunk : truth.chunks) {
    due.push(chunk.due);
    tokens.push(chunk.tokens);
  }
  for (const Nanoseconds time : truth.written) written.push(time);
  return Json::object()
      .set("index", truth.index)
      .set("arrival_ns", truth.arrival)
      .set("start_ns", truth.start == 0 ? Json() : Json(truth.start))
      .set("prompt_tokens", truth.prompt_tokens)
      .set("output_tokens", truth.output_tokens)
      .set("chunk_tokens", std::move(tokens))
      .set("due_ns", std::move(due))
      .set("written_ns", std::move(written))
      .set("fault", truth.fault.empty() ? Json() : Json(truth.fault))
      .set("complete", truth.complete);
}

Json to_json(const MockStats& stats) {
  auto microseconds = [](Nanoseconds span) { return static_cast<double>(span) * 1e-3; };
  return Json::object()
      .set("requests", stats.requests)
      .set("running", stats.running)
      .set("waiting", stats.waiting)
      .set("most_running", stats.most_running)
      .set("prompt_tokens", stats.prompt_tokens)
      .set("generation_tokens", stats.generation_tokens)
      .set("completed", stats.completed)
      .set("aborted", stats.aborted)
      .set("steps", stats.steps)
      .set("preemptions", stats.preemptions)
      .set("error_us", Json::object()
                           .set("count", stats.error.count)
                           .set("p50", microseconds(stats.error.p50))
                           .set("p99", microseconds(stats.error.p99))
                           .set("late_max", microseconds(stats.error.late_max))
                           .set("early_max", microseconds(stats.error.early_max)));
}

}  // namespace nibble::mock
