#include "serve/field_reader.h"

#include <cmath>

#include "base/text.h"

namespace nibble::serve {

Checked<Json> read_body(std::string_view body) {
  Result<Json> json = Json::parse(body, "request");
  if (!json) return Refusal{.message = json.error().message};
  if (json->is_object()) return std::move(*json);
  return Refusal{.message = fmt::format("request: the body is {}; it must be a JSON object",
                                        json->kind_name())};
}

bool is_token_id(const Json& value, std::int64_t vocabulary) {
  if (!value.is_number()) return false;
  const double id = value.as_number();
  return id >= 0 && id < static_cast<double>(vocabulary) && std::floor(id) == id;
}

std::vector<std::string> FieldReader::strings(std::string_view key) {
  const Json* given = any(key);
  std::vector<std::string> found;
  if (given == nullptr) return found;
  if (given->is_string()) {
    found.push_back(given->as_string());
  } else if (given->is_array()) {
    for (const Json& item : given->as_array()) {
      if (!item.is_string()) {
        fault_at(key, "must hold strings only");
        return {};
      }
      found.push_back(item.as_string());
    }
  } else {
    fault_at(key, "must be a string or a list of strings");
  }
  return found;
}

std::vector<engine::TokenId> FieldReader::token_ids(std::string_view key, std::int64_t vocabulary) {
  const Json* given = array(key);
  std::vector<engine::TokenId> found;
  if (given == nullptr) return found;
  for (const Json& item : given->as_array()) {
    if (!is_token_id(item, vocabulary)) {
      fault_at(key, fmt::format("holds {}, which is no token id below {}",
                                item.is_number() ? item.dump(0) : std::string(item.kind_name()),
                                vocabulary));
      return {};
    }
    found.push_back(static_cast<engine::TokenId>(item.as_number()));
  }
  return found;
}

std::optional<Refusal> FieldReader::other_model(const Bounds& bounds) {
  const std::optional<std::string> model = string("model");
  if (!model || *model == bounds.model) return std::nullopt;
  return Refusal{404,
                 fmt::format("the model \"{}\" does not exist; this server has \"{}\"",
                             printable(*model), bounds.model),
                 "model"};
}

std::optional<Refusal> FieldReader::refusal() const {
  const Result<> state = reader_.finish_lenient();
  if (state.ok()) return std::nullopt;
  return Refusal{.message = state.error().message, .param = field_};
}

}  // namespace nibble::serve
