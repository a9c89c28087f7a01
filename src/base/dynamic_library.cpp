#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

namespace nibble {

DynamicLibrary DynamicLibrary::open(std::initializer_list<const char*> names) {
  DynamicLibrary library;
  for (const char* name : names) {
    library.handle_ = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library.handle_ == nullptr) {
      const char* why = ::dlerror();
      if (!library.reason_.empty()) library.reason_ += "; ";
      library.reason_ += why != nullptr ? why : name;
      continue;
    }
    library.reason_.clear();
    library.path_ = name;
    link_map* map = nullptr;
    if (::dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
      if (map->l_name != nullptr && *map->l_name != '\0') library.path_ = map->l_name;
    }
    return library;
  }
  if (library.reason_.empty()) library.reason_ = "no library was named";
  return library;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* DynamicLibrary::find(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

}  // namespace nibble
