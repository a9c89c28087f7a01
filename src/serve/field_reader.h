// Reads the fields of a request's body and keeps the first fault with the name of its field.
//
//   FieldReader fields(body);
//   const double top_p = fields.number("top_p", {.max = 1, .above = 0.0}).value_or(1);
//   if (const std::optional<Refusal> refusal = fields.refusal()) ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "serve/parameters.h"

namespace nibble::serve {

class FieldReader {
 public:
  // The object must outlive the reader.
  explicit FieldReader(const Json& body) : reader_(body, "request") {}

  std::optional<double> number(std::string_view key, NumberRange range) {
    return noted(key, reader_.number(key, range));
  }
  std::optional<std::int64_t> integer(std::string_view key, NumberRange range) {
    return noted(key, reader_.integer(key, range));
  }
  bool boolean(std::string_view key, bool by_default) {
    return noted(key, reader_.boolean(key)).value_or(by_default);
  }
  std::optional<std::string> string(std::string_view key) {
    return noted(key, reader_.string(key));
  }
  const Json* object(std::string_view key) { return noted(key, reader_.object(key)); }
  const Json* array(std::string_view key) { return noted(key, reader_.array(key)); }
  const Json* any(std::string_view key) { return noted(key, reader_.any(key)); }
  bool has(std::string_view key) const { return reader_.has(key); }

  // A string, or a list of them.
  std::vector<std::string> strings(std::string_view key);
  // Token ids below the vocabulary.
  std::vector<engine::TokenId> token_ids(std::string_view key, std::int64_t vocabulary);

  // Faults of the caller's own: "request: \"n\" is 3; ..."
  void fault_at(std::string_view key, std::string_view what) {
    reader_.fault_at(key, what);
    note(key);
  }
  void fault(std::string_view key, Error error) {
    reader_.fault(std::move(error));
    note(key);
  }

  std::optional<Refusal> refusal() const;
  // Where `model` names another one than is served.
  std::optional<Refusal> other_model(const Bounds& bounds);

 private:
  template <class T>
  T noted(std::string_view key, T value) {
    note(key);
    return value;
  }
  void note(std::string_view key) {
    if (field_.empty() && !reader_.finish_lenient().ok()) field_ = key;
  }

  ObjectReader reader_;
  std::string field_;  // of the first fault
};

// The body of a request, which must be a JSON object.
Checked<Json> read_body(std::string_view body);

// A whole number from 0 to below the vocabulary.
bool is_token_id(const Json& value, std::int64_t vocabulary);

}  // namespace nibble::serve
