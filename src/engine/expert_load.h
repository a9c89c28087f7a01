// How uneven a model's routing is: the tokens of a layer's busiest expert over the mean of all its
// experts, as a mean over the layers. 1 is even; experts / top_k is all tokens through one expert.
//
//   ExpertLoad load;
//   load.step_begins(model.expert_tokens(), now);    // before each step
//   load.ratio();                                    // of the last second with steps
#pragma once

#include <optional>

#include "base/clock.h"
#include "engine/model.h"

namespace nibble::engine {

// nullopt: no layer has had a token.
std::optional<double> busiest_over_mean(const ExpertTokens& tokens);

// Windows are cut by the engine itself, so that the number is the same whoever asks, and how often.
// A second holds hundreds of steps: of one step of a few rows even a perfect router would look
// uneven.
class ExpertLoad {
 public:
  // Where a second has passed since the window began, that window is told from now on, and the
  // counts begin again at 0. Does not allocate.
  void step_begins(ExpertTokens tokens, Nanoseconds now);
  std::optional<double> ratio() const { return ratio_; }

 private:
  std::optional<double> ratio_;
  std::optional<Nanoseconds> began_;
};

}  // namespace nibble::engine
