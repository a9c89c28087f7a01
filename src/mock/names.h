// The names that the choices of a script have in its file: one table each for reading and writing.
//
//   reader_choice(reader, "line_end", kLineEnds, sse.line_end);
//   json.set("line_end", name_of(kLineEnds, sse.line_end));
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "mock/script.h"

namespace nibble::mock {

template <class Enum>
using Name = std::pair<std::string_view, Enum>;

inline constexpr std::array kCurveKinds = {
    Name<CurveKind>{"flat", CurveKind::kFlat}, Name<CurveKind>{"knee", CurveKind::kKnee},
    Name<CurveKind>{"usl", CurveKind::kUsl}, Name<CurveKind>{"points", CurveKind::kPoints}};
inline constexpr std::array kTextKinds = {Name<TextKind>{"words", TextKind::kWords},
                                          Name<TextKind>{"repeat", TextKind::kRepeat},
                                          Name<TextKind>{"utf8", TextKind::kUtf8}};
inline constexpr std::array kStreamModes = {Name<StreamMode>{"tokens", StreamMode::kTokens},
                                            Name<StreamMode>{"one_chunk", StreamMode::kOneChunk},
                                            Name<StreamMode>{"body", StreamMode::kBody}};
inline constexpr std::array kRoleDeltas = {Name<RoleDelta>{"with_first", RoleDelta::kWithFirst},
                                           Name<RoleDelta>{"at_start", RoleDelta::kAtStart},
                                           Name<RoleDelta>{"none", RoleDelta::kNone}};
inline constexpr std::array kFinishForms = {Name<FinishForm>{"separate", FinishForm::kSeparate},
                                            Name<FinishForm>{"same", FinishForm::kSame}};
inline constexpr std::array kUsageWhens = {Name<UsageWhen>{"requested", UsageWhen::kRequested},
                                           Name<UsageWhen>{"last", UsageWhen::kLast},
                                           Name<UsageWhen>{"same", UsageWhen::kSame},
                                           Name<UsageWhen>{"every", UsageWhen::kEvery},
                                           Name<UsageWhen>{"none", UsageWhen::kNone},
                                           Name<UsageWhen>{"zeros", UsageWhen::kZeros}};
inline constexpr std::array kLineEnds = {Name<LineEnd>{"lf", LineEnd::kLf},
                                         Name<LineEnd>{"crlf", LineEnd::kCrLf},
                                         Name<LineEnd>{"cr", LineEnd::kCr}};
inline constexpr std::array kDoneForms = {Name<DoneForm>{"done", DoneForm::kDone},
                                          Name<DoneForm>{"none", DoneForm::kNone},
                                          Name<DoneForm>{"then_data", DoneForm::kThenData}};
inline constexpr std::array kFramings = {Name<Framing>{"chunked", Framing::kChunked},
                                         Name<Framing>{"close", Framing::kClose}};
inline constexpr std::array kFaultKinds = {Name<FaultKind>{"status", FaultKind::kStatus},
                                           Name<FaultKind>{"refuse", FaultKind::kRefuse},
                                           Name<FaultKind>{"reset", FaultKind::kReset},
                                           Name<FaultKind>{"truncate", FaultKind::kTruncate},
                                           Name<FaultKind>{"close", FaultKind::kClose},
                                           Name<FaultKind>{"bad_framing", FaultKind::kBadFraming},
                                           Name<FaultKind>{"error_event", FaultKind::kErrorEvent},
                                           Name<FaultKind>{"bad_json", FaultKind::kBadJson},
                                           Name<FaultKind>{"error_body", FaultKind::kErrorBody},
                                           Name<FaultKind>{"html", FaultKind::kHtml},
                                           Name<FaultKind>{"empty", FaultKind::kEmpty},
                                           Name<FaultKind>{"hang", FaultKind::kHang}};
inline constexpr std::array kMetricsStyles = {
    Name<MetricsStyle>{"vllm", MetricsStyle::kVllm},
    Name<MetricsStyle>{"sglang", MetricsStyle::kSglang},
    Name<MetricsStyle>{"llamacpp", MetricsStyle::kLlamacpp},
    Name<MetricsStyle>{"llamacpp_quoted", MetricsStyle::kLlamacppQuoted},
    Name<MetricsStyle>{"none", MetricsStyle::kNone}};

template <class Table, class Enum>
std::string_view name_of(const Table& table, Enum value) {
  for (const auto& [name, each] : table) {
    if (each == value) return name;
  }
  return "";
}

template <class Table>
auto value_of(const Table& table, std::string_view name)
    -> std::optional<typename Table::value_type::second_type> {
  for (const auto& [each, value] : table) {
    if (each == name) return value;
  }
  return std::nullopt;
}

// Reads a choice when it is there; another name is a fault that lists the right ones.
template <class Table, class Enum>
void reader_choice(ObjectReader& reader, std::string_view key, const Table& table, Enum& target) {
  const std::optional<std::string> given = reader.string(key);
  if (!given) return;
  if (const auto value = value_of(table, *given)) {
    target = *value;
    return;
  }
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.first);
  reader.fault_at(
      key, fmt::format("is \"{}\"; it must be one of {}", printable(*given), join(names, ", ")));
}

}  // namespace nibble::mock
