#include <gtest/gtest.h>
#include "machine/probe.h"
namespace nibble { namespace {
TEST(Probe, Prints) {
  for (const auto& l : probe_libraries()) printf("%s %s %s | %s\n", l.name.c_str(), l.version.c_str(), l.path.c_str(), l.reason.c_str());
  auto p=probe_this_machine();
  printf("%s\n%s\n", p.compiler.c_str(), p.no_gpu_reason.c_str());
  for (auto& q: p.permissions) printf("%s %d %s\n", q.name.c_str(), q.allowed, q.detail.c_str());
}
}}
