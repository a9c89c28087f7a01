// The two archives that read and write a script: each part of it lists its fields once, in a
// function fields_of(archive, part).
//
//   template <class Archive>
//   void fields_of(Archive& archive, SlowStart& part) {
//     archive.integer("requests", part.requests, 0, 1e9);
//   }
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "mock/distribution.h"
#include "mock/script.h"

namespace nibble::mock {

class ScriptReader {
 public:
  static constexpr std::size_t kLongestText = 256;

  ScriptReader(const Json& json, std::string where, std::string file)
      : reader_(json, std::move(where)), file_(std::move(file)) {}

  ObjectReader& reader() { return reader_; }
  void number(const char* key, double& target, NumberRange range) {
    if (const auto value = reader_.number(key, range)) target = *value;
  }
  void number(const char* key, std::optional<double>& target, NumberRange range) {
    if (const auto value = reader_.number(key, range)) target = *value;
  }
  template <class Integer>
  void integer(const char* key, Integer& target, double min, double max) {
    if (const auto value = reader_.integer(key, {.min = min, .max = max})) {
      target = static_cast<Integer>(*value);
    }
  }
  void flag(const char* key, bool& target) {
    if (const auto value = reader_.boolean(key)) target = *value;
  }
  void text(const char* key, std::string& target) {
    const auto value = reader_.string(key);
    if (!value) return;
    const bool plain = value->size() <= kLongestText && printable(*value, kLongestText) == *value;
    if (!plain) reader_.fault_at(key, "is no short line of printable text");
    target = *value;
  }
  template <class Table, class Enum>
  void choice(const char* key, const Table& table, Enum& target) {
    read_choice(reader_, key, table, target);
  }
  void distribution(const char* key, Distribution& target, DistributionRange range) {
    const Json* found = reader_.any(key);
    if (found == nullptr) return;
    auto read = distribution_from_json(*found, place(key), range);
    if (read) {
      target = std::move(*read);
    } else {
      reader_.fault(read.error());
    }
  }
  void numbers(const char* key, std::vector<double>& target, NumberRange range) {
    if (auto values = reader_.numbers(key, range)) target = std::move(*values);
  }
  void integers(const char* key, std::vector<std::int64_t>& target) {
    const auto values = reader_.numbers(key, {.min = 0, .max = 1e15});
    if (!values) return;
    target.clear();
    for (const double value : *values) {
      if (std::floor(value) != value) reader_.fault_at(key, "must hold whole numbers only");
      target.push_back(static_cast<std::int64_t>(value));
    }
  }
  template <class Part>
  void object(const char* key, Part& part) {
    const Json* found = reader_.object(key);
    if (found == nullptr) return;
    ScriptReader inner(*found, place(key), file_);
    fields_of(inner, part);
    if (const Result<> done = inner.reader().finish(); !done) reader_.fault(done.error());
  }
  // A part that may be absent as a whole.
  template <class Part>
  void object(const char* key, std::optional<Part>& part) {
    if (reader_.object(key) == nullptr) return;
    object(key, part.emplace());
  }
  void objects(const char* key, std::vector<Fault>& parts);

 private:
  std::string place(std::string_view key) const {
    return fmt::format("{}{}{}", reader_.where(), reader_.where() == file_ ? ": " : ".", key);
  }

  ObjectReader reader_;
  std::string file_;
};

class ScriptWriter {
 public:
  Json take() { return std::move(json_); }
  void number(const char* key, double value, NumberRange) { json_.set(key, value); }
  void number(const char* key, const std::optional<double>& value, NumberRange) {
    json_.set(key, value);
  }
  template <class Integer>
  void integer(const char* key, Integer value, double, double) {
    json_.set(key, static_cast<std::int64_t>(value));
  }
  void flag(const char* key, bool value) { json_.set(key, value); }
  void text(const char* key, const std::string& value) { json_.set(key, value); }
  template <class Table, class Enum>
  void choice(const char* key, const Table& table, Enum value) {
    json_.set(key, name_of(table, value));
  }
  void distribution(const char* key, const Distribution& value, DistributionRange) {
    json_.set(key, to_json(value));
  }
  void numbers(const char* key, const std::vector<double>& values, NumberRange) {
    json_.set(key, list(values));
  }
  void integers(const char* key, const std::vector<std::int64_t>& values) {
    json_.set(key, list(values));
  }
  template <class Part>
  void object(const char* key, const Part& part) {
    json_.set(key, object_of(part));
  }
  template <class Part>
  void object(const char* key, const std::optional<Part>& part) {
    json_.set(key, part ? object_of(*part) : Json());
  }
  template <class Part>
  void objects(const char* key, const std::vector<Part>& parts) {
    Json all = Json::array();
    for (const Part& part : parts) all.push(object_of(part));
    json_.set(key, std::move(all));
  }

 private:
  template <class Part>
  static Json object_of(const Part& part) {
    ScriptWriter inner;
    Part copy = part;
    fields_of(inner, copy);
    return inner.take();
  }
  template <class Number>
  static Json list(const std::vector<Number>& values) {
    Json all = Json::array();
    for (const Number value : values) all.push(value);
    return all;
  }

  Json json_ = Json::object();
};

}  // namespace nibble::mock
