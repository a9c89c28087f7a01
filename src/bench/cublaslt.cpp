#include "bench/cublaslt.h"

#include <utility>

#include "base/text.h"
#include "machine/toolkit.h"

namespace nibble {

using namespace cublaslt_abi;

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // as NVIDIA advises for Hopper

int cuda_type(LtFormat format) {
  switch (format) {
    case LtFormat::kBf16:
      return kReal16Bf;
    case LtFormat::kFp16:
      return kReal16F;
    case LtFormat::kFp8:
      return kReal8E4m3;
    case LtFormat::kFp4:
      break;
  }
  return kReal4E2m1;
}

// Scales of a matrix [rows, k] in blocks of 128 rows by four groups of 16 columns.
std::size_t scale_bytes(std::int64_t rows, std::int64_t k) {
  const std::int64_t row_blocks = (rows + 127) / 128;
  const std::int64_t group_blocks = (k + 63) / 64;
  return static_cast<std::size_t>(row_blocks * group_blocks * 512);
}

void* pointer(cuda::DevicePointer address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

std::string_view to_string(LtFormat format) {
  switch (format) {
    case LtFormat::kBf16:
      return "bf16";
    case LtFormat::kFp16:
      return "fp16";
    case LtFormat::kFp8:
      return "fp8";
    case LtFormat::kFp4:
      break;
  }
  return "nvfp4";
}

double bytes_per_value(LtFormat format) {
  if (format == LtFormat::kFp8) return 1;
  return format == LtFormat::kFp4 ? 0.5 : 2;
}

Result<const Cublaslt*> Cublaslt::get() {
  // Never unloaded: it keeps state of the driver for the process.
  static const Result<Cublaslt>& opened =
      *std::make_unique<Result<Cublaslt>>(
           open(open_toolkit_library({"libcublasLt.so.13", "libcublasLt.so.12"})))
           .release();
  if (!opened.ok()) return opened.error();
  return &opened.value();
}

Result<Cublaslt> Cublaslt::open(DynamicLibrary library) {
  if (!library) {
    return run_error("cuBLASLt is not there ({}); it comes with the CUDA toolkit",
                     library.reason());
  }
  Cublaslt table;
  std::vector<std::string> missing;
  const auto find = [&](auto*& function, const char* name) {
    function = library.symbol<std::remove_reference_t<decltype(*function)>>(name);
    if (function == nullptr) missing.emplace_back(name);
  };
#define NIBBLE_CUBLASLT_FIND(name, ...) find(table.name, "cublasLt" #name);
  NIBBLE_CUBLASLT_FUNCTIONS(NIBBLE_CUBLASLT_FIND)
#undef NIBBLE_CUBLASLT_FIND
  if (!missing.empty()) {
    return run_error("{} has no {}: it is no cuBLASLt that we can call", library.path(),
                     join(missing, ", "));
  }
  if (auto* version = library.symbol<std::size_t()>("cublasLtGetVersion")) {
    const std::size_t code = version();
    table.version_ = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }
  table.library_ = std::move(library);
  return table;
}

Result<> Cublaslt::check(Status status, std::string_view call) const {
  if (status == kLtSuccess) return {};
  const char* name = nullptr;
  if (auto* status_name = library_.symbol<const char*(Status)>("cublasLtGetStatusName")) {
    name = status_name(status);
  }
  return run_error("cublasLt{}: {} ({})", call, name != nullptr ? name : "status", status);
}

LtProduct::LtProduct(LtProduct&& other) noexcept
    : library_(other.library_),
      handle_(std::exchange(other.handle_, nullptr)),
      desc_(std::exchange(other.desc_, nullptr)),
      weights_(std::exchange(other.weights_, nullptr)),
      activations_(std::exchange(other.activations_, nullptr)),
      output_(std::exchange(other.output_, nullptr)),
      algorithm_(other.algorithm_),
      workspace_(std::move(other.workspace_)),
      weight_scales_(std::move(other.weight_scales_)),
      activation_scales_(std::move(other.activation_scales_)) {}

LtProduct::~LtProduct() {
  for (const Layout layout : {weights_, activations_, output_}) {
    if (layout != nullptr) library_->MatrixLayoutDestroy(layout);
  }
  if (desc_ != nullptr) library_->MatmulDescDestroy(desc_);
  if (handle_ != nullptr) library_->Destroy(handle_);
}

Result<LtProduct> LtProduct::make(const Cublaslt& library, const LtShape& shape) {
  LtProduct product(library);
  NIBBLE_RETURN_IF_ERROR(product.create(shape));
  if (shape.format == LtFormat::kFp4) NIBBLE_RETURN_IF_ERROR(product.set_scales(shape));
  NIBBLE_RETURN_IF_ERROR(product.choose(shape));
  return product;
}

// cuBLASLt counts columns first: its A is w as [k, n], transposed; its B is x as [k, m].
Result<> LtProduct::create(const LtShape& shape) {
  const Cublaslt& lt = *library_;
  NIBBLE_RETURN_IF_ERROR(lt.check(lt.Create(&handle_), "Create"));
  NIBBLE_RETURN_IF_ERROR(
      lt.check(lt.MatmulDescCreate(&desc_, kCompute32F, kReal32F), "MatmulDescCreate"));
  NIBBLE_RETURN_IF_ERROR(
      lt.check(lt.MatmulDescSetAttribute(desc_, kDescTransA, &kOpTransposed, sizeof kOpTransposed),
               "MatmulDescSetAttribute"));
  const int type = cuda_type(shape.format);
  const int output_type = shape.format == LtFormat::kFp16 ? kReal16F : kReal16Bf;
  const auto n = static_cast<std::uint64_t>(shape.n);
  const auto m = static_cast<std::uint64_t>(shape.m);
  const auto k = static_cast<std::uint64_t>(shape.k);
  const auto layout = [&](Layout* made, int of, std::uint64_t rows, std::uint64_t columns) {
    return lt.check(lt.MatrixLayoutCreate(made, of, rows, columns, static_cast<std::int64_t>(rows)),
                    "MatrixLayoutCreate");
  };
  NIBBLE_RETURN_IF_ERROR(layout(&weights_, type, k, n));
  NIBBLE_RETURN_IF_ERROR(layout(&activations_, type, k, m));
  return layout(&output_, output_type, n, m);
}

// Every scale is 1 (0x38 in e4m3), so that their order does not matter.
Result<> LtProduct::set_scales(const LtShape& shape) {
  constexpr std::uint8_t kOne = 0x38;
  const auto set = [&](cuda::DeviceBuffer& scales, std::int64_t rows, int mode_at,
                       int pointer_at) -> Result<> {
    NIBBLE_ASSIGN_OR_RETURN(scales, cuda::DeviceBuffer::make(scale_bytes(rows, shape.k)));
    NIBBLE_RETURN_IF_ERROR(scales.fill(kOne));
    const Cublaslt& lt = *library_;
    NIBBLE_RETURN_IF_ERROR(
        lt.check(lt.MatmulDescSetAttribute(desc_, mode_at, &kScaleVec16, sizeof kScaleVec16),
                 "MatmulDescSetAttribute of block scales"));
    const void* address = pointer(scales.address());
    return lt.check(lt.MatmulDescSetAttribute(desc_, pointer_at, &address, sizeof address),
                    "MatmulDescSetAttribute");
  };
  NIBBLE_RETURN_IF_ERROR(set(weight_scales_, shape.n, kDescAScaleMode, kDescAScalePointer));
  return set(activation_scales_, shape.m, kDescBScaleMode, kDescBScalePointer);
}

Result<> LtProduct::choose(const LtShape& shape) {
  const Cublaslt& lt = *library_;
  NIBBLE_ASSIGN_OR_RETURN(workspace_, cuda::DeviceBuffer::make(kWorkspaceBytes));
  Preference preference = nullptr;
  NIBBLE_RETURN_IF_ERROR(
      lt.check(lt.MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate"));
  Status status = lt.MatmulPreferenceSetAttribute(preference, kPreferenceWorkspace,
                                                  &kWorkspaceBytes, sizeof kWorkspaceBytes);
  Heuristic found{};
  int count = 0;
  if (status == kLtSuccess) {
    status = lt.MatmulAlgoGetHeuristic(handle_, desc_, weights_, activations_, output_, output_,
                                       preference, 1, &found, &count);
  }
  lt.MatmulPreferenceDestroy(preference);
  const Result<> asked = lt.check(status, "MatmulAlgoGetHeuristic");
  if (!asked.ok() || count < 1) {
    return run_error("cuBLASLt has no {} product of {} x {} x {} on this GPU{}",
                     to_string(shape.format), shape.m, shape.n, shape.k,
                     asked.ok() ? std::string() : fmt::format(" ({})", asked.error().message));
  }
  NIBBLE_RETURN_IF_ERROR(lt.check(found.state, "MatmulAlgoGetHeuristic"));
  algorithm_ = found.algorithm;
  return {};
}

Result<> LtProduct::enqueue(const LtArguments& arguments, cuda::Stream& stream) {
  constexpr float kAlpha = 1;
  constexpr float kBeta = 0;
  void* output = pointer(arguments.output);
  return library_->check(
      library_->Matmul(handle_, desc_, &kAlpha, pointer(arguments.weights), weights_,
                       pointer(arguments.activations), activations_, &kBeta, output, output_,
                       output, output_, &algorithm_, pointer(workspace_.address()), kWorkspaceBytes,
                       static_cast<LtStream>(stream.handle())),
      "Matmul");
}

}  // namespace nibble
