#include "tactics/logs/line_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

namespace nibble::logs {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::size_t kPrefix = 240;  // bytes of a line in which its rank is looked for
constexpr int kMostGroups = 6;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// The words of a bracket: split at spaces, commas, underscores and colons.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t from = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const bool ends = at == text.size() || text[at] == ' ' || text[at] == '_' || text[at] == ',' ||
                      text[at] == ':';
    if (!ends) continue;
    if (at > from) words.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  return words;
}

// "TP3": a rank within one kind of parallelism.
bool is_parallel_rank(std::string_view word) {
  constexpr std::array<std::string_view, 6> kKinds = {"TP", "PP", "DP", "EP", "CP", "SP"};
  return std::any_of(kKinds.begin(), kKinds.end(), [&](std::string_view kind) {
    return word.starts_with(kind) && all_digits(word.substr(kind.size()));
  });
}

struct Named {
  std::string rank;
  std::string process;
};

Named name_of(std::string_view bracket) {
  Named named;
  const std::vector<std::string_view> words = words_of(bracket);
  bool worker = false;
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string_view word = words[index];
    if (is_parallel_rank(word)) {
      named.rank += (named.rank.empty() ? "" : " ") + std::string(word);
    } else if (word == "RANK" && index + 1 < words.size() && all_digits(words[index + 1])) {
      named.rank = "rank " + std::string(words[index + 1]);
    } else if (word.starts_with("rank=") && all_digits(word.substr(5))) {
      named.rank = "rank " + std::string(word.substr(5));
    } else if (word.starts_with("rank") && all_digits(word.substr(4))) {
      named.rank = "rank " + std::string(word.substr(4));
    } else if (word.find("Worker") != std::string_view::npos) {
      worker = true;
    } else if (worker && word.starts_with("pid=") && all_digits(word.substr(4))) {
      named.process = "pid " + std::string(word.substr(4));
    }
  }
  return named;
}

}  // namespace

std::string without_escapes(std::string_view text) {
  if (text.find('\x1b') == std::string_view::npos) return std::string(text);
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\x1b') {
      clean += text[at];
      continue;
    }
    if (at + 1 >= text.size()) break;
    ++at;
    if (text[at] == '[') {  // up to its final byte
      ++at;
      while (at < text.size() && (text[at] < '@' || text[at] > '~')) ++at;
    } else if (text[at] == ']') {  // up to BEL, or ESC and a backslash
      while (at < text.size() && text[at] != '\a' && text[at] != '\\') ++at;
    }
  }
  return clean;
}

std::string rank_of(std::string_view line) {
  std::string process;
  int groups = 0;
  const std::string_view prefix = line.substr(0, kPrefix);
  for (std::size_t at = 0; at < prefix.size() && groups < kMostGroups; ++at) {
    const char closing = prefix[at] == '(' ? ')' : prefix[at] == '[' ? ']' : '\0';
    if (closing == '\0') continue;
    const std::size_t end = prefix.find(closing, at + 1);
    if (end == std::string_view::npos) continue;
    const Named named = name_of(prefix.substr(at + 1, end - at - 1));
    if (!named.rank.empty()) return named.rank;
    if (process.empty()) process = named.process;
    ++groups;
    at = end;
  }
  return process;
}

LineSource::LineSource(Read read) : read_(std::move(read)) {
  buffer_.resize(kChunk);
}

bool LineSource::refill() {
  at_ = 0;
  size_ = ended_ ? 0 : read_(std::span<char>(buffer_.data(), buffer_.size()));
  if (size_ == 0) ended_ = true;
  return size_ > 0;
}

bool LineSource::next(LogLine& line) {
  raw_.clear();
  line.number = feeds_ + 1;
  bool found = false;
  while (!found && (at_ < size_ || refill())) {
    const std::string_view rest(buffer_.data() + at_, size_ - at_);
    const std::size_t end = rest.find_first_of("\r\n");
    const std::string_view piece = rest.substr(0, end);
    raw_ += piece.substr(0, kMostLine - std::min(kMostLine, raw_.size()));
    at_ += piece.size();
    if (end == std::string_view::npos) continue;
    found = true;
    if (buffer_[at_] == '\n') ++feeds_;
    ++at_;
  }
  if (!found && raw_.empty()) return false;
  line.text = without_escapes(raw_);
  return true;
}

}  // namespace nibble::logs
