// Any bytes as a tuning file: read or refused; what was read is written, read back, looked up and
// audited, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "tactics/tune/audit.h"
#include "tactics/tune/table.h"
#include "tactics/tune/tuning_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const nibble::Result<nibble::Json> json = nibble::Json::parse(text, "fuzz.json");
  if (!json) return 0;
  const nibble::Result<nibble::tune::TuningFile> file =
      nibble::tune::parse_tuning(*json, "fuzz.json");
  if (!file) return 0;
  const nibble::Json written = to_json(*file);
  const nibble::Result<nibble::tune::TuningFile> again =
      nibble::tune::parse_tuning(written, "again.json");
  NIBBLE_CHECK(again.ok() && to_json(*again) == written);
  nibble::tune::TuningTable table(*file, "fuzz.json", file->site);
  std::vector<nibble::tune::TuningKey> keys;
  for (const nibble::tune::TuningEntry& entry : file->entries) {
    table.find(entry.key.shape, entry.key.tokens);
    keys.push_back(entry.key);
  }
  NIBBLE_CHECK(table.asked() <= file->entries.size());
  to_json(audit_tuning(*file, keys)).dump();
  return 0;
}
