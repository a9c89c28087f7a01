// Everything that the mock answers besides generations: models, health, version, metrics, and what
// it knows of itself (/mock/...).
//
//   const Page page = make_page(shared, "GET", "/metrics");
#pragma once

#include <string>
#include <string_view>

#include "mock/shared.h"

namespace nibble::mock {

struct Page {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

Page make_page(Shared& shared, std::string_view method, std::string_view path);

}  // namespace nibble::mock
