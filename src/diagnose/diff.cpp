#include "diagnose/diff.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/json_parts.h"
#include "base/text.h"
#include "base/units.h"
#include "diagnose/evidence.h"

namespace nibble::diagnose {
namespace {

// What two runs of the same differ by, even where their intervals are narrower.
constexpr double kLeastRateNoise = 0.01;

struct ReadBar {
  std::string id;
  std::string title;
  std::optional<double> ms;
};
struct ReadLevel {
  std::string name;
  std::optional<double> users;
  std::optional<double> measured_ms, rate, noise;
  std::vector<ReadBar> bars;
  std::string cls;
};
struct ReadDiagnosis {
  std::vector<ReadLevel> levels;
  std::string cls;
  std::string deployment;  // "nibble-tiny, AMD EPYC, nibble"
};

// Model, machine and engine of a diagnosis, as far as it names them.
std::string deployment_of(const Json* setting) {
  std::vector<std::string> names;
  for (const char* member : {"model", "machine", "engine"}) {
    const Json* name = setting != nullptr ? setting->find(member) : nullptr;
    if (name != nullptr && name->is_string() && !name->as_string().empty()) {
      names.push_back(name->as_string());
    }
  }
  return join(names, ", ");
}

// The class of the first verdict of a list.
Result<std::string> first_class(const Json* verdicts, const std::string& where) {
  if (verdicts == nullptr || verdicts->as_array().empty()) return std::string();
  ObjectReader reader(verdicts->as_array().front(), where + ".verdicts[0]");
  std::string cls = reader.require_string("class");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return cls;
}

Result<std::vector<ReadBar>> bars_in(const Json* list, const std::string& where) {
  std::vector<ReadBar> bars;
  if (list == nullptr) return bars;
  for (std::size_t index = 0; index < list->as_array().size(); ++index) {
    ObjectReader reader(list->as_array()[index], fmt::format("{}.waterfall[{}]", where, index));
    ReadBar bar{.id = reader.require_string("id"), .title = {}, .ms = {}};
    bar.title = reader.string("title").value_or(bar.id);
    bar.ms = reader.number("ms");
    NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
    bars.push_back(std::move(bar));
  }
  return bars;
}

// {"facts": {"rate_noise": {"value": 0.02}}}.
Result<std::optional<double>> fact_in(const Json* facts, std::string_view name,
                                      const std::string& where) {
  const Json* fact = facts == nullptr ? nullptr : facts->find(name);
  if (fact == nullptr || fact->is_null()) return std::optional<double>();
  ObjectReader reader(*fact, fmt::format("{}.facts.{}", where, name));
  const std::optional<double> value = reader.number("value", {.min = 0});
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  return value;
}

Result<ReadLevel> level_in(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  ReadLevel level;
  level.name = reader.require_string("name");
  level.users = reader.number("users", {.min = 0});
  level.measured_ms = reader.number("measured_ms", {.min = 0});
  level.rate = reader.number("output_rate", {.min = 0});
  const Json* bars = reader.array("waterfall");
  const Json* verdicts = reader.array("verdicts");
  const Json* facts = reader.object("facts");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  NIBBLE_ASSIGN_OR_RETURN(level.bars, bars_in(bars, where));
  NIBBLE_ASSIGN_OR_RETURN(level.cls, first_class(verdicts, where));
  NIBBLE_ASSIGN_OR_RETURN(level.noise, fact_in(facts, info_of(Fact::kRateNoise).name, where));
  return level;
}

Result<ReadDiagnosis> diagnosis_in(const Json& json, const std::string& name) {
  const Json* schema = json.find("schema");
  if (schema == nullptr || *schema != Json("nibble.diagnosis/1")) {
    return input_error("{} is no nibble.diagnosis/1, as nibble diagnose --json writes it", name);
  }
  ObjectReader reader(json, name);
  const Json* levels = reader.array("levels");
  const Json* verdicts = reader.array("verdicts");
  const Json* setting = reader.object("setting");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  ReadDiagnosis found;
  found.deployment = deployment_of(setting);
  NIBBLE_ASSIGN_OR_RETURN(found.cls, first_class(verdicts, name));
  if (levels == nullptr) return found;
  for (std::size_t index = 0; index < levels->as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(ReadLevel level, level_in(levels->as_array()[index],
                                                      fmt::format("{}: levels[{}]", name, index)));
    found.levels.push_back(std::move(level));
  }
  return found;
}

Change change_of(std::optional<double> before, std::optional<double> after) {
  Change change{.before = before, .after = after, .change = {}};
  if (before && after && *before > 0) change.change = *after / *before - 1;
  return change;
}

bool same_load(const ReadLevel& a, const ReadLevel& b) {
  // Levels of open loops have no users, or none that says anything: their names do.
  if (a.users.value_or(0) > 0 && b.users.value_or(0) > 0) return a.users == b.users;
  return a.name == b.name;
}

const ReadBar* bar_in(const std::vector<ReadBar>& bars, const std::string& id) {
  const auto found =
      std::find_if(bars.begin(), bars.end(), [&](const ReadBar& bar) { return bar.id == id; });
  return found == bars.end() ? nullptr : &*found;
}

class Differ {
 public:
  Differ(ReadDiagnosis a, ReadDiagnosis b, std::string name_a, std::string name_b)
      : a_(std::move(a)), b_(std::move(b)) {
    diff_.name_a = std::move(name_a);
    diff_.name_b = std::move(name_b);
  }

