#include "tactics/tune/worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "tactics/tune/worker_wire.h"

namespace nibble::tune {
namespace {

using What = WireRequest::What;

}  // namespace

// ---- the tuner's end ----------------------------------------------------------------------------

Result<> WorkerBackend::start() {
  if (starts_ >= setup_.most_starts) {
    return run_error("{} workers have ended before their work was done: no more are started",
                     starts_);
  }
  ++starts_;
  NIBBLE_ASSIGN_OR_RETURN(WorkerChild child, WorkerChild::start(setup_.words));
  child_.emplace(std::move(child));
  Result<std::string> line = child_->ask(setup_.job.dump(0), setup_.start_seconds);
  Result<Json> ready = line.ok() ? Json::parse(*line, "the worker's first line") : line.error();
  if (ready.ok() && ready->find("ready") != nullptr) return {};
  child_.reset();
  if (!ready.ok()) return run_error("{}", ready.error().message);
  const Json* failed = ready->find("failed");
  const bool told = failed != nullptr && failed->is_string();
  return run_error("{}", told ? failed->as_string() : "the worker did not say that it is ready");
}

// Whatever is no answer ends the child: what it would say next might belong to this request.
Result<Json> WorkerBackend::ask(const Json& request, double seconds) {
  if (!child_) NIBBLE_RETURN_IF_ERROR(start());
  const Result<std::string> line = child_->ask(request.dump(0), seconds);
  if (!line.ok()) {
    child_.reset();
    return line.error();
  }
  Result<Json> answer = Json::parse(*line, "the worker's answer");
  if (!answer.ok() || !answer->is_object()) {
    child_.reset();
    return run_error("the worker's answer is no JSON object: \"{}\"", printable(*line, 60));
  }
  const Json* failed = answer->find("failed");
  if (failed == nullptr) return answer;
  if (answer->find("lost") != nullptr) child_.reset();
  return run_error("{}", failed->is_string() ? failed->as_string() : "the worker gave no reason");
}

Result<BackendIdentity> WorkerBackend::identity() {
  NIBBLE_ASSIGN_OR_RETURN(
      const Json answer, ask(to_json(WireRequest{.what = What::kIdentity}), setup_.answer_seconds));
  return parse_identity(answer);
}

Result<Candidates> WorkerBackend::candidates(const TuningKey& key) {
  NIBBLE_ASSIGN_OR_RETURN(
      const Json answer,
      ask(to_json(WireRequest{.what = What::kCandidates, .key = key}), setup_.answer_seconds));
  return parse_candidates(answer, key.shape.op);
}

Result<CheckRun> WorkerBackend::check(const TuningKey& key, const AnyTactic& tactic,
                                      std::int64_t tokens, int repeats) {
  const double share = std::max(1.0, static_cast<double>(repeats) / kUsualReplays);
  NIBBLE_ASSIGN_OR_RETURN(const Json answer, ask(to_json(WireRequest{.what = What::kCheck,
                                                                     .key = key,
                                                                     .tactic = tactic,
                                                                     .tokens = tokens,
                                                                     .repeats = repeats}),
                                                 share * setup_.answer_seconds));
  return parse_check(answer);
}

Result<double> WorkerBackend::time_us(const TuningKey& key, const AnyTactic& tactic,
                                      std::size_t round) {
  NIBBLE_ASSIGN_OR_RETURN(
      const Json answer,
      ask(to_json(WireRequest{.what = What::kTime, .key = key, .tactic = tactic, .round = round}),
          setup_.answer_seconds));
  return parse_time(answer);
}

// ---- the worker's end ---------------------------------------------------------------------------

namespace {

// Lines of a descriptor; nullopt at its end.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  std::optional<std::string> next() {
    std::array<char, 65536> part = {};
    while (true) {
      const std::size_t at = rest_.find('\n');
      if (at != std::string::npos) {
        std::string line = rest_.substr(0, at);
        rest_.erase(0, at + 1);
        return line;
      }
      if (rest_.size() > kMostLineBytes) return std::nullopt;
      const ssize_t count = ::read(descriptor_, part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      rest_.append(part.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  int descriptor_;
  std::string rest_;
};

bool write_line(int descriptor, const Json& json) {
  const std::string text = json.dump(0) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

template <class T, class Write>
Json answer_of(const Result<T>& result, const Write& write) {
  return result.ok() ? write(*result) : failed_json(result.error());
}

Json answer_request(TuneBackend& backend, const WireRequest& request) {
  switch (request.what) {
    case What::kIdentity:
      return answer_of(backend.identity(), [](const auto& identity) { return to_json(identity); });
    case What::kCandidates:
      return answer_of(backend.candidates(request.key), [&](const auto& candidates) {
        return to_json(candidates, request.key.shape.op);
      });
    case What::kCheck:
      return answer_of(backend.check(request.key, request.tactic, request.tokens, request.repeats),
                       [](const auto& run) { return to_json(run); });
    case What::kTime:
      break;
  }
  return answer_of(backend.time_us(request.key, request.tactic, request.round), time_json);
}

Json answer_line(TuneBackend& backend, const std::string& line) {
  const Result<Json> json = Json::parse(line, "the tuner's request");
  if (!json.ok()) return failed_json(json.error());
  const Result<WireRequest> request = parse_request(*json);
  if (!request.ok()) return failed_json(request.error());
  return answer_request(backend, *request);
}

}  // namespace

int serve_worker(const MakeService& make, int in, int out) {
  LineReader lines(in);
  const std::optional<std::string> first = lines.next();
  if (!first) return 1;
  const Result<Json> job = Json::parse(*first, "the job");
  Result<WorkerService> service = job.ok() ? make(*job) : Result<WorkerService>(job.error());
  if (!service.ok()) {
    write_line(out, failed_json(service.error()));
    return 1;
  }
  if (!write_line(out, Json::object().set("ready", true))) return 1;
  while (const std::optional<std::string> line = lines.next()) {
    Json answer = answer_line(*service->backend, *line);
    const bool is_lost = answer.find("failed") != nullptr && service->lost();
    if (is_lost) answer.set("lost", true);
    if (!write_line(out, answer)) return 1;
    if (is_lost) return 1;
  }
  return 0;
}

}  // namespace nibble::tune
