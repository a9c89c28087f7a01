// Json::parse on any bytes: no crash, and a document that parses says the same after dump and
// parse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"

namespace {

void check_round_trip(const nibble::Json& document, int indent) {
  const nibble::Result<nibble::Json> again = nibble::Json::parse(document.dump(indent), "dump");
  NIBBLE_CHECK(again.ok());
  NIBBLE_CHECK(*again == document);
  // The second dump must say what the first said, to the letter.
  NIBBLE_CHECK(again->dump(indent) == document.dump(indent));
}

// Asks an object for each of its fields by every reader: none may crash, whatever the kinds are.
void read_everything(const nibble::Json& document) {
  nibble::ObjectReader reader(document, "fuzz");
  if (document.is_object()) {
    for (const nibble::Json::Member& member : document.as_object()) {
      static_cast<void>(reader.number(member.first, {.min = -1, .max = 1e6}));
      static_cast<void>(reader.integer(member.first, {.above = 0.0}));
      static_cast<void>(reader.boolean(member.first));
      static_cast<void>(reader.string(member.first));
      static_cast<void>(reader.numbers(member.first));
      static_cast<void>(reader.array(member.first));
      static_cast<void>(reader.object(member.first));
      static_cast<void>(reader.require_integer(member.first));
    }
  }
  static_cast<void>(reader.require_string("name"));
  static_cast<void>(reader.finish());
  // A reader that knows two names only: the others are unknown, and the nearest is looked for.
  nibble::ObjectReader strict(document, "fuzz");
  strict.accept("name");
  strict.accept("machine");
  static_cast<void>(strict.finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const nibble::Result<nibble::Json> parsed = nibble::Json::parse(text, "fuzz");
  if (!parsed.ok()) {
    NIBBLE_CHECK(!parsed.error().message.empty());
    NIBBLE_CHECK(parsed.error().message.size() < 400);
    return 0;
  }
  check_round_trip(*parsed, 0);
  check_round_trip(*parsed, 2);
  read_everything(*parsed);
  return 0;
}
