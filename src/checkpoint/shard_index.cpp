#include "checkpoint/shard_index.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace nibble {
namespace {

bool is_plain_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && !name.starts_with('.') &&
         printable(name, name.size()) == name;
}

std::optional<std::uint64_t> read_total(const Json& document) {
  const Json* metadata = document.find("metadata");
  const Json* total = metadata != nullptr ? metadata->find("total_size") : nullptr;
  if (total == nullptr || !total->is_integer() || total->as_integer() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(total->as_integer());
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json, std::string_view where) {
  NIBBLE_ASSIGN_OR_RETURN(Json document, Json::parse(json, where));
  Json* map = document.find("weight_map");
  if (map == nullptr) {
    return input_error("{}: has no \"weight_map\" with the file of each tensor", where);
  }
  if (!map->is_object()) {
    return input_error("{}: \"weight_map\" must be an object, found {}", where, map->kind_name());
  }
  if (map->as_object().empty()) {
    return input_error("{}: \"weight_map\" is empty; it names the file of each tensor", where);
  }
  std::set<std::string> files;
  const std::string* last = nullptr;  // neighbours mostly share a file
  for (const auto& [tensor, file] : map->as_object()) {
    if (last != nullptr && file.is_string() && file.as_string() == *last) continue;
    if (!file.is_string() || !is_plain_name(file.as_string())) {
      return input_error(
          "{}: weight_map: tensor \"{}\" is in {}; give the plain name of a .safetensors file",
          where, printable(tensor),
          file.is_string() ? "\"" + printable(file.as_string()) + "\"" : file.kind_name());
    }
    last = &*files.insert(file.as_string()).first;
  }
  ShardIndex index;
  index.total_bytes = read_total(document);
  index.files.assign(files.begin(), files.end());
  index.entries.reserve(map->as_object().size());
  for (auto& [tensor, file] : map->as_object()) {
    const auto known = std::lower_bound(index.files.begin(), index.files.end(), file.as_string());
    index.entries.push_back(
        {std::move(tensor), static_cast<std::size_t>(known - index.files.begin())});
  }
  return index;
}

}  // namespace nibble
