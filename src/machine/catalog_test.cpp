#include <gtest/gtest.h>

#include "machine/spec.h"

namespace nibble {
namespace {
TEST(Catalog, Prints) {
  for (const auto& m : machine_catalog()) printf("%s\n", m.name.c_str());
  auto t = this_machine();
  printf("%s\n", t.ok() ? to_json(*t).dump().c_str() : t.error().message.c_str());
}
}
}
