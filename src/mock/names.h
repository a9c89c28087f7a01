// The names that the choices of a script have in its file.
//
//   read_choice(reader, "line_end", kLineEnds, sse.line_end);
//   json.set("line_end", name_of(kLineEnds, sse.line_end));
#pragma once

#include "base/names.h"
#include "mock/script.h"

namespace nibble::mock {

inline constexpr Named<CurveKind> kCurveKinds[] = {{"flat", CurveKind::kFlat},
                                                   {"knee", CurveKind::kKnee},
                                                   {"usl", CurveKind::kUsl},
                                                   {"points", CurveKind::kPoints}};
inline constexpr Named<TextKind> kTextKinds[] = {
    {"words", TextKind::kWords}, {"repeat", TextKind::kRepeat}, {"utf8", TextKind::kUtf8}};
inline constexpr Named<StreamMode> kStreamModes[] = {{"tokens", StreamMode::kTokens},
                                                     {"one_chunk", StreamMode::kOneChunk},
                                                     {"body", StreamMode::kBody}};
inline constexpr Named<RoleDelta> kRoleDeltas[] = {{"with_first", RoleDelta::kWithFirst},
                                                   {"at_start", RoleDelta::kAtStart},
                                                   {"none", RoleDelta::kNone}};
inline constexpr Named<FinishForm> kFinishForms[] = {{"separate", FinishForm::kSeparate},
                                                     {"same", FinishForm::kSame}};
inline constexpr Named<UsageWhen> kUsageWhens[] = {
    {"requested", UsageWhen::kRequested}, {"last", UsageWhen::kLast}, {"same", UsageWhen::kSame},
    {"every", UsageWhen::kEvery},         {"none", UsageWhen::kNone}, {"zeros", UsageWhen::kZeros}};
inline constexpr Named<LineEnd> kLineEnds[] = {
    {"lf", LineEnd::kLf}, {"crlf", LineEnd::kCrLf}, {"cr", LineEnd::kCr}};
inline constexpr Named<DoneForm> kDoneForms[] = {
    {"done", DoneForm::kDone}, {"none", DoneForm::kNone}, {"then_data", DoneForm::kThenData}};
inline constexpr Named<Framing> kFramings[] = {{"chunked", Framing::kChunked},
                                               {"close", Framing::kClose}};
inline constexpr Named<FaultKind> kFaultKinds[] = {{"status", FaultKind::kStatus},
                                                   {"refuse", FaultKind::kRefuse},
                                                   {"reset", FaultKind::kReset},
                                                   {"truncate", FaultKind::kTruncate},
                                                   {"close", FaultKind::kClose},
                                                   {"bad_framing", FaultKind::kBadFraming},
                                                   {"error_event", FaultKind::kErrorEvent},
                                                   {"bad_json", FaultKind::kBadJson},
                                                   {"error_body", FaultKind::kErrorBody},
                                                   {"html", FaultKind::kHtml},
                                                   {"empty", FaultKind::kEmpty},
                                                   {"hang", FaultKind::kHang}};
inline constexpr Named<MetricsStyle> kMetricsStyles[] = {
    {"vllm", MetricsStyle::kVllm},
    {"sglang", MetricsStyle::kSglang},
    {"llamacpp", MetricsStyle::kLlamacpp},
    {"llamacpp_quoted", MetricsStyle::kLlamacppQuoted},
    {"none", MetricsStyle::kNone}};

}  // namespace nibble::mock