  DiagnosisDiff diff() {
    diff_.class_before = a_.cls;
    diff_.class_after = b_.cls;
    for (const ReadLevel& level : a_.levels) {
      const auto other = std::find_if(b_.levels.begin(), b_.levels.end(),
                                      [&](const ReadLevel& one) { return same_load(level, one); });
      diff_.levels.push_back(other == b_.levels.end() ? alone(level, diff_.name_a, true)
                                                      : both(level, *other));
    }
    for (const ReadLevel& level : b_.levels) {
      const bool known = std::any_of(a_.levels.begin(), a_.levels.end(),
                                     [&](const ReadLevel& one) { return same_load(one, level); });
      if (!known) diff_.levels.push_back(alone(level, diff_.name_b, false));
    }
    std::stable_sort(diff_.levels.begin(), diff_.levels.end(), [](const auto& x, const auto& y) {
      return x.users.value_or(HUGE_VAL) < y.users.value_or(HUGE_VAL);
    });
    diff_.sentence = sentence();
    return std::move(diff_);
  }

 private:
  LevelChange both(const ReadLevel& a, const ReadLevel& b) const {
    LevelChange level{.name = a.name,
                      .users = a.users,
                      .measured_ms = change_of(a.measured_ms, b.measured_ms),
                      .rate = change_of(a.rate, b.rate),
                      .noise = 0,
                      .verdict = {},
                      .bars = {},
                      .class_before = a.cls,
                      .class_after = b.cls};
    // Independent runs: their noises add up as squares.
    level.noise = std::max(kLeastRateNoise, std::hypot(a.noise.value_or(0), b.noise.value_or(0)));
    if (!level.rate.change) {
      level.verdict = "no rate to compare";
    } else if (std::abs(*level.rate.change) <= level.noise) {
      level.verdict = "within noise";
    } else {
      level.verdict = *level.rate.change > 0 ? "faster" : "slower";
    }
    for (const ReadBar& bar : a.bars) level.bars.push_back(bar_change(bar, bar_in(b.bars, bar.id)));
    for (const ReadBar& bar : b.bars) {
      if (bar_in(a.bars, bar.id) != nullptr) continue;
      level.bars.push_back({.id = bar.id,
                            .title = bar.title,
                            .ms = change_of({}, bar.ms),
                            .note = "only in " + diff_.name_b});
    }
    return level;
  }

  BarChange bar_change(const ReadBar& a, const ReadBar* b) const {
    BarChange bar{.id = a.id,
                  .title = a.title,
                  .ms = change_of(a.ms, b == nullptr ? std::nullopt : b->ms),
                  .note = {}};
    if (bar.ms.before && !bar.ms.after) bar.note = "only in " + diff_.name_a;
    if (!bar.ms.before && bar.ms.after) bar.note = "only in " + diff_.name_b;
    return bar;
  }

