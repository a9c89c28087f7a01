// The model and the added_tokens of a tokenizer.json.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "text/tokenizer_file.h"

namespace nibble::text {
namespace {

// Ids index tables: one far beyond the number of tokens would ask for memory and not for a token.
constexpr std::int64_t kMostUnusedIds = 1'000'000;
constexpr std::size_t kMaxAddedBytes = 1024;  // of one added token; keeps the search linear

Result<> read_vocabulary(const Json& vocabulary, const std::string& where, BpeDescription& model) {
  const Json::Object& members = vocabulary.as_object();
  const std::int64_t limit = static_cast<std::int64_t>(members.size()) + kMostUnusedIds;
  std::vector<bool> taken;
  model.vocabulary.reserve(members.size());
  for (const auto& [token, id] : members) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() >= limit) {
      return input_error(
          "{}.vocab: token \"{}\" has {}; ids are whole numbers from 0 to at most {} beyond the "
          "number of tokens",
          where, printable(token),
          id.is_integer() ? fmt::format("id {}", id.as_integer()) : id.kind_name(), kMostUnusedIds);
    }
    const auto index = static_cast<std::size_t>(id.as_integer());
    if (index >= taken.size()) taken.resize(std::max(index + 1, 2 * taken.size()));
    if (taken[index]) {
      return input_error("{}.vocab: token \"{}\" has id {}, which another token has too", where,
                         printable(token), index);
    }
    taken[index] = true;
    model.vocabulary.emplace_back(token, static_cast<TokenId>(index));
  }
  return {};
}

// "a b", or ["a", "b"] where every merge is a pair; a first line "#version: 0.2" of the older form.
Result<> read_merges(const Json& merges, const std::string& where, BpeDescription& model) {
  const Json::Array& items = merges.as_array();
  const bool pairs = !items.empty() && items.front().is_array();
  model.merges.reserve(items.size());
  for (std::size_t index = 0; index < items.size(); ++index) {
    const Json& item = items[index];
    const auto fail = [&] {
      return input_error("{}.merges[{}] must be {}, as the first merge is", where, index,
                         pairs ? "a list of two strings" : "a string of two tokens and a space");
    };
    if (pairs) {
      if (!item.is_array() || item.as_array().size() != 2) return fail();
      const Json& left = item.as_array()[0];
      const Json& right = item.as_array()[1];
      if (!left.is_string() || !right.is_string()) return fail();
      model.merges.emplace_back(left.as_string(), right.as_string());
      continue;
    }
    if (!item.is_string()) return fail();
    const std::string& line = item.as_string();
    if (line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) return fail();
    model.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return {};
}

// The id that Hugging Face's tokenizers gives, whatever the file says: that of the vocabulary, or
// the next one behind it.
class AddedIds {
 public:
  explicit AddedIds(const BpeDescription& model) : next_(model.vocabulary.size()) {
    for (const auto& [token, id] : model.vocabulary) {
      known_.emplace(token, id);
      ids_.insert(id);
    }
  }
  TokenId of(const std::string& content) {
    const auto known = known_.find(content);
    if (known != known_.end()) {
      next_ = std::max(next_, static_cast<std::size_t>(known->second) + 1);
      return known->second;
    }
    return static_cast<TokenId>(next_++);
  }
  bool is_of_vocabulary(const std::string& content) const { return known_.count(content) > 0; }
  bool is_taken(TokenId id) const { return ids_.count(id) > 0; }

 private:
  std::size_t next_;
  std::unordered_map<std::string, TokenId> known_;
  std::set<TokenId> ids_;
};

Result<AddedToken> read_added_token(const Json& item, const std::string& where) {
  ObjectReader reader(item, where);
  AddedToken token;
  token.content = reader.require_string("content");
  constexpr double kMostId = 2147483647;
  token.id = static_cast<TokenId>(reader.require_integer("id", {.min = 0, .max = kMostId}));
  token.single_word = reader.boolean("single_word").value_or(false);
  token.lstrip = reader.boolean("lstrip").value_or(false);
  token.rstrip = reader.boolean("rstrip").value_or(false);
  token.special = reader.boolean("special").value_or(false);
  token.normalized = reader.boolean("normalized").value_or(!token.special);
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  if (token.content.empty() || token.content.size() > kMaxAddedBytes) {
    return input_error("{}: \"content\" has {} bytes; it must have 1 to {}", where,
                       token.content.size(), kMaxAddedBytes);
  }
  return token;
}

}  // namespace

Result<BpeDescription> read_model(const Json& model, const std::string& where) {
  ObjectReader reader(model, where);
  const std::string type = reader.string("type").value_or("BPE");
  if (type != "BPE") {
    return input_error("{}.type is \"{}\"; only BPE over bytes is supported", where,
                       printable(type));
  }
  BpeDescription description;
  if (reader.number("dropout").value_or(0) != 0) {
    reader.fault_at("dropout", "is set: merging by chance is not supported");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!reader.string(affix).value_or("").empty()) {
      reader.fault_at(affix, "is set: only byte-level BPE, which has none, is supported");
    }
  }
  description.unknown_token = reader.string("unk_token").value_or("");
  description.fuse_unknown = reader.boolean("fuse_unk").value_or(false);
  description.byte_fallback = reader.boolean("byte_fallback").value_or(false);
  description.ignore_merges = reader.boolean("ignore_merges").value_or(false);
  const Json* vocabulary = reader.object("vocab");
  if (vocabulary == nullptr) reader.fault_at("vocab", "is missing: it names the id of each token");
  const Json* merges = reader.array("merges");
  if (merges == nullptr) reader.fault_at("merges", "is missing: it lists what merges, best first");
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  NIBBLE_RETURN_IF_ERROR(read_vocabulary(*vocabulary, where, description));
  NIBBLE_RETURN_IF_ERROR(read_merges(*merges, where, description));
  return description;
}

Result<std::vector<AddedToken>> read_added_tokens(const Json& tokens, const BpeDescription& model,
                                                  const std::string& where) {
  std::vector<AddedToken> added;
  if (tokens.as_array().empty()) return added;
  AddedIds ids(model);
  std::set<std::string> contents;
  for (const Json& item : tokens.as_array()) {
    const std::string place = fmt::format("{}[{}]", where, added.size());
    NIBBLE_ASSIGN_OR_RETURN(AddedToken token, read_added_token(item, place));
    const std::string shown = printable(token.content);
    if (!contents.insert(token.content).second) {
      return input_error("{}: \"{}\" is added twice", place, shown);
    }
    const TokenId expected = ids.of(token.content);
    if (token.id != expected) {
      return input_error(
          "{}: \"{}\" has id {}, but Hugging Face's tokenizers gives it {} (its place in the "
          "vocabulary, or the next one behind it); write that id",
          place, shown, token.id, expected);
    }
    if (!ids.is_of_vocabulary(token.content) && ids.is_taken(token.id)) {
      return input_error("{}: \"{}\" has id {}, which a token of the vocabulary has too", place,
                         shown, token.id);
    }
    added.push_back(std::move(token));
  }
  return added;
}

}  // namespace nibble::text
