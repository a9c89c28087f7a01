#include "cuda/memory.h"

#include "base/units.h"

namespace nibble::cuda {
namespace {

// Waits for all work of the current GPU.
Result<> wait_for_all(const Driver& driver) {
  NIBBLE_RETURN_IF_ERROR(check(driver.CtxSynchronize(), "cuCtxSynchronize"));
  LaunchTrail::of_thread().clear();
  return {};
}

// A transfer between two waits. Of pageable memory the driver may still be copying what it staged
// when its call returns, and our streams do not wait for its default stream.
template <class Transfer>
Result<> transfer_alone(const Driver& driver, abi::Context context, std::string_view call,
                        const Transfer& transfer) {
  const CurrentContext current(driver, context);
  NIBBLE_RETURN_IF_ERROR(current.result());
  NIBBLE_RETURN_IF_ERROR(wait_for_all(driver));
  NIBBLE_RETURN_IF_ERROR(check(transfer(), call));
  return wait_for_all(driver);
}

// A transfer as a piece of a stream's work.
template <class Transfer>
Result<> transfer_in(Stream& stream, std::string_view call, const Transfer& transfer) {
  const CurrentContext current(stream.driver(), stream.context());
  NIBBLE_RETURN_IF_ERROR(current.result());
  return check_after(transfer(stream.driver()), call, stream.trail());
}

}  // namespace

Result<PinnedBuffer> PinnedBuffer::make(std::size_t bytes) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  NIBBLE_ASSIGN_OR_RETURN(const abi::Context context, current_context(*driver));
  void* memory = nullptr;
  if (const Result<> made = check(driver->MemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
      !made) {
    return made.error().within(
        fmt::format("no {} of pinned memory", format_bytes(static_cast<double>(bytes))));
  }
  buffer.memory_ = {*driver, context, memory};
  buffer.size_ = bytes;
  return buffer;
}

Result<DeviceBuffer> DeviceBuffer::make(std::size_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  NIBBLE_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  NIBBLE_ASSIGN_OR_RETURN(const abi::Context context, current_context(*driver));
  DevicePointer address = 0;
  if (const Result<> made = check(driver->MemAlloc(&address, bytes), "cuMemAlloc"); !made) {
    std::size_t available = 0;
    std::size_t total = 0;
    driver->MemGetInfo(&available, &total);
    return made.error().within(fmt::format("no {} of the GPU's memory, of which {} are free",
                                           format_bytes(static_cast<double>(bytes)),
                                           format_bytes(static_cast<double>(available))));
  }
  buffer.memory_ = {*driver, context, address};
  buffer.size_ = bytes;
  return buffer;
}

Result<> DeviceBuffer::fits(std::size_t offset, std::size_t bytes, std::string_view what) const {
  if (offset <= size_ && bytes <= size_ - offset) return {};
  return run_error("{} of {} bytes at byte {} does not fit into a device buffer of {}", what, bytes,
                   offset, size_);
}

Result<> DeviceBuffer::upload(std::span<const std::byte> from, std::size_t offset) {
  NIBBLE_RETURN_IF_ERROR(fits(offset, from.size(), "an upload"));
  if (from.empty()) return {};
  const Driver& driver = memory_.driver();
  return transfer_alone(driver, memory_.context(), "cuMemcpyHtoD", [&] {
    return driver.MemcpyHtoD(address() + offset, from.data(), from.size());
  });
}

Result<> DeviceBuffer::download(std::span<std::byte> to, std::size_t offset) const {
  NIBBLE_RETURN_IF_ERROR(fits(offset, to.size(), "a download"));
  if (to.empty()) return {};
  const Driver& driver = memory_.driver();
  return transfer_alone(driver, memory_.context(), "cuMemcpyDtoH", [&] {
    return driver.MemcpyDtoH(to.data(), address() + offset, to.size());
  });
}

Result<> DeviceBuffer::fill(std::uint8_t value) {
  if (size_ == 0) return {};
  const Driver& driver = memory_.driver();
  return transfer_alone(driver, memory_.context(), "cuMemsetD8",
                        [&] { return driver.MemsetD8(address(), value, size_); });
}

Result<> DeviceBuffer::upload(const PinnedBuffer& from, Stream& stream) {
  NIBBLE_RETURN_IF_ERROR(fits(0, from.size(), "an upload"));
  if (from.size() == 0) return {};
  return transfer_in(stream, "cuMemcpyHtoDAsync", [&](const Driver& driver) {
    return driver.MemcpyHtoDAsync(address(), from.bytes().data(), from.size(), stream.handle());
  });
}

Result<> DeviceBuffer::download(PinnedBuffer& to, Stream& stream) const {
  NIBBLE_RETURN_IF_ERROR(fits(0, to.size(), "a download"));
  if (to.size() == 0) return {};
  return transfer_in(stream, "cuMemcpyDtoHAsync", [&](const Driver& driver) {
    return driver.MemcpyDtoHAsync(to.bytes().data(), address(), to.size(), stream.handle());
  });
}

Result<> DeviceBuffer::fill(std::uint8_t value, Stream& stream) {
  if (size_ == 0) return {};
  return transfer_in(stream, "cuMemsetD8Async", [&](const Driver& driver) {
    return driver.MemsetD8Async(address(), value, size_, stream.handle());
  });
}

Result<> DeviceBuffer::copy(const DeviceBuffer& from, Stream& stream) {
  NIBBLE_RETURN_IF_ERROR(fits(0, from.size(), "a copy"));
  if (from.size() == 0) return {};
  return transfer_in(stream, "cuMemcpyDtoDAsync", [&](const Driver& driver) {
    return driver.MemcpyDtoDAsync(address(), from.address(), from.size(), stream.handle());
  });
}

}  // namespace nibble::cuda
