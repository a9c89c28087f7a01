// The text of one answer as its tokens come: whole characters only, nothing of a stop string, and
// for log probabilities which bytes of the text each token gave.
//
//   ChoiceText text(tokenizer, asked);
//   for (const engine::OutputToken& token : update.tokens) {
//     if (!text.feed(token)) break;                    // a stop string has come
//   }
//   if (update.finish || text.stopped()) text.finish();
//   writer.piece(out, {.text = text.take_text()});
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/parameters.h"
#include "text/stop_buffer.h"
#include "text/tokenizer.h"

namespace nibble::serve {

// A token whose text has been given. The bytes of all of them, one after the other, are the text;
// where they are no valid UTF-8, they become the text by U+FFFD.
struct GivenToken {
  engine::OutputToken token;
  std::string bytes;             // of the text; fewer than the token has where a stop string cut it
  std::int64_t text_offset = 0;  // characters of the text before it
};

class ChoiceText {
 public:
  ChoiceText(text::Tokenizer tokenizer, const Parameters& asked);

  // False: a stop string is there, and the answer ends before this token's end. One that ends
  // within the first min_tokens tokens is none; one that only begins there is.
  bool feed(const engine::OutputToken& token);
  bool stopped() const { return stops_.stopped(); }
  // Nothing follows.
  void finish();

  // What may be given since the last call. A token is given when the last byte of it is.
  std::string take_text();
  std::vector<GivenToken> take_tokens();  // none unless log probabilities are asked for

 private:
  // A token that waits for its text.
  struct Held {
    GivenToken token;
    std::size_t text_at = 0;  // bytes of text before it
  };

  bool may_stop() const { return tokens_fed_ > min_tokens_; }
  std::string decode(std::string_view bytes);
  void decode_byte(char byte, std::string& text);
  void give(std::string text);
  void release();
  void release_last();

  text::Tokenizer tokenizer_;
  Utf8Stream characters_;
  text::StopBuffer stops_;
  bool skip_special_;
  bool keeps_tokens_;
  std::int64_t min_tokens_;
  std::int64_t tokens_fed_ = 0;

  std::string text_;         // to be taken
  std::size_t decoded_ = 0;  // bytes of text so far, also those held back
  std::size_t given_ = 0;    // bytes of text given so far
  std::int64_t characters_decoded_ = 0;
  std::size_t unfinished_ = 0;  // the last so many bytes are a character that has only begun
  std::deque<Held> held_;
  std::deque<std::size_t> ends_;  // of each byte of held_: the bytes of text once it is out
  std::vector<GivenToken> tokens_;
};

}  // namespace nibble::serve
