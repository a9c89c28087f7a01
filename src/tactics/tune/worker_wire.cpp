#include "tactics/tune/worker_wire.h"

#include <charconv>
#include <cmath>
#include <fmt/core.h>
#include <limits>

#include "base/names.h"
#include "base/text.h"

namespace nibble::tune {
namespace {

constexpr Named<WireRequest::What> kRequests[] = {{"identity", WireRequest::What::kIdentity},
                                                  {"candidates", WireRequest::What::kCandidates},
                                                  {"check", WireRequest::What::kCheck},
                                                  {"time", WireRequest::What::kTime}};
constexpr const char* kAnswer = "the worker's answer";
constexpr double kMostTokens = 1 << 24;
constexpr double kMostRepeats = 1e6;

Json tactics_json(const std::vector<AnyTactic>& tactics, std::string_view op) {
  Json list = Json::array();
  for (const AnyTactic& tactic : tactics) list.push(to_json(tactic, op));
  return list;
}

// What is wrong with an answer is the worker's mistake, not the user's.
Error as_run_error(const Error& error) {
  return {ErrorKind::kRun, error.message};
}

template <class T>
Result<T> as_run(Result<T> result) {
  if (result.ok()) return result;
  return as_run_error(result.error());
}

Result<Candidates> read_candidates(const Json& json, std::string_view op) {
  ObjectReader reader(json, kAnswer);
  Candidates found;
  const Json* fallback = reader.object("default");
  const Json* feasible = reader.array("feasible");
  const Json* infeasible = reader.array("infeasible");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if (fallback == nullptr || feasible == nullptr || infeasible == nullptr) {
    return run_error("{} names no candidates", kAnswer);
  }
  NIBBLE_ASSIGN_OR_RETURN(found.fallback, parse_tactic(*fallback, op, kAnswer));
  for (const Json& one : feasible->as_array()) {
    NIBBLE_ASSIGN_OR_RETURN(AnyTactic tactic, parse_tactic(one, op, kAnswer));
    found.feasible.push_back(tactic);
  }
  for (const Json& one : infeasible->as_array()) {
    ObjectReader of_one(one, kAnswer);
    const Json* tactic = of_one.object("tactic");
    RejectedTactic rejected{.why = of_one.require_string("why")};
    NIBBLE_RETURN_IF_ERROR(of_one.finish());
    if (tactic == nullptr) return run_error("{} rejects no tactic", kAnswer);
    NIBBLE_ASSIGN_OR_RETURN(rejected.tactic, parse_tactic(*tactic, op, kAnswer));
    found.infeasible.push_back(std::move(rejected));
  }
  return found;
}

// 64 bits do not fit a JSON number of every reader: hexadecimal text.
Result<std::uint64_t> parse_digest(const Json& json) {
  std::uint64_t digest = 0;
  if (!json.is_string()) return run_error("{} has a digest that is no text", kAnswer);
  const std::string& text = json.as_string();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return run_error("{} has the digest \"{}\"", kAnswer, printable(text));
  }
  return digest;
}

Result<CheckRun> read_check(const Json& json) {
  ObjectReader reader(json, kAnswer);
  CheckRun run;
  // null: no number, which JSON has not.
  run.error = reader.number("error").value_or(std::numeric_limits<double>::infinity());
  run.limit = reader.require_number("limit");
  run.where = reader.require_string("where");
  const Json* digests = reader.array("digests");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if (digests == nullptr) return run_error("{} has no digests", kAnswer);
  for (const Json& one : digests->as_array()) {
    NIBBLE_ASSIGN_OR_RETURN(const std::uint64_t digest, parse_digest(one));
    run.digests.push_back(digest);
  }
  return run;
}

}  // namespace

