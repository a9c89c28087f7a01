#include "checkpoint/packed.h"

#include <fmt/core.h>

#include "base/check.h"

namespace nibble {
namespace {

constexpr std::int64_t kNvfp4Block = 16;
constexpr std::int64_t kMxfp4Block = 32;

bool is_e8m0(Dtype dtype) {
  return dtype == Dtype::kU8 || dtype == Dtype::kF8E8M0;
}

}  // namespace

bool is_block_scale(Dtype dtype) {
  return dtype == Dtype::kF8E4M3 || is_e8m0(dtype);
}

namespace {

class PackedReader {
 public:
  PackedReader(const ModuleTensors& tensors, const Checkpoint& checkpoint, const Dialect& dialect,
               const PackedNames& names, FaultLog& log)
      : tensors_(tensors),
        checkpoint_(checkpoint),
        dialect_(dialect),
        names_(names),
        log_(log),
        checks_(dialect, log) {}

  std::optional<StoredMatrix> read();

 private:
  bool is_ours() const;
  void read_shape();
  void read_scales();
  void read_factor();
  void read_input();
  void require(bool right) { out_.sound = out_.sound && right; }

  const ModuleTensors& tensors_;
  const Checkpoint& checkpoint_;
  const Dialect& dialect_;
  const PackedNames& names_;
  FaultLog& log_;
  TensorChecks checks_;
  StoredMatrix out_;
};

// Bytes are packed codes; signed bytes are 8-bit integers, unless scales of 4-bit blocks say that
// only the type is wrong.
bool PackedReader::is_ours() const {
  const Dtype dtype = out_.codes->info->dtype;
  return dtype == Dtype::kU8 || (dtype == Dtype::kI8 && out_.scales != nullptr &&
                                 is_block_scale(out_.scales->info->dtype));
}

void PackedReader::read_shape() {
  const std::vector<std::int64_t>& shape = out_.codes->info->shape;
  if (shape.size() != 2) {
    log_.add(
        Severity::kError, "wrong-shape", out_.codes->name(),
        fmt::format("has {} dimensions; packed codes have 2, [rows, columns / 2]", shape.size()));
    out_.sound = false;
    return;
  }
  out_.rows = shape[0];
  out_.columns = 2 * shape[1];  // the header's bytes bound it far below an overflow
}

void PackedReader::read_scales() {
  if (out_.scales == nullptr) {
    checks_.missing(tensors_.module, names_.scales, checkpoint_);
    out_.sound = false;
    return;
  }
  const bool mxfp4 = is_e8m0(out_.scales->info->dtype);
  out_.format = mxfp4 ? Format::kMxfp4 : Format::kNvfp4;
  if (!mxfp4) require(checks_.has_type(*out_.scales, Dtype::kF8E4M3));
  if (!out_.sound) return;
  const std::int64_t block = mxfp4 ? kMxfp4Block : kNvfp4Block;
  if (out_.columns % block != 0) {
    log_.add(Severity::kWarning, "k-not-multiple", out_.name,
             fmt::format("has {} columns, no multiple of the block of {}; only kernels that take a "
                         "partial block can multiply by it",
                         out_.columns, block));
  }
  require(checks_.has_shape(*out_.scales, {out_.rows, (out_.columns + block - 1) / block}));
}

void PackedReader::read_factor() {
  if (out_.format == Format::kMxfp4) return;
  out_.factor = tensors_.find(names_.factor);
  // Without block scales nobody can tell whether there should be one.
  if (out_.scales == nullptr && out_.factor == nullptr) return;
  if (out_.factor == nullptr) {
    checks_.missing(tensors_.module, names_.factor, checkpoint_);
    out_.sound = false;
    return;
  }
  require(checks_.is_scalar(*out_.factor, Dtype::kF32));
}

void PackedReader::read_input() {
  out_.input = tensors_.find(names_.input);
  if (out_.input != nullptr) {
    require(checks_.is_scalar(*out_.input, Dtype::kF32));
  } else if (checkpoint_.is_lost(fmt::format("{}.{}", tensors_.module, names_.input))) {
    out_.sound = false;  // told with the file that is lost
  }
}

std::optional<StoredMatrix> PackedReader::read() {
  out_.codes = tensors_.find(names_.codes);
  out_.scales = tensors_.find(names_.scales);
  if (out_.codes == nullptr || !is_ours()) return std::nullopt;
  out_.name = out_.module = std::string(tensors_.module);
  out_.dialect = &dialect_;
  out_.format = Format::kNvfp4;
  require(checks_.has_type(*out_.codes, Dtype::kU8));
  out_.bias = tensors_.find(names_.bias);
  read_shape();
  read_scales();
  read_factor();
  read_input();
  return std::move(out_);
}

}  // namespace

bool TensorChecks::has_type(const StoredTensor& tensor, Dtype wanted) {
  if (tensor.info->dtype == wanted) return true;
  log_.add(Severity::kError, "wrong-dtype", tensor.name(),
           fmt::format("is {}, but the dialect {} stores it as {}", to_string(tensor.info->dtype),
                       dialect_.name, to_string(wanted)));
  return false;
}

bool TensorChecks::has_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& wanted) {
  if (tensor.info->shape == wanted) return true;
  log_.add(Severity::kError, "wrong-shape", tensor.name(),
           fmt::format("is {}, but the codes beside it call for {}", shape_text(tensor.info->shape),
                       shape_text(wanted)));
  return false;
}

bool TensorChecks::is_scalar(const StoredTensor& tensor, Dtype wanted) {
  if (!has_type(tensor, wanted)) return false;
  if (tensor.info->elements() == 1) return true;
  log_.add(Severity::kError, "wrong-shape", tensor.name(),
           fmt::format("is {}, but must be one number", shape_text(tensor.info->shape)));
  return false;
}

void TensorChecks::missing(std::string_view module, std::string_view suffix,
                           const Checkpoint& checkpoint) {
  const std::string name = fmt::format("{}.{}", module, suffix);
  if (checkpoint.may_be_lost(name)) return;  // told with the file that is lost
  log_.add(Severity::kError, "missing-tensor", name,
           "is not in the checkpoint, although the codes that it belongs to are");
}

std::optional<StoredMatrix> read_packed(const ModuleTensors& tensors, const Checkpoint& checkpoint,
                                        const Dialect& dialect, const PackedNames& names,
                                        FaultLog& log) {
  return PackedReader(tensors, checkpoint, dialect, names, log).read();
}

}  // namespace nibble
