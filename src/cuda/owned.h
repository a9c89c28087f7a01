// What all owners of the driver's objects share: the context that an object lives in, and a handle
// that is destroyed there once.
//
//   using OwnedStream = Owned<abi::Stream, &abi::Functions::StreamDestroy>;
//   OwnedStream stream(driver, context, handle);
#pragma once

#include <utility>

#include "base/result.h"
#include "cuda/driver.h"

namespace nibble::cuda {

// Makes a context current for a scope, and then again the one before it.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, abi::Context context) : driver_(driver) {
    status_ = driver_.CtxGetCurrent(&before_);
    if (status_ != abi::kSuccess || before_ == context) return;
    status_ = driver_.CtxSetCurrent(context);
    changed_ = status_ == abi::kSuccess;
  }
  ~CurrentContext() {
    if (changed_) driver_.CtxSetCurrent(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  Result<> result() const { return check(status_, "cuCtxSetCurrent"); }

 private:
  const Driver& driver_;
  abi::Context before_ = nullptr;
  abi::Status status_ = abi::kSuccess;
  bool changed_ = false;
};

// The context that is current on this thread; an error that says what to do where there is none.
Result<abi::Context> current_context(const Driver& driver);

// A handle with its driver, and a context to destroy it in; move-only, empty at first.
template <class Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Driver& driver, abi::Context context, Handle handle)
      : driver_(&driver), context_(context), handle_(handle) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    const CurrentContext current(*driver_, context_);
    (driver_->*kDestroy)(handle_);
  }

  Handle get() const { return handle_; }
  // Gives the handle up: it is not destroyed here.
  Handle release() { return std::exchange(handle_, Handle{}); }
  const Driver& driver() const { return *driver_; }  // of one that is not empty
  abi::Context context() const { return context_; }

 private:
  void swap(Owned& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
  }

  const Driver* driver_ = nullptr;
  abi::Context context_ = nullptr;
  Handle handle_{};
};

}  // namespace nibble::cuda
