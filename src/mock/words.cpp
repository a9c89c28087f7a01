// The words that answers are made of (answer.h).
#include <array>

#include "mock/answer.h"

namespace nibble::mock {
namespace {

// Words that byte-level vocabularies hold as one token each with their space.
constexpr std::array<std::string_view, 64> kWords = {
    " the",  " of",    " and",   " to",   " in",    " is",    " that",  " it",
    " was",  " for",   " on",    " are",  " with",  " as",    " be",    " at",
    " one",  " have",  " this",  " from", " or",    " had",   " by",    " but",
    " some", " what",  " there", " we",   " can",   " out",   " other", " were",
    " all",  " your",  " when",  " up",   " use",   " word",  " how",   " said",
    " each", " she",   " which", " do",   " their", " time",  " if",    " will",
    " way",  " about", " many",  " then", " them",  " would", " write", " like",
    " so",   " these", " her",   " long", " make",  " thing", " see",   " him"};

// Two, three and four bytes a character.
constexpr std::array<std::string_view, 8> kUtf8Words = {" caf\u00e9",
                                                        " na\u00efve",
                                                        " \u6771\u4eac",
                                                        " \u03a9\u03bc\u03ad\u03b3\u03b1",
                                                        " \U0001F600\u0301",
                                                        " \u20ac",
                                                        " \u0437\u0438\u043c\u0430",
                                                        " \U0001D11E"};

}  // namespace

std::string_view token_text(const MockScript& script, std::uint64_t index, std::int64_t token) {
  if (script.text.kind == TextKind::kRepeat) return kWords[0];
  // One step of a generator a token: the text of any stretch is known without what is before it.
  const std::uint64_t seed = stream_seed(script.seed, index, Draw::kWords);
  Random random(seed + static_cast<std::uint64_t>(token));
  const std::uint64_t draw = random.next();
  if (script.text.kind == TextKind::kUtf8) return kUtf8Words[draw % kUtf8Words.size()];
  return kWords[draw % kWords.size()];
}

}  // namespace nibble::mock