  static LevelChange alone(const ReadLevel& level, const std::string& document, bool before) {
    const std::optional<double> none;
    LevelChange change{.name = level.name,
                       .users = level.users,
                       .measured_ms = before ? change_of(level.measured_ms, none)
                                             : change_of(none, level.measured_ms),
                       .rate = before ? change_of(level.rate, none) : change_of(none, level.rate),
                       .noise = kLeastRateNoise,
                       .verdict = "only in " + document,
                       .bars = {},
                       .class_before = before ? level.cls : std::string(),
                       .class_after = before ? std::string() : level.cls};
    return change;
  }

  std::string sentence() const {
    const std::string& before = a_.deployment;
    const std::string& after = b_.deployment;
    if (before == after || before.empty() || after.empty()) return what_changed();
    return fmt::format("{} The two are different deployments: {}; and {}.", what_changed(), before,
                       after);
  }

  std::string what_changed() const {
    std::size_t faster = 0;
    std::size_t slower = 0;
    std::size_t same = 0;
    const LevelChange* most = nullptr;
    for (const LevelChange& level : diff_.levels) {
      faster += level.verdict == "faster" ? 1 : 0;
      slower += level.verdict == "slower" ? 1 : 0;
      same += level.verdict == "within noise" ? 1 : 0;
      const bool changed = level.verdict == "faster" || level.verdict == "slower";
      if (changed &&
          (most == nullptr || std::abs(*level.rate.change) > std::abs(*most->rate.change))) {
        most = &level;
      }
    }
    if (faster + slower + same == 0) {
      return fmt::format("{} and {} have no level in common that tells its rate.", diff_.name_a,
                         diff_.name_b);
    }
    if (most == nullptr) return fmt::format("All {} levels are within noise.", same);
    return fmt::format(
        "{} faster, {} slower, {} within noise; most at {}: {:+.1f} % (noise {:.1f} %), {} to {} "
        "tok/s.",
        faster, slower, same, most->name, *most->rate.change * 100, most->noise * 100,
        format_number(*most->rate.before, 3), format_number(*most->rate.after, 3));
  }

  ReadDiagnosis a_, b_;
  DiagnosisDiff diff_;
};

Json change_json(const Change& change) {
  return Json::object()
      .set("before", change.before)
      .set("after", change.after)
      .set("change", change.change);
}

}  // namespace

Result<DiagnosisDiff> diff_of(const Json& a, const Json& b, const std::string& name_a,
                              const std::string& name_b) {
  NIBBLE_ASSIGN_OR_RETURN(ReadDiagnosis before, diagnosis_in(a, name_a));
  NIBBLE_ASSIGN_OR_RETURN(ReadDiagnosis after, diagnosis_in(b, name_b));
  return Differ(std::move(before), std::move(after), name_a, name_b).diff();
}

Json to_json(const DiagnosisDiff& diff) {
  Json levels = Json::array();
  for (const LevelChange& level : diff.levels) {
    Json bars = Json::array();
    for (const BarChange& bar : level.bars) {
      bars.push(Json::object()
                    .set("id", bar.id)
                    .set("title", bar.title)
                    .set("ms", change_json(bar.ms))
                    .set("note", text_or_null(bar.note)));
    }
    levels.push(Json::object()
                    .set("name", level.name)
                    .set("users", level.users)
                    .set("measured_ms", change_json(level.measured_ms))
                    .set("output_rate", change_json(level.rate))
                    .set("noise", level.noise)
                    .set("verdict", level.verdict)
                    .set("waterfall", std::move(bars))
                    .set("class_before", text_or_null(level.class_before))
                    .set("class_after", text_or_null(level.class_after)));
  }
  return Json::object()
      .set("schema", "nibble.diagnosis_diff/1")
      .set("a", diff.name_a)
      .set("b", diff.name_b)
      .set("sentence", diff.sentence)
      .set("class_before", text_or_null(diff.class_before))
      .set("class_after", text_or_null(diff.class_after))
      .set("levels", std::move(levels));
}

Json diff_diagnoses(const Json& a, const Json& b) {
  const Result<DiagnosisDiff> diff = diff_of(a, b);
  if (!diff) return Json::object().set("error", diff.error().message);
  return to_json(*diff);
}

}  // namespace nibble::diagnose