Json to_json(const WireRequest& request) {
  Json json = Json::object().set("do", name_of(kRequests, request.what));
  if (request.what == WireRequest::What::kIdentity) return json;
  json.set("key", to_json(request.key));
  if (request.what == WireRequest::What::kCandidates) return json;
  json.set("tactic", to_json(request.tactic, request.key.shape.op));
  if (request.what == WireRequest::What::kCheck) {
    return json.set("tokens", request.tokens).set("repeats", request.repeats);
  }
  return json.set("round", static_cast<std::int64_t>(request.round));
}

Result<WireRequest> parse_request(const Json& json) {
  constexpr const char* kRequest = "the tuner's request";
  ObjectReader reader(json, kRequest);
  WireRequest request;
  read_choice(reader, "do", kRequests, request.what);
  const bool has_key = request.what != WireRequest::What::kIdentity;
  const bool has_tactic = has_key && request.what != WireRequest::What::kCandidates;
  const Json* key = has_key ? reader.object("key") : nullptr;
  const Json* tactic = has_tactic ? reader.object("tactic") : nullptr;
  if (request.what == WireRequest::What::kCheck) {
    request.tokens = reader.require_integer("tokens", {1, kMostTokens});
    request.repeats = static_cast<int>(reader.require_integer("repeats", {1, kMostRepeats}));
  } else if (request.what == WireRequest::What::kTime) {
    request.round = static_cast<std::size_t>(reader.require_integer("round", {.min = 0}));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if ((has_key && key == nullptr) || (has_tactic && tactic == nullptr)) {
    return run_error("{} names no {}", kRequest, key == nullptr ? "key" : "tactic");
  }
  if (has_key) {
    NIBBLE_ASSIGN_OR_RETURN(request.key, parse_key(*key, kRequest));
  }
  if (has_tactic) {
    NIBBLE_ASSIGN_OR_RETURN(request.tactic, parse_tactic(*tactic, request.key.shape.op, kRequest));
  }
  return request;
}

Json to_json(const BackendIdentity& identity) {
  return Json::object().set("site", to_json(identity.site)).set("compiler", identity.compiler);
}

Json to_json(const Candidates& candidates, std::string_view op) {
  Json infeasible = Json::array();
  for (const RejectedTactic& one : candidates.infeasible) {
    infeasible.push(Json::object().set("tactic", to_json(one.tactic, op)).set("why", one.why));
  }
  return Json::object()
      .set("default", to_json(candidates.fallback, op))
      .set("feasible", tactics_json(candidates.feasible, op))
      .set("infeasible", std::move(infeasible));
}

Json to_json(const CheckRun& run) {
  Json digests = Json::array();
  for (const std::uint64_t digest : run.digests) digests.push(fmt::format("{:016x}", digest));
  return Json::object()
      .set("error", run.error)
      .set("limit", run.limit)
      .set("where", run.where)
      .set("digests", std::move(digests));
}

Json time_json(double us) {
  return Json::object().set("us", us);
}

Json failed_json(const Error& error) {
  return Json::object().set("failed", error.message);
}

Result<BackendIdentity> parse_identity(const Json& json) {
  ObjectReader reader(json, kAnswer);
  BackendIdentity identity{.compiler = reader.require_string("compiler")};
  const Json* site = reader.object("site");
  if (const Result<> finished = reader.finish(); !finished.ok()) {
    return as_run_error(finished.error());
  }
  if (site == nullptr) return run_error("{} names no site", kAnswer);
  Result<TuningSite> parsed = as_run(parse_site(*site, kAnswer));
  if (!parsed.ok()) return parsed.error();
  identity.site = std::move(parsed).value();
  return identity;
}

Result<Candidates> parse_candidates(const Json& json, std::string_view op) {
  return as_run(read_candidates(json, op));
}

Result<CheckRun> parse_check(const Json& json) {
  return as_run(read_check(json));
}

Result<double> parse_time(const Json& json) {
  const Json* us = json.find("us");
  if (us == nullptr || !us->is_number()) return run_error("{} has no time", kAnswer);
  return us->as_number();
}

}  // namespace nibble::tune
