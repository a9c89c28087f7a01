#include "tactics/tune/table.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/text.h"

namespace nibble::tune {
namespace {

constexpr const char* kDefaultTaken = "default taken";
constexpr std::size_t kMostNote = 400;  // columns

std::string tokens_text(std::int64_t tokens) {
  return fmt::format("{} {}", tokens, tokens == 1 ? "token" : "tokens");
}

// How a file's shape is not the one that was asked for: "another rank's shape", "bf16 activations".
// One rank's cut changes gate and up's rows, down's columns, and how many experts there are; the
// hidden size and top_k are the model's.
std::vector<std::string> shape_differences(const TuningShape& made, const TuningShape& asked) {
  std::vector<std::string> parts;
  const bool same_hidden = asked.op == "moe.down"      ? made.n == asked.n
                           : asked.op == "moe.gate_up" ? made.k == asked.k
                                                       : made.n == asked.n || made.k == asked.k;
  const bool same_sizes = made.n == asked.n && made.k == asked.k && made.experts == asked.experts;
  if (!same_hidden || made.top_k != asked.top_k) {
    parts.emplace_back("another model's shape");
  } else if (!same_sizes) {
    parts.emplace_back("another rank's shape");
  }
  if (made.format != asked.format) {
    parts.push_back(fmt::format("{} weights", to_string(made.format)));
  }
  if (made.activations != asked.activations) {
    parts.push_back(fmt::format("{} activations", to_string(made.activations)));
  }
  return parts;
}

// "1 token", "1, 2 and 4 tokens".
std::string list_text(std::vector<std::int64_t> tokens) {
  std::sort(tokens.begin(), tokens.end());
  std::string text;
  for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
    text += fmt::format("{}{}", at == 0 ? "" : ", ", tokens[at]);
  }
  if (!text.empty()) text += " and ";
  return text + tokens_text(tokens.back());
}

}  // namespace

TuningTable::TuningTable(TuningFile file, std::string name, const TuningSite& here)
    : file_(std::move(file)), name_(std::move(name)) {
  const std::string stale = difference(file_.site, here);
  if (!stale.empty()) problem_ = fmt::format("tuning file {} is not used: {}", name_, stale);
}

TuningTable TuningTable::load(const std::filesystem::path& path, const TuningSite& here) {
  Result<TuningFile> file = read_tuning(path);
  if (file.ok()) return TuningTable(std::move(file).value(), path.string(), here);
  TuningTable table({.site = here}, path.string(), here);
  table.problem_ = "no tuning: " + file.error().message;
  return table;
}

Result<TuningTable> TuningTable::for_run(TuningFile file, const std::string& name,
                                         const TuningSite& here) {
  const bool foreign = !is_same_device(file.site, here);
  TuningTable table(std::move(file), name, here);
  if (foreign) return input_error("{}; nibble tune writes one for this device", table.problem());
  return table;
}

Found TuningTable::find(const TuningShape& shape, std::int64_t tokens) {
  for (const Asked& asked : asked_) {
    if (asked.shape == shape && asked.tokens == tokens) return asked.found;
  }
  asked_.push_back({shape, tokens, look_up(shape, tokens)});
  return asked_.back().found;
}

Found TuningTable::look_up(const TuningShape& shape, std::int64_t tokens) const {
  if (!problem_.empty()) return {.reason = kDefaultTaken};
  const TuningEntry* best = nullptr;
  for (const TuningEntry& entry : file_.entries) {
    if (!(entry.key.shape == shape) || !entry.key.holds(tokens)) continue;
    if (best == nullptr || entry.key.tokens < best->key.tokens) best = &entry;
  }
  if (best == nullptr) return {.reason = why_missing(shape, tokens)};
  Found found{.tactic = best->choice,
              .entry_from = best->key.from_tokens,
              .entry_tokens = best->key.tokens};
  if (!best->choice)
    found.reason = fmt::format("{}; {}", printable(best->note, kMostNote), kDefaultTaken);
  return found;
}

// Another rank's shape is the usual mistake: a file for 36 local experts was never read where 288
// were asked for, and nobody was told (facts/sm120.md, 3A case 19).
std::string TuningTable::why_missing(const TuningShape& shape, std::int64_t tokens) const {
  const TuningShape* nearest = nullptr;
  std::vector<std::string> differences;
  std::int64_t most = 0;
  bool same_shape = false;
  for (const TuningEntry& entry : file_.entries) {
    if (entry.key.shape == shape) {
      same_shape = true;
      most = std::max(most, entry.key.tokens);
    } else if (entry.key.shape.op == shape.op) {
      std::vector<std::string> parts = shape_differences(entry.key.shape, shape);
      if (nearest != nullptr && parts.size() >= differences.size()) continue;
      nearest = &entry.key.shape;
      differences = std::move(parts);
    }
  }
  if (same_shape && tokens > most) {
    return fmt::format("the file ends at {}, {}", tokens_text(most), kDefaultTaken);
  }
  if (same_shape) return fmt::format("this many tokens are not in the file, {}", kDefaultTaken);
  if (nearest != nullptr) {
    return fmt::format("the file is for {}, {}: not used, {}", join(differences, " and "),
                       to_string(*nearest), kDefaultTaken);
  }
  return fmt::format("not in the file, {}", kDefaultTaken);
}

void TuningTable::refuse(const TuningShape& shape, std::int64_t tokens, const std::string& why) {
  for (Asked& asked : asked_) {
    if (!(asked.shape == shape) || asked.tokens != tokens) continue;
    asked.found.tactic.reset();
    asked.found.reason = fmt::format("{}, {}", why, kDefaultTaken);
  }
}

std::vector<std::int64_t> TuningTable::ends(const TuningShape& shape) const {
  std::vector<std::int64_t> ends;
  if (!problem_.empty()) return ends;
  for (const TuningEntry& entry : file_.entries) {
    if (entry.key.shape == shape) ends.push_back(entry.key.tokens);
  }
  return ends;
}

std::size_t TuningTable::hits() const {
  return static_cast<std::size_t>(
      std::count_if(asked_.begin(), asked_.end(),
                    [](const Asked& asked) { return asked.found.tactic.has_value(); }));
}

std::vector<std::string> TuningTable::report() const {
  if (!problem_.empty()) {
    return {fmt::format("{}; defaults are taken for all {} keys", problem_, asked_.size())};
  }
  std::vector<std::string> lines = {
      fmt::format("tuning file {}: {} of {} keys hit", name_, hits(), asked_.size())};
  struct Group {
    TuningShape shape;
    std::string outcome;
    std::vector<std::int64_t> tokens;
  };
  std::vector<Group> groups;
  for (const Asked& asked : asked_) {
    const std::string now = outcome(asked);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.shape == asked.shape && group.outcome == now;
    });
    Group& group = same == groups.end() ? groups.emplace_back(Group{asked.shape, now, {}}) : *same;
    group.tokens.push_back(asked.tokens);
  }
  for (Group& group : groups) {
    lines.push_back(
        fmt::format("{}, {}: {}", to_string(group.shape), list_text(group.tokens), group.outcome));
  }
  return lines;
}

std::string TuningTable::outcome(const Asked& asked) {
  return asked.found.tactic ? to_string(*asked.found.tactic) : asked.found.reason;
}

}  // namespace nibble::tune
