#include "trace/mapping.h"

#include <algorithm>
#include <span>

#include "base/embedded.h"
#include "base/file.h"
#include "base/names.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> trace_ops();
}

namespace nibble::trace {
namespace {

constexpr std::size_t kMostMappingBytes = 4U << 20U;
constexpr std::size_t kMostMatchedBytes = 2048;  // CUTLASS tells what it is in its first templates

constexpr Named<StepKind> kStepKinds[] = {
    {"decode", StepKind::kDecode}, {"prefill", StepKind::kPrefill}, {"any", StepKind::kAny}};

std::string place(const ObjectReader& reader, std::string_view key, std::size_t index) {
  return fmt::format("{}.{}[{}]", reader.where(), key, index);
}

std::vector<std::string> string_list(ObjectReader& reader, std::string_view key) {
  std::vector<std::string> list;
  const Json* items = reader.array(key);
  if (items == nullptr) return list;
  for (const Json& item : items->as_array()) {
    if (!item.is_string() || item.as_string().empty()) {
      reader.fault_at(key, "must hold texts that are not empty");
      return {};
    }
    list.push_back(item.as_string());
  }
  return list;
}

Result<NamePattern> pattern_of(ObjectReader& reader) {
  const std::string text = reader.require_string("pattern");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  Result<NamePattern> pattern = NamePattern::compile(text);
  if (!pattern) return pattern.error().within(reader.where());
  return pattern;
}

Result<KernelRule> parse_rule(const Json& json, std::string where) {
  ObjectReader reader(json, std::move(where));
  NIBBLE_ASSIGN_OR_RETURN(NamePattern pattern, pattern_of(reader));
  KernelRule rule{.pattern = std::move(pattern)};
  rule.op = reader.require_string("op");
  rule.then = reader.string("then").value_or("");
  rule.otherwise = reader.string("otherwise").value_or("");
  rule.example = reader.string("example").value_or("");
  rule.note = reader.string("note").value_or("");
  rule.once = reader.boolean("once").value_or(false);
  if (rule.op.empty()) reader.fault_at("op", "must not be empty");
  if (rule.then.empty() != rule.otherwise.empty())
    reader.fault_at("then", "and \"otherwise\" come together");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return rule;
}

Result<StepFamily> parse_family(const Json& json, std::string where) {
  ObjectReader reader(json, std::move(where));
  StepFamily family{.name = reader.require_string("family"),
                    .engine = reader.string("engine").value_or("")};
  const Json* rules = reader.array("rules");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  for (std::size_t index = 0; rules != nullptr && index < rules->as_array().size(); ++index) {
    ObjectReader rule(rules->as_array()[index], place(reader, "rules", index));
    NIBBLE_ASSIGN_OR_RETURN(NamePattern pattern, pattern_of(rule));
    StepKind kind = StepKind::kAny;
    read_choice(rule, "kind", kStepKinds, kind);
    NIBBLE_RETURN_IF_ERROR(rule.finish());
    family.rules.emplace_back(std::move(pattern), kind);
  }
  return family;
}

Result<EngineMark> parse_engine(const Json& json, std::string where) {
  ObjectReader reader(json, std::move(where));
  EngineMark mark{.engine = reader.require_string("engine"), .texts = string_list(reader, "texts")};
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return mark;
}

// The items of the array `key`, each by `parse_item`.
template <class Item>
Result<std::vector<Item>> parse_items(ObjectReader& reader, std::string_view key,
                                      Result<Item> (*parse_item)(const Json&, std::string)) {
  std::vector<Item> items;
  const Json* array = reader.array(key);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  for (std::size_t index = 0; array != nullptr && index < array->as_array().size(); ++index) {
    NIBBLE_ASSIGN_OR_RETURN(Item item,
                            parse_item(array->as_array()[index], place(reader, key, index)));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

Result<NamePattern> NamePattern::compile(std::string_view pattern) {
  if (pattern.empty()) return input_error("the pattern is empty");
  // Compiled alone first, so that a fault is told of the pattern as it was written.
  NIBBLE_RETURN_IF_ERROR([&]() -> Result<> {
    const Result<Regex> alone = Regex::compile(pattern);
    if (!alone) return alone.error();
    return {};
  }());
  NIBBLE_ASSIGN_OR_RETURN(Regex anywhere, Regex::compile(fmt::format("(?s:.*?)(?:{})", pattern)));
  return NamePattern(std::move(anywhere));
}

bool NamePattern::found_in(std::string_view name) const {
  return regex_.matches_start(name.substr(0, kMostMatchedBytes));
}

Result<Mapping> Mapping::load(const std::filesystem::path& path) {
  std::string text;
  std::string where = "data/trace_ops.json";
  if (path.empty()) {
    text = embedded::trace_ops().front().text;
  } else {
    where = path.string();
    NIBBLE_ASSIGN_OR_RETURN(text, read_file(path, kMostMappingBytes));
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, where));
  return parse(json, where);
}

Result<Mapping> Mapping::parse(const Json& json, const std::string& where) {
  if (!json.is_object())
    return input_error("{} is {}; it must be an object with \"rules\"", where, json.kind_name());
  ObjectReader reader(json, where);
  const std::string schema = reader.require_string("schema");
  if (schema != "nibble.trace_ops/1") reader.fault_at("schema", "must be \"nibble.trace_ops/1\"");
  Mapping mapping;
  NIBBLE_ASSIGN_OR_RETURN(mapping.rules_, parse_items(reader, "rules", parse_rule));
  NIBBLE_ASSIGN_OR_RETURN(mapping.families_, parse_items(reader, "steps", parse_family));
  NIBBLE_ASSIGN_OR_RETURN(mapping.engines_, parse_items(reader, "engines", parse_engine));
  if (mapping.rules_.empty()) reader.fault_at("rules", "must hold at least one rule");
  if (const Json* rows = reader.object("rows")) {
    ObjectReader row_reader(*rows, where + ".rows");
    for (const Json::Member& row : rows->as_object())
      mapping.rows_[row.first] = string_list(row_reader, row.first);
    NIBBLE_RETURN_IF_ERROR(row_reader.finish());
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return mapping;
}

const KernelRule* Mapping::kernel(std::string_view name) const {
  const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const KernelRule& candidate) {
    return candidate.pattern.found_in(name);
  });
  return rule == rules_.end() ? nullptr : &*rule;
}

StepMatch Mapping::step(std::string_view name) const {
  for (std::size_t index = 0; index < families_.size(); ++index) {
    for (const auto& [pattern, kind] : families_[index].rules) {
      if (pattern.found_in(name)) return {static_cast<int>(index), kind};
    }
  }
  return {};
}

std::vector<std::string> Mapping::covers(const std::string& op) const {
  if (op == kUnmapped) return {};
  const auto row = rows_.find(op);
  return row == rows_.end() ? std::vector<std::string>{op} : row->second;
}

bool Mapping::gave_up() const {
  const auto rule_gave_up = [](const KernelRule& rule) { return rule.pattern.gave_up(); };
  const auto family_gave_up = [](const StepFamily& family) {
    return std::any_of(family.rules.begin(), family.rules.end(),
                       [](const auto& rule) { return rule.first.gave_up(); });
  };
  return std::any_of(rules_.begin(), rules_.end(), rule_gave_up) ||
         std::any_of(families_.begin(), families_.end(), family_gave_up);
}

}  // namespace nibble::trace
