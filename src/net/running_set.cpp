#include "net/running_set.h"

#include <vector>

namespace nibble::net {
namespace {

constexpr Nanoseconds kSweepPeriod = 10'000'000;

}  // namespace

void Run::interrupt(NetFault fault) {
  if (interrupted != NetFault::kNone) return;
  interrupted = fault;
  if (stream != nullptr) stream->close();
  if (event != nullptr) event->notify_all();
}

struct RunningSet::State {
  explicit State(std::shared_ptr<Loops::Loop> on) : loop(std::move(on)), timer(loop->context) {}

  static void sweep_later(const std::shared_ptr<State>& self);
  void sweep(Nanoseconds now);

  std::shared_ptr<Loops::Loop> loop;
  asio::steady_timer timer;
  std::vector<Run*> runs;
  bool sweeping = false;
};

void RunningSet::State::sweep_later(const std::shared_ptr<State>& self) {
  self->sweeping = true;
  self->timer.expires_after(std::chrono::nanoseconds(kSweepPeriod));
  self->timer.async_wait([weak = std::weak_ptr(self)](const error_code& code) {
    const std::shared_ptr<State> state = weak.lock();
    if (code || state == nullptr) return;
    state->sweeping = false;
    state->sweep(monotonic_now());
    if (!state->runs.empty()) sweep_later(state);
  });
}

void RunningSet::State::sweep(Nanoseconds now) {
  for (Run* run : runs) {
    if (run->last != 0 && now >= run->last) {
      run->interrupt(NetFault::kTotalTimeout);
    } else if (run->deadline != 0 && now >= run->deadline) {
      run->interrupt(run->on_deadline);
    }
  }
}

RunningSet::RunningSet(std::shared_ptr<Loops::Loop> loop)
    : state_(std::make_shared<State>(std::move(loop))) {}

RunningSet::Entry::Entry(RunningSet& set, Run& run) : set_(set), run_(run) {
  State& state = *set_.state_;
  run_.index = state.runs.size();
  state.runs.push_back(&run_);
  if (!state.sweeping) State::sweep_later(set_.state_);
}

RunningSet::Entry::~Entry() {
  std::vector<Run*>& runs = set_.state_->runs;
  runs[run_.index] = runs.back();
  runs[run_.index]->index = run_.index;
  runs.pop_back();
}

void RunningSet::interrupt_all(NetFault fault) {
  for (Run* run : state_->runs) run->interrupt(fault);
}

asio::io_context& RunningSet::context() const {
  return state_->loop->context;
}

bool RunningSet::on_loop() const {
  return context().get_executor().running_in_this_thread();
}

std::string_view sentence_of(NetFault interrupted) {
  switch (interrupted) {
    case NetFault::kConnectTimeout:
      return "no connection in time; is the address right, does a firewall drop it?";
    case NetFault::kFirstByteTimeout:
      return "no byte of the answer's body in time";
    case NetFault::kIdleTimeout:
      return "the answer stood still for longer than the idle timeout";
    case NetFault::kTotalTimeout:
      return "the exchange took longer than the total timeout";
    default:
      return "cancelled";
  }
}

}  // namespace nibble::net
