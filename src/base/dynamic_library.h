// A shared library opened at run time: absent libraries are a normal answer, not an error.
//
//   const DynamicLibrary nvml = DynamicLibrary::open({"libnvidia-ml.so.1"});
//   auto* count = nvml.symbol<int(unsigned*)>("nvmlDeviceGetCount_v2");
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

namespace nibble {

class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  // Opens the first name that the loader finds; otherwise the library is empty and reason() says
  // why.
  static DynamicLibrary open(std::initializer_list<const char*> names);
  ~DynamicLibrary();
  DynamicLibrary(DynamicLibrary&& other) noexcept { swap(other); }
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    swap(other);
    return *this;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }      // as the loader resolved it
  const std::string& reason() const { return reason_; }  // why it is not open

  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;
  void swap(DynamicLibrary& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    std::swap(reason_, other.reason_);
  }

  void* handle_ = nullptr;
  std::string path_;
  std::string reason_;
};

}  // namespace nibble
