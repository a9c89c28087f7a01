#include "tactics/logs/line_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "base/utf8.h"

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

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

// Whether a text begins as `form` does, in which each 'd' is a digit.
bool has_form(std::string_view text, std::string_view form) {
  if (text.size() < form.size()) return false;
  for (std::size_t at = 0; at < form.size(); ++at) {
    const bool same = form[at] == 'd' ? is_digit(text[at]) : text[at] == form[at];
    if (!same) return false;
  }
  return true;
}

constexpr std::string_view kCarriedTime = "dddd-dd-ddTdd:dd:dd";

bool begins_with_time(std::string_view text) {
  constexpr std::array<std::string_view, 6> kForms = {"dddd-dd-dd", "dddd/dd/dd",  "dd-dd dd:dd",
                                                      "dd/dd/dddd", "dd/dd dd:dd", "dd:dd:dd"};
  return std::any_of(kForms.begin(), kForms.end(),
                     [&](std::string_view form) { return has_form(text, form); });
}

bool begins_with_level(std::string_view text) {
  constexpr std::array<std::string_view, 9> kLevels = {
      "INFO", "WARNING", "WARN", "ERROR", "DEBUG", "CRITICAL", "FATAL", "TRACE", "NOTICE"};
  return std::any_of(kLevels.begin(), kLevels.end(), [&](std::string_view level) {
    if (!text.starts_with(level)) return false;
    const std::string_view rest = text.substr(level.size());
    return rest.empty() || rest.front() == ' ' || rest.front() == ':';
  });
}

// glog's and PyTorch's "E1101 06:41:27.123".
bool begins_with_glog(std::string_view text) {
  if (text.empty() || std::string_view("IWEF").find(text.front()) == std::string_view::npos) {
    return false;
  }
  text.remove_prefix(1);
  return has_form(text, "dddd dd:dd") || has_form(text, "ddd dd:dd");
}

// "(Worker_TP0 pid=7)", "(EngineCore_0 pid=7)": the rest behind it; "" where the line begins
// otherwise.
std::string_view behind_worker(std::string_view text) {
  constexpr std::size_t kMostWorker = 80;
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos || end > kMostWorker) return {};
  const std::string_view name = text.substr(1, end - 1);
  const bool worker = name.find("pid=") != std::string_view::npos || name.starts_with("Worker");
  return worker ? text.substr(end + 1) : std::string_view();
}

// Compose's "vllm-1  | ", and journald's "Aug 19 13:18:22 host vllm[7]: ".
std::string_view behind_carrier(std::string_view text) {
  constexpr std::size_t kMostCarrier = 100;
  const std::size_t bar = text.substr(0, kMostCarrier).find("| ");
  const std::size_t space = text.find(' ');
  const bool compose = bar != std::string_view::npos && space != std::string_view::npos &&
                       space > 0 && space < bar && text.find_first_not_of(' ', space) == bar;
  if (compose) return text.substr(bar + 2);
  const std::size_t process = text.substr(0, kMostCarrier).find("]: ");
  const bool journal =
      text.size() > 7 && text[3] == ' ' &&
      (has_form(text.substr(4), "dd dd:dd:dd ") || has_form(text.substr(4), " d dd:dd:dd ")) &&
      process != std::string_view::npos;
  return journal ? text.substr(process + 3) : std::string_view();
}

// What a message begins with, behind what every line of the process has before it.
std::string_view message_of(std::string_view text, bool carried) {
  text = without_spaces(text);
  for (int round = 0; round < kMostGroups; ++round) {
    std::string_view rest = behind_worker(text);
    if (rest.empty()) rest = behind_carrier(text);
    if (rest.empty() && carried && has_form(text, kCarriedTime)) {
      rest = text.substr(std::min(text.size(), text.find(' ')));
    }
    if (rest.empty() && text.starts_with("[rank")) {
      const std::size_t end = text.find("]:");
      if (end != std::string_view::npos) rest = text.substr(end + 2);
    }
    rest = without_spaces(rest);
    if (rest.empty()) break;
    text = rest;
  }
  return text;
}

// "[11/11/2025-06:41:27] [TRT-LLM]", "[RANK 0] [I]", "[W1101 06:41:27.123 file.cpp:1]".
bool begins_with_brackets(std::string_view text) {
  for (int group = 0; group < kMostGroups && text.starts_with('['); ++group) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view inner = text.substr(1, end - 1);
    const bool letter = inner.size() == 1 &&
                        std::string_view("IWEDVF").find(inner.front()) != std::string_view::npos;
    if (letter || begins_with_time(inner) || begins_with_level(inner) || begins_with_glog(inner) ||
        inner == "TRT-LLM" || inner == "TensorRT-LLM") {
      return true;
    }
    if (!inner.starts_with("RANK ")) return false;
    text = without_spaces(text.substr(end + 1));
  }
  return false;
}

}  // namespace

bool has_carried_time(std::string_view line) {
  return has_form(without_spaces(line), kCarriedTime);
}

bool begins_message(std::string_view line, bool carried) {
  const std::string_view text = message_of(line, carried);
  return begins_with_time(text) || begins_with_level(text) || begins_with_glog(text) ||
         begins_with_brackets(text) ||
         text.substr(0, kPrefix).find(" NCCL ") != std::string_view::npos;
}

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

std::string whole_characters(std::string text) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (plain) return text;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = first_sequence(std::string_view(text).substr(at));
    if (!sequence.complete) text.replace(at, sequence.length, sequence.length, '?');
    at += sequence.length;
  }
  return text;
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
  line.text = whole_characters(without_escapes(raw_));
  return true;
}

}  // namespace nibble::logs
