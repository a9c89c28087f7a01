#include "tactics/tune/cpu_site.h"

#include <fmt/core.h>

#include "base/thread_pool.h"
#include "machine/isa.h"
#include "machine/probe.h"

namespace nibble::tune {

TuningSite cpu_tuning_site() {
  return {.device = probe_cpu().title,
          .units = static_cast<std::int64_t>(usable_processors().size()),
          .driver = "none",
          .kernel_version = fmt::format("nibble {} {}", NIBBLE_VERSION, to_string(best_isa()))};
}

}  // namespace nibble::tune
