#include "capi/tuning.h"

#include <algorithm>
#include <nibble/nibble.h>
#include <utility>

#include "base/text.h"
#include "capi/error.h"
#include "capi/handles.h"
#include "tactics/tune/cpu_site.h"

namespace nibble::capi {

Result<> DeviceTuning::use(const char* path) {
  std::shared_ptr<const tune::TuningTable> table;
  if (path != nullptr) {
    tune::TuningTable loaded = tune::TuningTable::load(path, tune::cpu_tuning_site());
    if (!loaded.problem().empty()) return input_error("{}", loaded.problem());
    table = std::make_shared<const tune::TuningTable>(std::move(loaded));
  }
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
  return {};
}

std::optional<DeviceTuning::Choices> DeviceTuning::choose(tune::CpuLayer layer) const {
  std::shared_ptr<const tune::TuningTable> table;
  {
    const std::lock_guard lock(mutex_);
    table = table_;
  }
  if (!table) return std::nullopt;
  std::vector<std::int64_t> ends = table->ends(gate_up_shape(layer));
  const std::vector<std::int64_t> of_down = table->ends(down_shape(layer));
  ends.insert(ends.end(), of_down.begin(), of_down.end());
  if (!ends.empty()) {
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    layer.tokens = std::move(ends);
  }
  // Of this layer's questions alone.
  tune::TuningTable asked = *table;
  tune::CpuLayerChoices values = choose_cpu_layer(asked, layer);
  return Choices{std::move(values), join(asked.report(), "; ")};
}

extern "C" nibble_status nibble_device_use_tuning(nibble_device* device, const char* path) {
  return guarded([&]() -> nibble_status {
    const Result<std::shared_ptr<DeviceState>> state = cpu_of(device, "nibble_device_use_tuning");
    if (!state.ok()) return report(NIBBLE_INVALID_ARGUMENT, state.error().message);
    const Result<> used = (*state)->tuning.use(path);
    return used.ok() ? NIBBLE_OK : report(NIBBLE_BAD_TUNING, used.error().message);
  });
}

}  // namespace nibble::capi
