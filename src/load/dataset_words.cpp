#include "load/dataset_words.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace nibble::load {
namespace {

constexpr std::int64_t kMostTokensAsked = 16 << 20;

// Common English words: with the space before it each is one token in the vocabularies of GPT,
// Llama, Qwen, GLM, Gemma and their like.
constexpr std::array<std::string_view, 256> kWords = {
    "the",   "of",      "and",     "to",       "in",      "is",     "that",     "for",     "was",
    "on",    "are",     "with",    "as",       "at",      "be",     "this",     "have",    "from",
    "or",    "had",     "by",      "word",     "but",     "what",   "some",     "we",      "can",
    "out",   "other",   "were",    "all",      "there",   "when",   "up",       "use",     "your",
    "how",   "said",    "each",    "she",      "which",   "their",  "time",     "will",    "way",
    "about", "many",    "then",    "them",     "would",   "write",  "like",     "so",      "these",
    "her",   "long",    "make",    "thing",    "see",     "him",    "two",      "has",     "look",
    "more",  "day",     "could",   "go",       "come",    "did",    "number",   "sound",   "no",
    "most",  "people",  "my",      "over",     "know",    "water",  "than",     "call",    "first",
    "who",   "may",     "down",    "side",     "been",    "now",    "find",     "any",     "new",
    "work",  "part",    "take",    "get",      "place",   "made",   "live",     "where",   "after",
    "back",  "little",  "only",    "round",    "man",     "year",   "came",     "show",    "every",
    "good",  "me",      "give",    "our",      "under",   "name",   "very",     "through", "just",
    "form",  "much",    "great",   "think",    "say",     "help",   "low",      "line",    "before",
    "turn",  "cause",   "same",    "mean",     "differ",  "move",   "right",    "boy",     "old",
    "too",   "does",    "tell",    "set",      "three",   "want",   "air",      "well",    "also",
    "play",  "small",   "end",     "put",      "home",    "read",   "hand",     "port",    "large",
    "add",   "even",    "land",    "here",     "must",    "big",    "high",     "such",    "follow",
    "act",   "why",     "ask",     "men",      "change",  "went",   "light",    "kind",    "off",
    "need",  "house",   "picture", "try",      "us",      "again",  "animal",   "point",   "mother",
    "world", "near",    "build",   "self",     "earth",   "father", "head",     "stand",   "own",
    "page",  "should",  "country", "found",    "answer",  "school", "grow",     "study",   "still",
    "learn", "plant",   "cover",   "food",     "sun",     "four",   "between",  "state",   "keep",
    "eye",   "never",   "last",    "let",      "thought", "city",   "tree",     "cross",   "farm",
    "hard",  "start",   "might",   "story",    "saw",     "far",    "sea",      "draw",    "left",
    "late",  "run",     "while",   "press",    "close",   "night",  "real",     "life",    "few",
    "north", "open",    "seem",    "together", "next",    "white",  "children", "begin",   "got",
    "walk",  "example", "ease",    "paper",    "group",   "always", "music",    "those",   "both",
    "mark",  "often",   "letter",  "until"};

// Text that grows and shrinks by units: words, or the ids that a tokenizer decodes.
class Filler {
 public:
  Filler(std::string_view head, const TokenTools& tools, bool by_ids, Random& random)
      : head_(head), tools_(tools), by_ids_(by_ids), random_(random) {}

  // The last unit is always drawn anew: where the length oscillates, another one may fit.
  void resize(std::int64_t units) {
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(units, 1));
    const auto first = static_cast<std::uint64_t>(by_ids_ ? tools_.first_id : 0);
    const auto choices =
        by_ids_ ? static_cast<std::uint64_t>(tools_.end_id - tools_.first_id) : kWords.size();
    units_.resize(std::min(units_.size(), wanted - 1));
    while (units_.size() < wanted) {
      units_.push_back(static_cast<std::int32_t>(first + random_.below(choices)));
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(units_.size()); }

