// Where samples come from. A source declares its signals once and is then asked for values at its
// own period; it may fail, and it may hang, without disturbing the others.
//
//   class Thermometer : public Source {
//     explicit Thermometer(SampleStore& store) : store_(store), id_(store.declare(kTemperature)) {}
//     SourceInfo info() const override { return {"thermometer", "cpu", from_milliseconds(500)}; }
//     std::vector<SignalId> signals() const override { return {id_}; }
//     Result<> sample() override { store_.add(id_, monotonic_now(), 21); return {}; }
//   };
#pragma once

#include <string>
#include <vector>

#include "telemetry/store.h"

namespace nibble::telemetry {

struct SourceInfo {
  std::string name;
  // Sources of one lane are sampled by one thread, one after the other: what blocks has a lane of
  // its own.
  std::string lane;
  Nanoseconds period = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  virtual SourceInfo info() const = 0;
  // What this source feeds, as far as it knows; marked as not available when it fails or hangs.
  virtual std::vector<SignalId> signals() const = 0;
  // Called on the thread of the lane. Values are stamped when they were read. An error means that
  // nothing came at all; a signal that is missing alone is told to the store. When errors repeat,
  // the sampler marks the source's signals and asks less often.
  virtual Result<> sample() = 0;
};

}  // namespace nibble::telemetry
