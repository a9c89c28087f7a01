// What a report that is passed on should not tell: hosts, folders, keys.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <fmt/core.h>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "diagnose/document.h"
#include "diagnose/document_parts.h"
#include "drive/redact.h"

namespace nibble::diagnose {
namespace {

constexpr std::string_view kHiddenSecret = "***";
constexpr std::size_t kShortestIssuedKey = 20;  // of OpenAI's and Hugging Face's
// Between the words that are looked at one by one.
constexpr std::string_view kBetweenWords = " \t\n\r\"'`()<>,;=|{}";
constexpr std::string_view kBehindUrls = " \t\n\r\"'`()<>,;|{}";

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_host_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

// "10.0.12.7"; four numbers below 256.
bool is_ipv4(std::string_view text) {
  const std::vector<std::string> parts = split(text, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           return !part.empty() && part.size() <= 3 &&
                  std::all_of(part.begin(), part.end(), is_ascii_digit) && std::stoi(part) < 256;
         });
}

// Names that only exist inside of somebody's network.
bool is_private_name(std::string_view text) {
  constexpr std::array<std::string_view, 7> kEndings = {
      ".internal", ".local", ".lan", ".corp", ".home", ".intra", ".localdomain"};
  return std::all_of(text.begin(), text.end(), is_host_char) &&
         std::any_of(kEndings.begin(), kEndings.end(), [text](std::string_view ending) {
           return text.size() > ending.size() && text.ends_with(ending);
         });
}

// Names that tell nothing.
bool is_this_host(std::string_view host) {
  return host == "localhost" || host == "0.0.0.0" || host == "::1" || host == "[::1]" ||
         (host.starts_with("127.") && is_ipv4(host));
}

// "load.json", "trace.sqlite": a file rather than a host or a model's version.
bool ends_like_file(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view ending = name.substr(dot + 1);
  constexpr std::size_t kShortest = 2;
  constexpr std::size_t kLongest = 11;  // "safetensors"
  return ending.size() >= kShortest && ending.size() <= kLongest &&
         std::all_of(ending.begin(), ending.end(),
                     [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
}

// Where in "HOST:PORT/rest" the host and the port end; 0: it is none. Ports have three digits at
// least, so that a time of day is none; numbers behind a file's name are lines.
std::pair<std::size_t, std::size_t> host_and_port(std::string_view word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view host = word.substr(0, colon);
  const bool named = std::any_of(host.begin(), host.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
  if (!std::all_of(host.begin(), host.end(), is_host_char) || !(named || is_ipv4(host))) return {};
  constexpr std::array<std::string_view, 8> kFiles = {".json", ".jsonl", ".csv",  ".gz",
                                                      ".db",   ".log",   ".yaml", ".txt"};
  for (const std::string_view ending : kFiles) {
    if (host.ends_with(ending)) return {};
  }
  std::size_t end = colon + 1;
  while (end < word.size() && is_ascii_digit(word[end])) ++end;
  const std::size_t digits = end - colon - 1;
  // Ports have three digits at least where a name could be a time of day or a line's number.
  const std::size_t least = is_ipv4(host) || host.ends_with(']') ? 1 : 3;
  if (digits < least || digits > 5 || (end < word.size() && word[end] != '/')) return {};
  return {colon, end};
}

class Redactor {
 public:
  explicit Redactor(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) {
      if (!host.empty() && !is_this_host(host)) name_of(host);
    }
  }

  std::string rewrite(std::string_view text) {
    std::string out;
    std::string before;  // the word before, and what stands between
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t start = std::min(text.find_first_not_of(kBetweenWords, at), text.size());
      const std::string_view between = text.substr(at, start - at);
      out += between;
      std::size_t end = std::min(text.find_first_of(kBetweenWords, start), text.size());
      if (text.substr(start, end - start).find("://") != std::string_view::npos) {
        end = std::min(text.find_first_of(kBehindUrls, start), text.size());
      }
      const std::string_view word = text.substr(start, end - start);
      if (!word.empty()) out += is_secret(before, between, word) ? hidden() : rewrite_word(word);
      before = std::string(word);
      at = end;
    }
    return out;
  }

  void rewrite(Json& json) {
    if (json.is_string()) {
      json = Json(rewrite(json.as_string()));
    } else if (json.is_array()) {
      for (Json& item : json.as_array()) rewrite(item);
    } else if (json.is_object()) {
      for (auto& [name, value] : json.as_object()) {
        if (drive::names_a_secret(name)) {
          value = hidden();
        } else {
          rewrite(value);
        }
      }
    }
  }

 private:
  static std::string hidden() { return std::string(kHiddenSecret); }

  static bool is_secret(const std::string& before, std::string_view between,
                        std::string_view word) {
    const std::string lower = to_lower(word);
    const bool issued = lower.starts_with("sk-") || lower.starts_with("hf_");
    if (issued && word.size() >= kShortestIssuedKey) return true;
    if (before.empty()) return false;
    if (to_lower(before) == "bearer") return true;
    std::string name = before;
    const bool colon = name.ends_with(':');
    if (colon) name.pop_back();
    if (name.empty() || !drive::names_a_secret(name)) return false;
    const bool flag = name.starts_with("-") && !word.starts_with("-");
    // "key: memory" is prose, "api_key: x" is none.
    const bool field = colon && name.find_first_of("_-") != std::string::npos;
    return flag || field || between.find('=') != std::string_view::npos;
  }

  // host1, host2, ... in the order in which they are met.
  std::string name_of(std::string_view host) {
    const auto [found, added] =
        names_.try_emplace(std::string(host), fmt::format("host{}", names_.size() + 1));
    return found->second;
  }

  std::string rewrite_word(std::string_view word) {
    // What ends a sentence is no part of a name.
    std::string_view tail;
    const std::size_t last = word.find_last_not_of(".:!?");
    if (last != std::string_view::npos) {
      tail = word.substr(last + 1);
      word = word.substr(0, last + 1);
    }
    std::string text = rewrite_bare(word);
    return text.append(tail);
  }

  std::string rewrite_bare(std::string_view word) {
    if (const std::size_t scheme = word.find("://"); scheme != std::string_view::npos) {
      return rewrite_url(word.substr(0, scheme + 3), word.substr(scheme + 3));
    }
    if (const auto [host, port] = host_and_port(word); port > 0) {
      if (is_this_host(word.substr(0, host))) return std::string(word);
      return name_of(word.substr(0, host)).append(word.substr(port));
    }
    const std::string_view first = word.substr(0, word.find('/'));
    const bool address = (is_ipv4(first) || is_private_name(first)) && !is_this_host(first);
    if (address || names_.contains(std::string(first))) {
      return name_of(first).append(word.substr(first.size()));
    }
    return without_folder(word);
  }

  std::string rewrite_url(std::string_view scheme, std::string_view rest) {
    if (scheme == "file://") return without_folder(rest);
    const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
    std::string_view authority = rest.substr(0, end);
    const std::size_t user = authority.rfind('@');
    if (user != std::string_view::npos) authority.remove_prefix(user + 1);
    // A query may hold anything.
    const std::string_view path = rest.substr(end, rest.find_first_of("?#", end) - end);
    const std::size_t bracket = authority.find(']');
    const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
    const std::string_view host = authority.substr(0, colon);
    const std::string shown =
        host.empty() || is_this_host(host) ? std::string(authority) : name_of(host);
    return std::string(scheme).append(shown).append(path);
  }

  // "/home/me/runs/load.json" -> "load.json"; neither "tok/s" nor "org/model" nor "/v1/models".
  static std::string without_folder(std::string_view word) {
    const std::size_t slash = word.rfind('/');
    if (slash == std::string_view::npos || slash + 1 == word.size()) return std::string(word);
    const bool home = word.starts_with("~/") || word.starts_with("./") || word.starts_with("../");
    const bool rooted = word.starts_with("/") && slash > 0 && !word.starts_with("/v1/");
    // Behind the name may stand what is meant in the file: "runs/load.json:levels[3]".
    const std::string_view name = word.substr(slash + 1);
    const bool file = ends_like_file(name.substr(0, name.find_first_of(":[")));
    return std::string(home || rooted || file ? name : word);
  }

  std::map<std::string, std::string, std::less<>> names_;
};

void visit_cover_texts(KernelCover& cover, const TextVisitor& visit) {
  for (CoveredOp& op : cover.ops) visit(op.reason);
}

void visit_gpu_texts(GpuEvidence& gpu, const TextVisitor& visit) {
  for (std::string* text :
       {&gpu.roofs.title, &gpu.source, &gpu.steps_reason, &gpu.served_elsewhere}) {
    visit(*text);
  }
  for (auto& [key, roof] : gpu.roofs.roofs) {
    visit(roof.path);
    visit(roof.reason);
    visit(roof.conditions.reason);
  }
  for (GpuRow& row : gpu.rows) {
    visit(row.error);
    visit(row.conditions.reason);
  }
  for (GpuStep& step : gpu.steps) visit_cover_texts(step.cover, visit);
}

void visit_evidence_texts(Evidence& evidence, const TextVisitor& visit) {
  Setting& setting = evidence.setting;
  for (std::string* text :
       {&setting.title, &setting.engine, &setting.engine_version, &setting.model, &setting.machine,
        &setting.tactic, &setting.best_tactic}) {
    visit(*text);
  }
  for (std::string& note : setting.notes) visit(note);
  for (LevelEvidence& level : evidence.levels) {
    visit(level.floor_reason);
    if (level.cover) visit_cover_texts(*level.cover, visit);
    for (Datum& datum : level.facts) {
      visit(datum.source);
      visit(datum.reason);
    }
  }
  for (Series& series : evidence.series) visit(series.name);
  if (evidence.trace) visit(evidence.trace->source);
  visit(evidence.trace_reason);
  for (KernelEvidence& kernel : evidence.kernels) visit(kernel.source);
  visit(evidence.kernels_reason);
  if (evidence.gpu) visit_gpu_texts(*evidence.gpu, visit);
}

void visit_verdict_texts(std::vector<Verdict>& verdicts, const TextVisitor& visit) {
  for (Verdict& verdict : verdicts) {
    for (auto* clues : {&verdict.evidence_for, &verdict.evidence_against, &verdict.missing}) {
      for (Clue& clue : *clues) visit(clue.sentence);
    }
    visit(verdict.claim);
    visit(verdict.sentence);
    visit(verdict.experiment);
  }
}

void visit_finding_texts(Finding& finding, const TextVisitor& visit) {
  for (std::string* text :
       {&finding.title, &finding.verdict, &finding.missing, &finding.formula, &finding.sentence}) {
    visit(*text);
  }
  for (FindingInput& input : finding.inputs) visit(input.source);
  for (std::string& assumption : finding.assumptions) visit(assumption);
}

}  // namespace

void visit_texts(Diagnosis& diagnosis, const TextVisitor& visit) {
  visit(diagnosis.sentence);
  visit_evidence_texts(diagnosis.evidence, visit);
  for (LevelDiagnosis& level : diagnosis.levels) {
    for (WaterfallBar& bar : level.waterfall) {
      visit(bar.note);
      visit(bar.reason);
    }
    visit(level.waterfall_reason);
    visit(level.joules_reason);
    visit(level.joules_floor_reason);
    visit_verdict_texts(level.verdicts, visit);
  }
  visit_verdict_texts(diagnosis.verdicts, visit);
  for (Proposal& proposal : diagnosis.proposals) {
    for (std::string* text : {&proposal.title, &proposal.cost, &proposal.depends_on, &proposal.how,
                              &proposal.evidence}) {
      visit(*text);
    }
  }
  for (Finding& finding : diagnosis.findings) visit_finding_texts(finding, visit);
  for (Experiment& experiment : diagnosis.experiments) {
    visit(experiment.question);
    visit(experiment.outcome);
  }
}

void redact(Diagnosis& diagnosis, std::string& command, const std::vector<std::string>& hosts) {
  Redactor redactor(hosts);
  // Once to learn the names of all hosts, so that those that stand alone are found too.
  Json sources = diagnosis.evidence.sources;
  redactor.rewrite(sources);
  visit_texts(diagnosis, [&redactor](std::string& text) { redactor.rewrite(text); });
  redactor.rewrite(command);
  command = redactor.rewrite(std::string_view(command));
  visit_texts(diagnosis,
              [&redactor](std::string& text) { text = redactor.rewrite(std::string_view(text)); });
  redactor.rewrite(diagnosis.evidence.sources);
  redactor.rewrite(diagnosis.evidence.roofs);
}

Diagnosis redacted(Diagnosis diagnosis, const std::vector<std::string>& hosts) {
  std::string no_command;
  redact(diagnosis, no_command, hosts);
  return diagnosis;
}

}  // namespace nibble::diagnose
