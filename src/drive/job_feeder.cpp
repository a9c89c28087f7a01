#include "drive/job_feeder.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "api/request.h"

namespace nibble::drive {
namespace {

// Of text and ids: of 64 bits, so that among a million prompts one in ten million runs has two that
// are told alike and are not.
std::uint64_t hash_of(const load::Prompt& prompt) {
  if (prompt.ids.empty()) return std::hash<std::string_view>()(prompt.text);
  const auto* bytes = reinterpret_cast<const char*>(prompt.ids.data());
  return std::hash<std::string_view>()({bytes, prompt.ids.size() * sizeof(prompt.ids.front())});
}

}  // namespace

Result<Job> make_job(const Target& target, load::Prompt prompt) {
  const std::uint64_t prompt_hash = hash_of(prompt);
  api::GenerationRequest request;
  request.model = target.model;
  request.prompt = std::move(prompt.text);
  request.prompt_ids = std::move(prompt.ids);
  request.max_tokens = prompt.output_tokens;
  if (target.ignore_eos && target.backend.ignore_eos) request.ignore_eos = true;
  if (target.ignore_eos && target.backend.min_tokens) request.min_tokens = prompt.output_tokens;
  request.temperature = target.temperature;
  request.top_p = target.top_p;
  request.stream = target.stream;
  request.include_usage = target.usage;
  request.continuous_usage = target.usage && target.continuous_usage;
  request.extra_body = target.extra_body;
  NIBBLE_ASSIGN_OR_RETURN(api::RequestBody body, api::request_body(target.backend, request));
  return Job{.body = std::move(body.json),
             .stream = body.stream,
             .prompt_tokens_asked = prompt.prompt_tokens,
             .output_tokens_asked = body.max_tokens.value_or(prompt.output_tokens),
             .prompt_hash = prompt_hash};
}

JobFeeder::JobFeeder(FeedPlan plan, const Target& target, const load::Dataset& dataset)
    : plan_(std::move(plan)), target_(target), dataset_(dataset), thread_([this] { work(); }) {}

JobFeeder::~JobFeeder() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  room_.notify_all();
  thread_.join();
}

void JobFeeder::wait_ready(std::int64_t jobs) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock,
              [&] { return ended_ || full() || static_cast<std::int64_t>(queue_.size()) >= jobs; });
}

std::optional<Job> JobFeeder::take() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return std::nullopt;
  Job job = std::move(queue_.front());
  queue_.pop_front();
  bytes_ -= job.body.size();
  ++taken_;
  if (plan_.sent != nullptr) job.prompt_repeated = !plan_.sent->insert(job.prompt_hash).second;
  room_.notify_one();
  return job;
}

bool JobFeeder::finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ && queue_.empty();
}

std::optional<Error> JobFeeder::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

std::int64_t JobFeeder::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

Result<Job> JobFeeder::make(std::int64_t ordinal) {
  load::PromptKey key = plan_.first;
  key.index += ordinal;
  key.number += ordinal;
  Result<load::Prompt> prompt = dataset_.make(key);
  if (!prompt.ok() && plan_.reuse) {
    key.number = ordinal;
    prompt = dataset_.make(key);
  }
  if (!prompt.ok()) return prompt.error();
  prompt->output_tokens = std::min(prompt->output_tokens, plan_.most_output);
  NIBBLE_ASSIGN_OR_RETURN(Job job, make_job(target_, std::move(*prompt)));
  job.index = key.index;
  return job;
}

void JobFeeder::work() {
  std::unique_lock lock(mutex_);
  for (std::int64_t ordinal = 0; plan_.requests == 0 || ordinal < plan_.requests; ++ordinal) {
    room_.wait(lock, [&] { return ending_ || !full(); });
    if (ending_) break;
    lock.unlock();
    std::optional<Nanoseconds> due = 0;
    if (plan_.arrivals) due = plan_.arrivals->next();
    Result<Job> job = make(ordinal);
    lock.lock();
    if (!due) break;
    if (!job.ok()) {
      fault_ = job.error();
      break;
    }
    job->due = *due;
    bytes_ += job->body.size();
    queue_.push_back(std::move(*job));
    ready_.notify_all();
  }
  ended_ = true;
  ready_.notify_all();
}

}  // namespace nibble::drive
