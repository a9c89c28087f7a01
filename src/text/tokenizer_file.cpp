#include "text/tokenizer_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"

namespace nibble::text {
namespace {

// "BPE", "ByteLevel" and so on of an object that says of what kind it is.
std::string type_of(const Json& json) {
  const Json* type = json.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

Error refuse_type(const std::string& where, const Json& json, std::string_view supported) {
  const std::string type = type_of(json);
  return input_error("{} is {}; supported: {}", where,
                     type.empty() ? std::string(json.kind_name()) + " without a \"type\""
                                  : "\"" + printable(type) + "\"",
                     supported);
}

// Reads the list `key` of a Sequence and hands each item with its place to `use`.
template <class Use>
Result<> read_sequence(const Json& json, const std::string& where, std::string_view key, Use use) {
  ObjectReader reader(json, where);
  reader.accept("type");
  const Json* items = reader.array(key);
  if (items == nullptr) reader.fault_at(key, "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  for (std::size_t index = 0; index < items->as_array().size(); ++index) {
    const std::string place = fmt::format("{}.{}[{}]", where, key, index);
    NIBBLE_RETURN_IF_ERROR(use(items->as_array()[index], place));
  }
  return {};
}

Result<> read_normalizer(const Json& json, const std::string& where, TokenizerFile& file) {
  const std::string type = type_of(json);
  if (type == "NFC") {
    ObjectReader reader(json, where);
    reader.accept("type");
    file.normalize_nfc = true;
    return reader.finish();
  }
  if (type != "Sequence") return refuse_type(where, json, "NFC, Sequence, null");
  return read_sequence(json, where, "normalizers", [&](const Json& item, const std::string& place) {
    return read_normalizer(item, place, file);
  });
}

struct ByteLevel {
  bool add_prefix_space = false;
  bool use_regex = false;
};

Result<ByteLevel> read_byte_level(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  reader.accept("type");
  const std::optional<bool> prefix = reader.boolean("add_prefix_space");
  if (!prefix) reader.fault_at("add_prefix_space", "is missing");
  static_cast<void>(reader.boolean("trim_offsets"));  // about offsets, which nobody asks for here
  const bool use_regex = reader.boolean("use_regex").value_or(true);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  return ByteLevel{*prefix, use_regex};
}

std::optional<SplitBehavior> behavior_of(std::string_view name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return std::nullopt;
}

// {"Regex": "..."}, or {"String": "..."} whose characters stand for themselves.
Result<std::string> read_pattern(const Json& json, const std::string& where) {
  ObjectReader reader(json, where);
  const std::optional<std::string> regex = reader.string("Regex");
  const std::optional<std::string> text = reader.string("String");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if (regex.has_value() == text.has_value() || (text && text->empty())) {
    return input_error("{} must hold either \"Regex\" or \"String\", which is not empty", where);
  }
  if (regex) return *regex;
  std::string escaped;
  for (const char character : *text) {
    const bool syntax = std::string_view("\\^$.|?*+()[]{}").find(character) != std::string::npos;
    if (syntax) escaped += '\\';
    escaped += character;
  }
  return escaped;
}

Result<> read_split(const Json& json, const std::string& where, TokenizerFile& file) {
  ObjectReader reader(json, where);
  reader.accept("type");
  const Json* pattern = reader.object("pattern");
  if (pattern == nullptr) reader.fault_at("pattern", "is missing");
  const std::string name = reader.require_string("behavior");
  const std::optional<SplitBehavior> behavior = behavior_of(name);
  if (!behavior) {
    reader.fault_at("behavior", fmt::format("is \"{}\", which is not known", printable(name)));
  }
  const bool invert = reader.boolean("invert").value_or(false);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_pattern(*pattern, where + ".pattern"));
  const Result<SplitRule> rule = SplitRule::make(text, *behavior, invert);
  if (!rule.ok()) return rule.error().within(where);
  file.splits.push_back(*rule);
  return {};
}

Result<> read_digits(const Json& json, const std::string& where, TokenizerFile& file) {
  ObjectReader reader(json, where);
  reader.accept("type");
  const bool individual = reader.boolean("individual_digits").value_or(false);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  const SplitBehavior behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  NIBBLE_ASSIGN_OR_RETURN(SplitRule rule, SplitRule::make("\\p{N}", behavior, false));
  file.splits.push_back(std::move(rule));
  return {};
}

// `done` says that ByteLevel has been read, which turns text into the alphabet of bytes: nothing
// may follow it.
Result<> read_pre_tokenizer_item(const Json& json, const std::string& where, TokenizerFile& file,
                                 bool& done) {
  if (done) {
    return input_error("{} comes behind ByteLevel, which is supported as the last step only",
                       where);
  }
  const std::string type = type_of(json);
  if (type == "Split") return read_split(json, where, file);
  if (type == "Digits") return read_digits(json, where, file);
  if (type == "Sequence") {
    return read_sequence(json, where, "pretokenizers",
                         [&](const Json& item, const std::string& place) {
                           return read_pre_tokenizer_item(item, place, file, done);
                         });
  }
  if (type != "ByteLevel") return refuse_type(where, json, "ByteLevel, Split, Digits, Sequence");
  NIBBLE_ASSIGN_OR_RETURN(const ByteLevel byte_level, read_byte_level(json, where));
  file.add_prefix_space = byte_level.add_prefix_space;
  file.use_regex = byte_level.use_regex;
  done = true;
  return {};
}

// The ids of each special token that a template may name.
using SpecialIds = std::vector<std::pair<std::string, std::vector<TokenId>>>;

Result<SpecialIds> read_special_ids(const Json& json, const std::string& where) {
  SpecialIds special;
  for (const auto& [name, value] : json.as_object()) {
    ObjectReader reader(value, fmt::format("{}.\"{}\"", where, printable(name)));
    reader.accept("id");
    reader.accept("tokens");
    constexpr double kMostId = 2147483647;
    const std::optional<std::vector<double>> ids =
        reader.numbers("ids", {.min = 0, .max = kMostId});
    if (!ids) reader.fault_at("ids", "is missing");
    NIBBLE_RETURN_IF_ERROR(reader.finish());
    special.emplace_back(name, std::vector<TokenId>());
    for (const double id : *ids) {
      special.back().second.push_back(static_cast<TokenId>(id));
      if (special.back().second.back() == id) continue;
      return input_error("{}: \"ids\" holds {}; ids are whole numbers", reader.where(), id);
    }
  }
  return special;
}

// What goes around a text.
struct Template {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
};

Result<Template> read_single(const Json& single, const SpecialIds& special,
                             const std::string& where) {
  Template around;
  bool seen_text = false;
  for (const Json& item : single.as_array()) {
    const Json* sequence = item.find("Sequence");
    const Json* piece = sequence != nullptr ? sequence : item.find("SpecialToken");
    const Json* id = piece != nullptr ? piece->find("id") : nullptr;
    if (id == nullptr || !id->is_string()) {
      return input_error("{} must hold \"Sequence\" and \"SpecialToken\" with their \"id\"", where);
    }
    if (sequence != nullptr) {
      if (id->as_string() != "A" || seen_text) {
        return input_error("{} must hold the sequence A once, and no other", where);
      }
      seen_text = true;
      continue;
    }
    const auto found = std::find_if(special.begin(), special.end(), [&](const auto& known) {
      return known.first == id->as_string();
    });
    if (found == special.end()) {
      return input_error("{} names \"{}\", which special_tokens does not hold", where,
                         printable(id->as_string()));
    }
    std::vector<TokenId>& side = seen_text ? around.behind : around.before;
    side.insert(side.end(), found->second.begin(), found->second.end());
  }
  if (!seen_text) return input_error("{} must hold the sequence A once", where);
  return around;
}

Result<> read_template(const Json& json, const std::string& where, TokenizerFile& file) {
  ObjectReader reader(json, where);
  reader.accept("type");
  reader.accept("pair");  // for two texts at once
  const Json* single = reader.array("single");
  if (single == nullptr) reader.fault_at("single", "is missing");
  const Json* map = reader.object("special_tokens");
  if (map == nullptr) reader.fault_at("special_tokens", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  NIBBLE_ASSIGN_OR_RETURN(const SpecialIds special,
                          read_special_ids(*map, where + ".special_tokens"));
  NIBBLE_ASSIGN_OR_RETURN(const Template around, read_single(*single, special, where + ".single"));
  // A later template goes around an earlier one.
  file.before.insert(file.before.begin(), around.before.begin(), around.before.end());
  file.behind.insert(file.behind.end(), around.behind.begin(), around.behind.end());
  return {};
}

Result<> read_decoder(const Json* json, const std::string& where) {
  if (json == nullptr) {
    return input_error("{} is missing; only ByteLevel is supported", where);
  }
  if (type_of(*json) != "ByteLevel") return refuse_type(where, *json, "ByteLevel");
  // Its flags change nothing when decoding.
  const Result<ByteLevel> fields = read_byte_level(*json, where);
  return fields.ok() ? Result<>() : fields.error();
}

// Padding to the longest of a batch changes nothing for one text.
Result<> read_padding(const Json& json, const std::string& where) {
  const Json* strategy = json.find("strategy");
  const Json* multiple = json.find("pad_to_multiple_of");
  const bool harmless = strategy != nullptr && strategy->is_string() &&
                        strategy->as_string() == "BatchLongest" &&
                        (multiple == nullptr || multiple->is_null());
  if (harmless) return {};
  return input_error("{} to a fixed length is not supported; set it to null", where);
}

Result<> read_steps(ObjectReader& reader, const std::string& where, TokenizerFile& file) {
  const auto place = [&](std::string_view field) { return fmt::format("{}: {}", where, field); };
  if (const Json* json = reader.any("padding")) {
    NIBBLE_RETURN_IF_ERROR(read_padding(*json, place("padding")));
  }
  if (const Json* json = reader.any("normalizer")) {
    NIBBLE_RETURN_IF_ERROR(read_normalizer(*json, place("normalizer"), file));
  }
  const Json* pre_tokenizer = reader.any("pre_tokenizer");
  if (pre_tokenizer == nullptr) {
    return input_error(
        "{}: \"pre_tokenizer\" is missing; only BPE over bytes, which has ByteLevel "
        "there, is supported",
        where);
  }
  NIBBLE_RETURN_IF_ERROR(read_pre_tokenizer(*pre_tokenizer, place("pre_tokenizer"), file));
  if (const Json* json = reader.any("post_processor")) {
    NIBBLE_RETURN_IF_ERROR(read_post_processor(*json, place("post_processor"), file));
  }
  return read_decoder(reader.any("decoder"), place("decoder"));
}

}  // namespace

Result<> read_pre_tokenizer(const Json& pre_tokenizer, const std::string& where,
                            TokenizerFile& file) {
  bool done = false;
  NIBBLE_RETURN_IF_ERROR(read_pre_tokenizer_item(pre_tokenizer, where, file, done));
  if (done) return {};
  return input_error("{} has no ByteLevel; only BPE over bytes is supported", where);
}

Result<> read_post_processor(const Json& processor, const std::string& where, TokenizerFile& file) {
  const std::string type = type_of(processor);
  if (type == "ByteLevel") {
    const Result<ByteLevel> fields = read_byte_level(processor, where);  // about offsets only
    return fields.ok() ? Result<>() : fields.error();
  }
  if (type == "TemplateProcessing") return read_template(processor, where, file);
  if (type != "Sequence") {
    return refuse_type(where, processor, "ByteLevel, TemplateProcessing, Sequence, null");
  }
  return read_sequence(processor, where, "processors",
                       [&](const Json& item, const std::string& place) {
                         return read_post_processor(item, place, file);
                       });
}

Result<TokenizerFile> read_tokenizer_file(std::string_view json, std::string_view where) {
  NIBBLE_ASSIGN_OR_RETURN(const Json document, Json::parse(json, where));
  const std::string name(where);
  ObjectReader reader(document, name);
  const std::string version = reader.string("version").value_or("1.0");
  if (version != "1.0") reader.fault_at("version", "is not \"1.0\", the only one known");
  if (reader.any("truncation") != nullptr) {
    reader.fault_at("truncation", "is set: cutting texts is not supported; set it to null");
  }
  const Json* model = reader.object("model");
  if (model == nullptr) reader.fault_at("model", "is missing");
  const Json* added = reader.array("added_tokens");
  for (const char* step : {"padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    reader.accept(step);
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  TokenizerFile file;
  NIBBLE_RETURN_IF_ERROR(read_steps(reader, name, file));
  NIBBLE_ASSIGN_OR_RETURN(file.model, read_model(*model, name + ": model"));
  if (added != nullptr) {
    NIBBLE_ASSIGN_OR_RETURN(file.added,
                            read_added_tokens(*added, file.model, name + ": added_tokens"));
  }
  return file;
}

}  // namespace nibble::text
