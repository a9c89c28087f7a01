#include "text/pattern.h"

#include <cctype>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "text/pattern_class.h"

namespace nibble::text {
namespace {

constexpr std::size_t kMaxPattern = 8192;  // bytes; the longest known has some 400
constexpr std::size_t kMaxDepth = 50;      // of groups
constexpr int kMaxRepeats = 1000;

bool is_ascii(char32_t character) {
  return character < 0x80;
}
bool is_ascii_letter_or_digit(char32_t character) {
  return is_ascii(character) && std::isalnum(static_cast<int>(character)) != 0;
}
bool is_ascii_punctuation(char32_t character) {
  return is_ascii(character) && std::ispunct(static_cast<int>(character)) != 0;
}

// A character that stands for itself, within brackets and outside.
std::string literal(char32_t character) {
  if (is_ascii_punctuation(character)) return {'\\', static_cast<char>(character)};
  if (is_ascii(character) && !is_ascii_letter_or_digit(character)) {
    return fmt::format("\\x{{{:X}}}", static_cast<unsigned>(character));
  }
  std::string out;
  append_character(out, character);
  return out;
}

// What a backslash begins: a character, or the members of a class.
struct Escape {
  std::optional<char32_t> character;
  std::string class_name;
  bool negated = false;
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (!at_end()) NIBBLE_RETURN_IF_ERROR(item());
    if (!groups_.empty()) return refuse("a group that is not closed");
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t start = 0;    // in the output
    bool caseless = false;    // what was in force outside
    bool can_repeat = false;  // lookarounds cannot
  };

  bool at_end() const { return at_ == pattern_.size(); }
  bool starts(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!starts(text)) return false;
    at_ += text.size();
    return true;
  }
  Error refuse(std::string_view what) const {
    return input_error("pattern \"{}\" has {} at byte {}, which is not supported",
                       printable(pattern_), what, at_);
  }
  // Starts what a quantifier may follow.
  void begin_atom() { atom_ = out_.size(); }
  void no_atom() {
    atom_.reset();
    last_letter_ = 0;
  }

  Result<> item() {
    if (starts("(")) return open_group();
    if (starts(")")) return close_group();
    if (starts("[")) return bracket();
    if (starts("\\")) return escape_item();
    if (starts("*") || starts("+") || starts("?") || starts("{")) return quantifier();
    if (starts("^") || starts("$")) return refuse("an anchor");
    if (take("|")) {
      out_ += '|';
      no_atom();
      return {};
    }
    if (take(".")) {
      begin_atom();
      out_ += "[^\\n]";
      last_letter_ = 0;
      return {};
    }
    const std::size_t start = at_;
    const char32_t character = next_character(pattern_, at_);
    const Result<> put = put_literal(character);
    if (!put.ok()) at_ = start;
    return put;
  }

  Result<> put_literal(char32_t character) {
    if (caseless_ && !is_ascii(character)) return refuse("a letter beyond ASCII in (?i:...)");
    if (caseless_ && folds_with_last(character)) {
      return refuse("letters in (?i:...) that a ligature stands for");
    }
    begin_atom();
    out_ += literal(character);
    last_letter_ = character;
    return {};
  }
  // Oniguruma lets one character such as U+FB01 match the two letters of its full case folding.
  bool folds_with_last(char32_t character) const {
    const auto lower = [](char32_t letter) {
      return is_ascii(letter) ? static_cast<char>(std::tolower(static_cast<int>(letter))) : ' ';
    };
    const std::string pair = {lower(last_letter_), lower(character)};
    return pair == "ss" || pair == "ff" || pair == "fi" || pair == "fl" || pair == "st";
  }

  Result<> open_group() {
    if (groups_.size() == kMaxDepth) return refuse("groups nested too deep");
    Group group = {out_.size(), caseless_, true};
    if (take("(?:")) {
      out_ += "(?:";
    } else if (take("(?i:")) {
      caseless_ = true;
      out_ += "(?i:";
    } else if (take("(?>")) {
      out_ += "(?>";
    } else if (starts("(?=") || starts("(?!") || starts("(?<=") || starts("(?<!")) {
      const std::size_t length = pattern_[at_ + 2] == '<' ? 4 : 3;
      out_ += pattern_.substr(at_, length);
      at_ += length;
      group.can_repeat = false;
    } else if (starts("(?") || starts("(*")) {
      return refuse(
          "a group of a kind other than (...), (?:...), (?i:...), (?>...) or a look "
          "ahead or behind");
    } else {
      take("(");
      out_ += "(?:";
    }
    groups_.push_back(group);
    no_atom();
    return {};
  }

