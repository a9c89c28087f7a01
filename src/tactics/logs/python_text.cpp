#include "tactics/logs/python_text.h"

#include <charconv>

#include "base/text.h"

namespace nibble::logs {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::optional<std::string_view> between(std::string_view text, std::string_view from,
                                        std::string_view to) {
  const std::size_t found = text.find(from);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(found + from.size());
  return to.empty() ? rest : rest.substr(0, rest.find(to));
}

std::vector<std::string_view> tuple_items(std::string_view text) {
  text = trim(text);
  if (text.empty() || (text.front() != '(' && text.front() != '[')) return {};
  std::vector<std::string_view> items;
  std::size_t from = 1;
  int depth = 0;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == '\\') ++at;
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '\'' || c == '"') quote = c;
    const bool closes = c == ')' || c == ']';
    if (depth == 1 && (closes || c == ',')) {
      const std::string_view item = trim(text.substr(from, at - from));
      if (!item.empty()) items.push_back(item);
      from = at + 1;
    }
    if (c == '(' || c == '[') ++depth;
    if (closes && --depth == 0) return items;
  }
  return {};  // it never closes
}

std::string_view unquoted(std::string_view text) {
  text = trim(text);
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string class_of_object(std::string_view text) {
  text = trim(text);
  if (text.starts_with('<')) text.remove_prefix(1);
  text = text.substr(0, text.find(" object at 0x"));
  if (text.ends_with('>')) text.remove_suffix(1);
  const std::size_t dot = text.rfind('.');
  return std::string(trim(dot == std::string_view::npos ? text : text.substr(dot + 1)));
}

RunnerAndTactic split_runner(std::string_view text) {
  text = trim(text);
  const std::size_t object = text.find(" object at 0x");
  std::size_t end = std::string_view::npos;
  if (object != std::string_view::npos) {
    end = text.find('>', object);
    if (end != std::string_view::npos) ++end;
  } else if (text.starts_with('<')) {
    end = text.find("> ");
    if (end != std::string_view::npos) ++end;
  }
  if (end == std::string_view::npos) end = text.find(' ');
  if (end == std::string_view::npos) return {class_of_object(text), ""};
  return {class_of_object(text.substr(0, end)), std::string(trim(text.substr(end)))};
}

std::string plain_shape(std::string_view text) {
  std::string plain(trim(text));
  const bool sizes = plain.find("torch.Size([") != std::string::npos;
  if (!sizes) return plain;
  replace_all(plain, "torch.Size([", "(");
  replace_all(plain, "])", ")");
  if (plain.starts_with('[')) plain.front() = '(';
  if (plain.ends_with(']')) plain.back() = ')';
  return plain;
}

std::optional<std::int64_t> first_number(std::string_view text) {
  const std::size_t at = text.find_first_of("0123456789");
  if (at == std::string_view::npos || (at > 0 && text[at - 1] == '-')) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (fault != std::errc()) return std::nullopt;
  return number;
}

std::optional<double> milliseconds_of(std::string_view text) {
  constexpr double kMostMilliseconds = 1e12;
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Also false for "inf" and "nan", which from_chars takes.
  const bool finite = fault == std::errc() && value >= 0 && value < kMostMilliseconds;
  return finite ? std::optional(value) : std::nullopt;
}

}  // namespace nibble::logs
