// Holds text back while it may still become a stop string, wherever the text is cut into pieces.
//
//   StopBuffer stops({"</s>", "\n\n"});
//   send(stops.feed("one <"));    // "one "
//   send(stops.feed("/s> two"));  // "": the stop string is not sent
//   stops.stopped();              // true; feed gives nothing more
//   send(stops.finish());         // what was held, where no stop string came
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::text {

// Finds all stop strings at once in time that grows with the text alone (Aho and Corasick 1975).
// The one that is complete first ends the text; of those that end together, the longest.
class StopBuffer {
 public:
  // Empty stop strings are ignored. `include` gives the stop string itself out too.
  explicit StopBuffer(const std::vector<std::string>& stops, bool include = false);

  // What can be sent: valid UTF-8 where stop strings and pieces are. Where the piece may not stop
  // the text, a stop string that ends within it is text as any other.
  std::string feed(std::string_view piece, bool may_stop = true);
  // Nothing follows: what was held back; "" after a stop string.
  std::string finish();

  bool stopped() const { return matched_.has_value(); }
  // The index of the stop string, as given to the constructor.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::size_t>> children;
    std::size_t depth = 0;            // bytes from the root
    std::size_t fallback = 0;         // the longest other start that this text ends with
    std::optional<std::size_t> stop;  // the longest stop string that this text ends with
    std::size_t stop_bytes = 0;
  };

  void add(std::string_view stop, std::size_t index);
  void link();
  std::size_t child(std::size_t node, unsigned char byte) const;
  std::size_t step(std::size_t node, unsigned char byte) const;
  std::string stop_at(std::size_t end);

  std::vector<Node> nodes_;
  std::size_t state_ = 0;
  bool include_ = false;
  std::string held_;  // ends with the text of the state
  std::optional<std::size_t> matched_;
};

}  // namespace nibble::text