  Result<> close_group() {
    if (groups_.empty()) return refuse("a parenthesis that closes nothing");
    take(")");
    out_ += ')';
    no_atom();
    if (groups_.back().can_repeat) atom_ = groups_.back().start;
    caseless_ = groups_.back().caseless;
    groups_.pop_back();
    return {};
  }

  Result<> quantifier() {
    if (!atom_) return refuse("a quantifier of nothing");
    if (starts("{")) return interval();
    out_ += pattern_[at_++];
    if (starts("?") || starts("+")) out_ += pattern_[at_++];
    no_atom();
    return {};
  }

  // {n}, {n,} and {n,m}. A plus sign behind it repeats it: (?:x{n,m})+.
  Result<> interval() {
    const std::size_t start = at_;
    const auto fail = [&] {
      at_ = start;
      return refuse("a brace or an interval of another form than {n}, {n,} or {n,m} up to 1000");
    };
    take("{");
    const std::optional<int> least = number();
    std::optional<int> most = least;
    const bool comma = take(",");
    if (comma) most = number();
    if (!least || !take("}") || (!most && !comma) || (most && *most < *least)) return fail();
    out_ += pattern_.substr(start, at_ - start);
    if (take("+")) {
      out_.insert(*atom_, "(?:");
      out_ += ")+";
    } else if (starts("?")) {
      if (!comma) return fail();  // optional to Oniguruma, lazy to PCRE2
      out_ += pattern_[at_++];
    }
    no_atom();
    return {};
  }
  std::optional<int> number() {
    int value = 0;
    const std::size_t start = at_;
    while (!at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      value = value * 10 + (pattern_[at_++] - '0');
      if (value > kMaxRepeats) return std::nullopt;
    }
    return at_ == start ? std::nullopt : std::optional(value);
  }

  Result<> escape_item() {
    const std::size_t start = at_;
    NIBBLE_ASSIGN_OR_RETURN(const Escape escape, read_escape());
    if (escape.character) {
      const Result<> put = put_literal(*escape.character);
      if (!put.ok()) at_ = start;
      return put;
    }
    if (caseless_) {
      at_ = start;
      return refuse("a character class in (?i:...)");
    }
    const std::optional<std::string> members = class_members(escape.class_name, false);
    NIBBLE_CHECK(members.has_value());
    begin_atom();
    out_ += (escape.negated ? "[^" : "[") + *members + "]";
    last_letter_ = 0;
    return {};
  }

