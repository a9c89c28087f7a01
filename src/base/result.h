// Errors as values: Result<T> holds a T or an Error with one sentence for the person at the
// terminal.
//
//   Result<double> parse_ratio(std::string_view text);
//   NIBBLE_ASSIGN_OR_RETURN(const double ratio, parse_ratio(text));
//   if (ratio <= 0) return input_error("ratio in {} is {}; give a number above 0", path, ratio);
#pragma once

#include <fmt/core.h>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace nibble {

// What went wrong, in the terms of the exit status (docs/errors.md).
enum class ErrorKind {
  kUsage,  // the command line: exit status 2
  kInput,  // a file or value that the user gave: exit status 2
  kRun,    // the work itself failed: exit status 1
};

struct Error {
  ErrorKind kind = ErrorKind::kRun;
  std::string message;  // one sentence: what, where, what to do

  // The same error with "where: " put in front of its sentence.
  Error within(std::string_view where) const {
    return {kind, fmt::format("{}: {}", where, message)};
  }
};

template <class... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args>
Error input_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::kInput, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args>
Error run_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::kRun, fmt::format(format, std::forward<Args>(args)...)};
}

template <class T = void>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& {
    NIBBLE_CHECK(ok());
    return std::get<0>(state_);
  }
  T& value() & {
    NIBBLE_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    NIBBLE_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Error& error() const {
    NIBBLE_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    NIBBLE_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace nibble

#define NIBBLE_CONCAT_INNER(a, b) a##b
#define NIBBLE_CONCAT(a, b) NIBBLE_CONCAT_INNER(a, b)

// Declares `lhs` from a Result, or returns the Result's error from the enclosing function.
#define NIBBLE_ASSIGN_OR_RETURN(lhs, ...) \
  NIBBLE_ASSIGN_OR_RETURN_IMPL(NIBBLE_CONCAT(nibble_result_, __LINE__), lhs, __VA_ARGS__)
#define NIBBLE_ASSIGN_OR_RETURN_IMPL(tmp, lhs, ...) \
  auto tmp = (__VA_ARGS__);                         \
  if (!tmp.ok()) return tmp.error();                \
  lhs = std::move(tmp).value()

#define NIBBLE_RETURN_IF_ERROR(...) \
  if (auto nibble_status = (__VA_ARGS__); !nibble_status.ok()) return nibble_status.error()
