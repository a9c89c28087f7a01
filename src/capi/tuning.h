// The tuning file of a CPU device: given once, asked by each layer that is made.
//
//   NIBBLE_RETURN_IF_ERROR(tuning.use("cpu.json"));
//   if (const auto choices = tuning.choose(layer)) config.threads = choices->values.threads;
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "tactics/tune/cpu_layer.h"

namespace nibble::capi {

class DeviceTuning {
 public:
  struct Choices {
    tune::CpuLayerChoices values;
    std::string said;  // which keys hit, and which not and why
  };

  // Null: none from now on. An error keeps what there was.
  Result<> use(const char* path);
  // For the numbers of tokens that the file holds, or else layer.tokens; nullopt without a file.
  std::optional<Choices> choose(tune::CpuLayer layer) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const tune::TuningTable> table_;  // that nobody has asked
};

}  // namespace nibble::capi