  Result<Escape> read_escape() {
    const std::size_t start = at_;
    const auto fail = [&](std::string_view what) {
      at_ = start;
      return refuse(what);
    };
    take("\\");
    if (at_end()) return fail("a backslash without a character");
    if (starts("p{") || starts("P{")) {
      const bool capital = pattern_[at_] == 'P';
      at_ += 2;
      const bool caret = take("^");
      const std::size_t close = pattern_.find('}', at_);
      const std::string name(pattern_.substr(at_, close - at_));
      if (close == std::string_view::npos || name.size() < 1 || !is_property(name)) {
        return fail("a property that is not known here");
      }
      at_ = close + 1;
      return Escape{std::nullopt, name, capital != caret};
    }
    if (starts("x") || starts("u")) {
      const std::optional<char32_t> code = code_point();
      if (!code) return fail("a character code of another form than \\x{...} or \\u....");
      return Escape{code, {}, false};
    }
    const char32_t character = next_character(pattern_, at_);
    if (std::string_view("sdwSDW").find(static_cast<char>(character)) != std::string_view::npos &&
        is_ascii(character)) {
      const bool capital = character < U'a';
      return Escape{std::nullopt, to_lower(std::string(1, static_cast<char>(character))), capital};
    }
    constexpr std::string_view kNames = "nrtfvae";
    constexpr std::string_view kValues = "\n\r\t\f\v\a\x1B";
    const std::size_t control =
        is_ascii(character) ? kNames.find(static_cast<char>(character)) : std::string_view::npos;
    if (control != std::string_view::npos) {
      return Escape{static_cast<unsigned char>(kValues[control]), {}, false};
    }
    if (!is_ascii_punctuation(character) && character != U' ') {
      return fail("a backslash before a character that has no such meaning here");
    }
    return Escape{character, {}, false};
  }
  static bool is_property(std::string_view name) {
    return is_class_name(name) && name != "s" && name != "d" && name != "w" && name != "word";
  }
  std::optional<char32_t> code_point() {
    const bool braces = take("x{");
    const std::size_t wanted = braces ? 0 : take("u") ? 4 : take("x") ? 2 : 0;
    char32_t value = 0;
    std::size_t digits = 0;
    while (!at_end() && std::isxdigit(static_cast<unsigned char>(pattern_[at_])) != 0) {
      if (digits == (braces ? 6 : wanted)) break;
      const char digit = to_lower(pattern_.substr(at_++, 1)).front();
      value = value * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
      ++digits;
    }
    const bool form = braces ? digits > 0 && take("}") : digits == wanted;
    // \xHH from 80 on is a byte of a character to Oniguruma.
    const bool scalar = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    if (!form || !scalar || (wanted == 2 && !is_ascii(value))) return std::nullopt;
    return value;
  }

  // [...]: members are characters, ranges and classes.
  Result<> bracket() {
    if (caseless_) return refuse("a character class in (?i:...)");
    begin_atom();
    take("[");
    out_ += '[';
    if (take("^")) out_ += '^';
    if (starts("]")) return refuse("a bracket without members");
    bool after_single = false;  // whether a dash here would make a range
    while (!starts("]")) {
      if (at_end()) return refuse("a bracket that is not closed");
      if (starts("[") || starts("&&")) return refuse("a class within a class");
      if (starts("-") && !starts("-]") && !is_at_class_start()) {
        if (!after_single) return refuse("a dash behind a range or a class");
        NIBBLE_RETURN_IF_ERROR(range_end());
        after_single = false;
        continue;
      }
      NIBBLE_ASSIGN_OR_RETURN(after_single, member());
    }
    take("]");
    out_ += ']';
    last_letter_ = 0;
    return {};
  }
  bool is_at_class_start() const {
    const std::string_view written = std::string_view(out_).substr(*atom_);
    return written == "[" || written == "[^";
  }

  // Whether it was a single character.
  Result<bool> member() {
    if (at_end()) return refuse("a bracket that is not closed");
    if (!starts("\\")) {
      range_start_ = next_character(pattern_, at_);
      out_ += literal(range_start_);
      return true;
    }
    const std::size_t start = at_;
    NIBBLE_ASSIGN_OR_RETURN(const Escape escape, read_escape());
    if (escape.character) {
      range_start_ = *escape.character;
      out_ += literal(range_start_);
      return true;
    }
    const std::optional<std::string> members = class_members(escape.class_name, escape.negated);
    if (!members) {
      at_ = start;
      return refuse("the complement of a class within brackets");
    }
    out_ += *members;
    return false;
  }

  Result<> range_end() {
    const std::size_t start = at_;
    take("-");
    if (starts("[")) return refuse("a class within a class");
    out_ += '-';
    const char32_t first = range_start_;
    NIBBLE_ASSIGN_OR_RETURN(const bool single, member());
    if (!single || range_start_ < first) {
      at_ = start;
      return refuse("a range that does not go up from a character to a character");
    }
    return {};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  std::optional<std::size_t> atom_;  // where in the output what can be repeated begins
  bool caseless_ = false;
  char32_t last_letter_ = 0;  // the literal just before, for (?i:...)
  char32_t range_start_ = 0;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  if (pattern.empty()) return input_error("a pattern is empty");
  if (pattern.size() > kMaxPattern) {
    return input_error("a pattern has {} bytes; at most {} are read", pattern.size(), kMaxPattern);
  }
  if (!is_valid_utf8(pattern)) return input_error("a pattern is not valid UTF-8");
  return Translator(pattern).run();
}

}  // namespace nibble::text
