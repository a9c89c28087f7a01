// cuBLASLt, opened at run time: the maker's dense product to compare with, and the matrix rate that
// a GPU sustains.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Cublaslt* lt, Cublaslt::get());
//   NIBBLE_ASSIGN_OR_RETURN(LtProduct product,
//       LtProduct::make(*lt, {.format = LtFormat::kBf16, .m = 8, .n = 6144, .k = 2048}));
//   NIBBLE_RETURN_IF_ERROR(product.enqueue({.weights = w, .activations = x, .output = y}, stream));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/dynamic_library.h"
#include "base/result.h"
#include "bench/cublaslt_abi.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace nibble {

class Cublaslt : public cublaslt_abi::Functions {
 public:
  // One for the process; without the library, or with one that lacks a function, a sentence that
  // says so. The same answer at every call.
  static Result<const Cublaslt*> get();
  // From a library of one's own choice: for tests.
  static Result<Cublaslt> open(DynamicLibrary library);

  const std::string& version() const { return version_; }  // "13.0.2"
  const std::string& path() const { return library_.path(); }
  // "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)", or nothing for success.
  Result<> check(cublaslt_abi::Status status, std::string_view call) const;

 private:
  DynamicLibrary library_;
  std::string version_;
};

enum class LtFormat { kBf16, kFp16, kFp8, kFp4 };  // of both operands; the output is 16-bit
std::string_view to_string(LtFormat format);
double bytes_per_value(LtFormat format);  // without scales

// y [m, n] = x [m, k] times the transpose of w [n, k], all row-major.
struct LtShape {
  LtFormat format = LtFormat::kBf16;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

struct LtArguments {
  cuda::DevicePointer weights = 0;
  cuda::DevicePointer activations = 0;
  cuda::DevicePointer output = 0;
};

// A product whose algorithm has been chosen: the quickest by cuBLASLt's own heuristic.
class LtProduct {
 public:
  // Allocates the workspace, and scales of 1 where the format has scales; a run error says why this
  // library or this GPU cannot.
  static Result<LtProduct> make(const Cublaslt& library, const LtShape& shape);
  LtProduct(LtProduct&& other) noexcept;
  LtProduct& operator=(LtProduct&& other) = delete;
  ~LtProduct();

  Result<> enqueue(const LtArguments& arguments, cuda::Stream& stream);

 private:
  explicit LtProduct(const Cublaslt& library) : library_(&library) {}
  Result<> create(const LtShape& shape);
  Result<> set_scales(const LtShape& shape);
  Result<> choose(const LtShape& shape);

  const Cublaslt* library_;
  cublaslt_abi::Handle handle_ = nullptr;
  cublaslt_abi::Desc desc_ = nullptr;
  cublaslt_abi::Layout weights_ = nullptr;
  cublaslt_abi::Layout activations_ = nullptr;
  cublaslt_abi::Layout output_ = nullptr;
  cublaslt_abi::Algorithm algorithm_{};
  cuda::DeviceBuffer workspace_;
  cuda::DeviceBuffer weight_scales_;
  cuda::DeviceBuffer activation_scales_;
};

}  // namespace nibble
