#include "model/regex.h"

#include <bit>
#include <optional>
#include <utility>

namespace nibble {
namespace {

using Bytes = std::bitset<257>;  // characters, and the end of the text
constexpr std::size_t kEndOfText = 256;

// One step of the pattern's program. Jumps are relative, so that code can be copied.
struct Step {
  enum class Op { kClass, kSplit, kJump, kStart, kMatch } op = Op::kMatch;
  std::int32_t first = 0;   // kSplit, kJump
  std::int32_t second = 0;  // kSplit
  Bytes accepts = {};       // kClass
};
using Code = std::vector<Step>;

// A pattern that needs more steps or deeper groups is not one that a person wrote.
constexpr std::size_t kMaxSteps = 1024;
constexpr int kMaxDepth = 32;
constexpr int kMaxRepeat = 64;

std::size_t index_of(char c) {
  return static_cast<unsigned char>(c);
}

// All other characters.
Bytes negation(Bytes bytes) {
  return bytes.flip().reset(kEndOfText);
}

Step jump(std::size_t by) {
  return {
      .op = Step::Op::kJump, .first = static_cast<std::int32_t>(by), .second = 0, .accepts = {}};
}
Step split(std::int64_t first, std::int64_t second) {
  return {.op = Step::Op::kSplit,
          .first = static_cast<std::int32_t>(first),
          .second = static_cast<std::int32_t>(second),
          .accepts = {}};
}

void append(Code& to, const Code& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Recursive descent over the pattern; each function returns the code of what it read.
class Compiler {
 public:
  explicit Compiler(std::string_view text) : text_(text) {}

  Result<Code> compile() {
    Code code = alternatives(0);
    if (fault_.empty() && at_ < text_.size()) fault_ = "has a ')' without '('";
    if (!fault_.empty()) {
      return input_error("the regular expression \"{}\" {}", text_, fault_);
    }
    code.push_back({});
    return code;
  }

 private:
  bool done() const { return !fault_.empty() || at_ >= text_.size(); }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  Code alternatives(int depth) {
    if (depth > kMaxDepth) fail("nests its groups too deeply");
    Code code = sequence(depth);
    while (take('|')) {
      const Code other = sequence(depth);
      Code both{split(1, static_cast<std::int64_t>(code.size()) + 2)};
      append(both, code);
      both.push_back(jump(other.size() + 1));
      append(both, other);
      code = std::move(both);
      check_size(code);
    }
    return code;
  }

  Code sequence(int depth) {
    Code code;
    while (!done() && text_[at_] != '|' && text_[at_] != ')') {
      append(code, repeated(item(depth)));
      check_size(code);
    }
    return code;
  }

  void check_size(const Code& code) {
    if (code.size() > kMaxSteps) fail("is too long");
  }

  Code item(int depth) {
    if (take('(')) return group(depth);
    if (take('^')) return {{.op = Step::Op::kStart, .first = 0, .second = 0, .accepts = {}}};
    Bytes accepts;
    if (take('$')) {
      accepts.set(kEndOfText);
    } else if (take('[')) {
      accepts = bracket();
    } else if (take('.')) {
      accepts = negation(Bytes().set(index_of('\n')));
    } else if (take('\\')) {
      accepts = escape();
    } else if (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?') {
      fail("has a repetition of nothing");
    } else {
      accepts.set(index_of(text_[at_++]));
    }
    return {{.op = Step::Op::kClass, .first = 0, .second = 0, .accepts = accepts}};
  }

  Code group(int depth) {
    if (take('?') && !take(':'))
      fail("uses a look-around or a named group, which is not supported");
    Code code = alternatives(depth + 1);
    if (!take(')')) fail("has a '(' without ')'");
    return code;
  }

  Bytes escape() {
    if (done()) {
      fail("ends in a backslash");
      return {};
    }
    const char c = text_[at_++];
    Bytes digits, word, space;
    for (char d = '0'; d <= '9'; ++d) digits.set(index_of(d));
    word = digits;
    for (char d = 'a'; d <= 'z'; ++d) word.set(index_of(d));
    for (char d = 'A'; d <= 'Z'; ++d) word.set(index_of(d));
    word.set(index_of('_'));
    for (const char d : std::string_view(" \t\n\r\f\v")) space.set(index_of(d));
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return negation(digits);
      case 'w':
        return word;
      case 'W':
        return negation(word);
      case 's':
        return space;
      case 'S':
        return negation(space);
      default:
        break;
    }
    if (word.test(index_of(c))) {
      fail("uses an escape, \\" + std::string(1, c) + ", which is not supported");
    }
    return Bytes().set(index_of(c));
  }

  Bytes bracket() {
    const bool negated = take('^');
    Bytes accepts;
    for (bool first = true; first || done() || text_[at_] != ']'; first = false) {
      if (done()) {
        fail("has a '[' without ']'");
        return {};
      }
      const char low = text_[at_++];
      if (low == '\\') {
        accepts |= escape();
        continue;
      }
      char high = low;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        high = text_[at_ + 1];
        at_ += 2;
      }
      for (std::size_t c = index_of(low); c <= index_of(high); ++c) accepts.set(c);
    }
    take(']');
    return negated ? negation(accepts) : accepts;
  }

