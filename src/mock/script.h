// What a mock server does: every time, every form of the wire and every fault, from a file
// (nibble.mock/1, docs/mock.md) or from flags. A script and a seed fix all that is drawn.
//
//   MockScript script;                      // 50 ms to the first token, then 10 ms each
//   script.capacity = 32;
//   NIBBLE_ASSIGN_OR_RETURN(script, load_script("slow.json"));
//   const Json json = to_json(script);      // complete: every field with its value
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "mock/distribution.h"
#include "mock/steps.h"

namespace nibble::mock {

// The most that a script may ask for: an hour, and more tokens than any model's context.
inline constexpr double kMostMs = 3.6e6;
inline constexpr double kMostTokens = 1e7;

// An answer that ends before max_tokens, as if the model had said that it is done.
struct EarlyEnd {
  double probability = 0;
  Distribution tokens = Distribution::constant(1);  // where it ends, if that is earlier
};

// The first requests are slower, as on a server that still compiles.
struct SlowStart {
  std::int64_t requests = 0;
  double factor = 1;  // on all times of these requests
};

enum class CurveKind : std::uint8_t {
  kFlat,    // ITL does not depend on the load
  kKnee,    // factor max(1, n / knee): throughput linear, then flat
  kUsl,     // factor 1 + sigma (n - 1) + kappa n (n - 1): a soft knee, with kappa a decline
  kPoints,  // factors at given numbers of running requests, straight lines between them
};

// How ITL grows with the number n of running requests: itl(n) = itl_ms * factor(n).
struct LoadCurve {
  CurveKind kind = CurveKind::kFlat;
  double knee = 1;
  double sigma = 0;
  double kappa = 0;
  std::vector<double> running = {};  // ascending; beyond the last, factors grow with n
  std::vector<double> factors = {};
  double noise = 0;               // standard deviation of a factor that all streams share ...
  double noise_period_ms = 1000;  // ... and that is drawn anew after each such period
};

enum class TextKind : std::uint8_t {
  kWords,   // common English words, a different row of them in every answer
  kRepeat,  // one word over and over: what a broken model says
  kUtf8,    // letters of two to four bytes
};

struct TextForm {
  TextKind kind = TextKind::kWords;
  std::int64_t chunk_bytes = 0;  // the text of each chunk is made at least this long
};

// Where the tokens of an answer stand.
struct Fields {
  Distribution reasoning_tokens = Distribution::constant(0);  // that come first
  std::string reasoning_field = "reasoning_content";          // or "reasoning"
  bool tool_calls = false;  // the answer is the arguments of a call (chat only)
};

enum class StreamMode : std::uint8_t {
  kTokens,    // chunk by chunk
  kOneChunk,  // a stream whose only chunk with tokens comes at the end
  kBody,      // one JSON body, though a stream was asked for
};
enum class RoleDelta : std::uint8_t { kWithFirst, kAtStart, kNone };
enum class FinishForm : std::uint8_t { kSeparate, kSame };

struct StreamForm {
  StreamMode mode = StreamMode::kTokens;
  RoleDelta role = RoleDelta::kWithFirst;  // the chunk that carries only the role (chat)
  std::int64_t empty_every = 0;            // after each so many chunks one without tokens; 0: none
  FinishForm finish =
      FinishForm::kSeparate;  // finish_reason: a chunk of its own, or the last one's
};

enum class UsageWhen : std::uint8_t {
  kRequested,  // as stream_options asks: at the end, or with every chunk
  kLast,       // a chunk with choices [] at the end
  kSame,       // in the chunk that has the finish_reason
  kEvery,      // in every chunk, cumulative, and at the end
  kNone,
  kZeros,  // as kLast, all numbers 0
};

struct UsageForm {
  UsageWhen when = UsageWhen::kRequested;
  double cached_share = 0;           // of the prompt's tokens, said to come from the prefix cache
  std::int64_t template_tokens = 0;  // a chat template adds them to the prompt
  bool stream_options = true;        // false: a request that has the field is refused with 400
};

enum class LineEnd : std::uint8_t { kLf, kCrLf, kCr };
enum class DoneForm : std::uint8_t { kDone, kNone, kThenData };
enum class Framing : std::uint8_t { kChunked, kClose };

struct SseForm {
  LineEnd line_end = LineEnd::kLf;
  bool byte_order_mark = false;
  bool space_after_colon = true;
  bool multi_line = false;         // the JSON of an event on two data lines
  std::string event = {};          // an event: line with this name
  bool id = false;                 // an id: line that counts
  std::int64_t retry_ms = 0;       // a retry: line at the start; 0: none
  std::int64_t comment_every = 0;  // a comment before each so many chunks; 0: none
  double keep_alive_ms = 0;        // a comment whenever this long nothing was sent; 0: none
  DoneForm done = DoneForm::kDone;
  bool final_newline = true;    // false: the last event has no end of line
  std::int64_t cut_bytes = 0;   // events leave in pieces of so many bytes; 0: whole
  bool cut_characters = false;  // events are cut inside their first character of many bytes
  double cut_pause_ms = 0;      // between two pieces
  Framing framing = Framing::kChunked;
};

enum class FaultKind : std::uint8_t {
  kStatus,      // an HTTP status with an error body
  kRefuse,      // nobody listens for `ms`, this request's connection is reset
  kReset,       // RST after `after_tokens`
  kTruncate,    // the connection ends inside a chunk after `after_tokens`
  kClose,       // it ends after a whole chunk, but before the end of the body
  kBadFraming,  // a chunk size that is no number
  kErrorEvent,  // {"error": ...} in the stream
  kBadJson,     // an event that is no JSON
  kErrorBody,   // status 200 with {"error": ...}
  kHtml,        // status 200 with a page
  kEmpty,       // a stream without a token
  kHang,        // silence for `ms`, or for ever
};

// Which requests it hits: those listed, every n-th, or each with a probability.
struct Fault {
  FaultKind kind = FaultKind::kStatus;
  std::vector<std::int64_t> requests = {};
  std::int64_t every = 0;  // requests n - 1, 2 n - 1, ...
  double probability = 0;
  std::int64_t after_tokens = 0;
  int status = 503;
  std::optional<double> ms = std::nullopt;  // of kRefuse and kHang; a hang without it is for ever
  bool head = true;                         // kHang after 0 tokens: is the head sent before?
};

enum class MetricsStyle : std::uint8_t { kVllm, kSglang, kLlamacpp, kLlamacppQuoted, kNone };

struct MockScript {
  std::uint64_t seed = 1;
  std::string model = "nibble-mock";
  std::int64_t max_model_len = 1 << 20;
  Distribution ttft_ms = Distribution::constant(50);
  double ttft_ms_per_prompt_token = 0;
  Distribution itl_ms = Distribution::constant(10);           // between tokens
  Distribution tokens_per_chunk = Distribution::constant(1);  // of all chunks but the first
  std::int64_t first_chunk_tokens = 1;
  Distribution output_tokens = Distribution::constant(128);  // where the request says nothing
  EarlyEnd early_end = {};
  SlowStart slow_start = {};
  std::int64_t capacity = 0;  // requests that run at once; 0: all
  LoadCurve load_curve = {};
  TextForm text = {};
  Fields fields = {};
  StreamForm stream = {};
  UsageForm usage = {};
  SseForm sse = {};
  std::int64_t body_padding_bytes = 0;  // white space before a JSON body, as proxies send it
  std::vector<Fault> faults = {};
  MetricsStyle metrics_style = MetricsStyle::kVllm;
  std::int64_t kv_capacity_tokens = 1 << 20;
  // An engine that batches, in place of times that are scripted a request.
  std::optional<StepsScript> steps = std::nullopt;
  GpuScript gpu = {};  // of its ranks
};

std::string_view to_string(FaultKind kind);
std::string_view to_string(MetricsStyle style);
std::optional<MetricsStyle> metrics_style_from_string(std::string_view name);

// `where` names the file in messages. Every member may be absent; unknown ones are refused.
Result<MockScript> parse_script(const Json& json, std::string_view where);
Result<MockScript> load_script(const std::filesystem::path& path);
Json to_json(const MockScript& script);

}  // namespace nibble::mock