  std::string text() const {
    std::string text(head_);
    if (by_ids_) return text + tools_.decode(units_);
    for (const std::int32_t word : units_) {
      if (!text.empty() && text.back() != '\n') text += ' ';
      text += kWords[static_cast<std::size_t>(word)];
    }
    return text;
  }

 private:
  std::string_view head_;
  const TokenTools& tools_;
  bool by_ids_;
  Random& random_;
  std::vector<std::int32_t> units_;
};

// How many units more (or less) make `missing` tokens, where `units` made `counted` of them.
std::int64_t units_for(std::int64_t missing, std::int64_t counted, std::int64_t units) {
  const double tokens_per_unit =
      std::max(1.0, static_cast<double>(counted) / static_cast<double>(units));
  const std::int64_t more = std::llround(static_cast<double>(missing) / tokens_per_unit);
  if (more != 0) return more;
  return missing > 0 ? 1 : -1;
}

// Corrects the length by what the tokenizer counts. Neighbours may merge or split, hence the
// attempts, of which the nearest is kept; text of whole words is right at the first or second.
MadeText fill(std::int64_t tokens, std::int64_t first_guess, Filler filler,
              const TokenTools& tools) {
  constexpr int kAttempts = 24;
  MadeText nearest;
  filler.resize(first_guess);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string text = filler.text();
    const auto counted = static_cast<std::int64_t>(tools.count(text));
    if (attempt == 0 || std::abs(counted - tokens) < std::abs(nearest.tokens - tokens)) {
      nearest = {std::move(text), counted, true};
    }
    if (counted == tokens) break;
    filler.resize(filler.size() + units_for(tokens - counted, counted, filler.size()));
  }
  return nearest;
}

}  // namespace

std::uint64_t mix(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t seed = numbers.size();
  for (const std::uint64_t number : numbers) seed = Random(seed ^ Random(number).next()).next();
  return seed;
}

std::vector<std::int32_t> random_ids(std::int64_t count, const TokenTools& tools, Random& random) {
  const auto choices = static_cast<std::uint64_t>(tools.end_id - tools.first_id);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids) {
    id = tools.first_id + static_cast<std::int32_t>(random.below(choices));
  }
  return ids;
}

MadeText text_of(std::int64_t tokens, std::string_view head, std::int64_t head_tokens,
                 const TokenTools& tools, Random& random) {
  const std::int64_t missing = std::max<std::int64_t>(tokens - head_tokens, 1);
  if (!tools.count) {
    Filler filler(head, tools, false, random);
    filler.resize(std::llround(static_cast<double>(missing) / tools.tokens_per_word));
    return {filler.text(), tokens, false};
  }
  if (tools.decode) {
    MadeText made = fill(tokens, missing, Filler(head, tools, true, random), tools);
    if (made.tokens == tokens) return made;
  }
  return fill(tokens, missing, Filler(head, tools, false, random), tools);
}

std::int64_t estimate_tokens(std::string_view text, const TokenTools& tools) {
  constexpr std::size_t kBytesPerToken = 4;
  if (tools.count) return static_cast<std::int64_t>(tools.count(text));
  return static_cast<std::int64_t>((text.size() + kBytesPerToken - 1) / kBytesPerToken);
}

Result<> check_length(std::string_view option, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kMostTokensAsked) return {};
  return usage_error("{} is {}; give {} to {}", option, value, least, kMostTokensAsked);
}

Result<> check_tools(const TokenTools& tools) {
  if (tools.first_id < 0 || tools.end_id <= tools.first_id) {
    return usage_error("token ids from {} to below {} are none; give a wider range", tools.first_id,
                       tools.end_id);
  }
  if (!(tools.tokens_per_word >= 0.1 && tools.tokens_per_word <= 100)) {
    return usage_error("{} tokens a word are not to be believed; give 0.1 to 100",
                       tools.tokens_per_word);
  }
  return {};
}

}  // namespace nibble::load