  Code repeated(Code code) {
    for (;;) {
      const auto size = static_cast<std::int64_t>(code.size());
      if (take('*')) {
        code = star(code);
      } else if (take('+')) {
        code.push_back(split(-size, 1));
      } else if (take('?')) {
        code.insert(code.begin(), split(1, size + 1));
      } else if (take('{')) {
        code = counted(code);
      } else {
        return code;
      }
      take('?');  // a lazy repetition accepts the same texts
      check_size(code);
      if (!fault_.empty()) return {};
    }
  }

  static Code star(const Code& code) {
    const auto size = static_cast<std::int64_t>(code.size());
    Code loop{split(1, size + 2)};
    append(loop, code);
    loop.push_back({.op = Step::Op::kJump,
                    .first = static_cast<std::int32_t>(-(size + 1)),
                    .second = 0,
                    .accepts = {}});
    return loop;
  }

  std::optional<int> count() {
    if (done() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    int value = 0;
    while (!done() && text_[at_] >= '0' && text_[at_] <= '9' && value <= kMaxRepeat) {
      value = value * 10 + (text_[at_++] - '0');
    }
    return value;
  }

  Code counted(const Code& code) {
    const std::optional<int> least = count();
    const bool range = take(',');
    const std::optional<int> most = range ? count() : least;
    if (!least || !take('}') || *least > kMaxRepeat ||
        (most && (*most > kMaxRepeat || *most < *least))) {
      fail("has a repetition count that is not supported");
      return {};
    }
    Code all;
    for (int i = 0; i < *least && fault_.empty(); ++i) {
      append(all, code);
      check_size(all);
    }
    if (!most) append(all, star(code));
    for (int i = *least; most && i < *most && fault_.empty(); ++i) {
      all.push_back(split(1, static_cast<std::int64_t>(code.size()) + 1));
      append(all, code);
      check_size(all);
    }
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace

// Turns a program into the automaton: what follows each class step, jumps and splits taken.
class RegexBuilder {
 public:
  explicit RegexBuilder(const Code& code) : code_(code), place_of_(code.size(), 0) {
    for (std::size_t at = 0; at < code.size(); ++at) {
      if (code[at].op != Step::Op::kClass) continue;
      place_of_[at] = regex_.places_.size();
      regex_.places_.push_back({});
      regex_.places_.back().accepts = code[at].accepts;
    }
  }
  bool fits() const { return regex_.places_.size() <= Regex::kMaxPlaces; }

  Regex build() {
    regex_.matches_nothing_ = follow(0, true, regex_.first_);
    for (std::size_t at = 0; at < code_.size(); ++at) {
      if (code_[at].op != Step::Op::kClass) continue;
      Regex::Place& place = regex_.places_[place_of_[at]];
      place.last = follow(at + 1, false, place.next);
    }
    return std::move(regex_);
  }

 private:
  // Adds the places reachable from a step without taking a character; true when a match is too.
  bool follow(std::size_t start, bool at_begin, Regex::Places& places) const {
    std::vector<bool> seen(code_.size(), false);
    std::vector<std::size_t> stack{start};
    bool match = false;
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      const Step& step = code_[at];
      const auto target = [at](std::int32_t by) {
        return static_cast<std::size_t>(static_cast<std::int64_t>(at) + by);
      };
      switch (step.op) {
        case Step::Op::kMatch:
          match = true;
          break;
        case Step::Op::kClass:
          places[place_of_[at] / 64] |= std::uint64_t{1} << (place_of_[at] % 64);
          break;
        case Step::Op::kJump:
          stack.push_back(target(step.first));
          break;
        case Step::Op::kSplit:
          stack.push_back(target(step.first));
          stack.push_back(target(step.second));
          break;
        case Step::Op::kStart:
          if (at_begin) stack.push_back(at + 1);
          break;
      }
    }
    return match;
  }

  const Code& code_;
  std::vector<std::size_t> place_of_;  // of a class step
  Regex regex_;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  NIBBLE_ASSIGN_OR_RETURN(const Code code, Compiler(pattern).compile());
  RegexBuilder builder(code);
  if (!builder.fits()) return input_error("the regular expression \"{}\" is too long", pattern);
  Regex regex = builder.build();
  regex.pattern_ = pattern;
  return regex;
}

bool Regex::matches_start(std::string_view text) const {
  if (matches_nothing_) return true;
  Places active = first_;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t c = i < text.size() ? index_of(text[i]) : kEndOfText;
    Places next{};
    bool alive = false;
    for (std::size_t word = 0; word < active.size(); ++word) {
      for (std::uint64_t bits = active[word]; bits != 0; bits &= bits - 1) {
        const Place& place = places_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
        if (!place.accepts.test(c)) continue;
        if (place.last) return true;
        alive = true;
        for (std::size_t j = 0; j < next.size(); ++j) next[j] |= place.next[j];
      }
    }
    if (!alive) return false;
    active = next;
  }
  return false;
}

}  // namespace nibble
