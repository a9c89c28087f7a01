#include "checkpoint/binding.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>

#include "base/text.h"
#include "checkpoint/binding_parts.h"
#include "checkpoint/elements.h"
#include "checkpoint/expected.h"

namespace nibble {
namespace {

bool is_kv_scale(std::string_view name) {
  return name.ends_with(".k_scale") || name.ends_with(".v_scale");
}

std::vector<ModuleTensors> group_by_module(const std::vector<StoredTensor>& tensors) {
  std::vector<ModuleTensors> modules;
  std::unordered_map<std::string_view, std::size_t> known;
  for (const StoredTensor& tensor : tensors) {
    const std::string_view name = tensor.name();
    const std::size_t dot = name.rfind('.');
    const std::string_view module = name.substr(0, dot == std::string_view::npos ? 0 : dot);
    const std::string_view suffix = dot == std::string_view::npos ? name : name.substr(dot + 1);
    const auto [entry, is_new] = known.try_emplace(module, modules.size());
    if (is_new) modules.push_back({module, {}});
    modules[entry->second].tensors.emplace_back(suffix, &tensor);
  }
  return modules;
}

}  // namespace

class Binder {
 public:
  explicit Binder(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), used_(checkpoint.tensors().size(), false) {
    out_.checkpoint_ = &checkpoint;
    out_.faults_ = checkpoint.faults();
    if (checkpoint.model()) {
      main_layers_ = static_cast<std::int64_t>(checkpoint.model()->layers.size());
    }
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      out_.regions_.push_back(region_of(tensor.name(), main_layers_));
    }
  }
  Binding bind();

 private:
  FaultLog& log() { return out_.faults_; }
  void use(const StoredTensor* tensor) {
    if (tensor != nullptr) used_[checkpoint_.number(*tensor)] = true;
  }
  void find_matrices();
  void expect();
  void expect_matrix(const ExpectedMatrix& expected);
  void expect_absent(const ExpectedMatrix& expected);
  void check_loadable(const ExpectedMatrix& expected, const StoredMatrix& found);
  void check_shape(const ExpectedMatrix& expected, const StoredMatrix& found);
  void expect_vector(const ExpectedVector& expected);
  void missing(const std::string& name, bool mtp);
  bool has_mtp() const;
  void read_kv_scales();
  void place_leftovers();
  void ignore(const StoredTensor& tensor, std::string_view reason);
  void read_factors();
  std::optional<float> scalar(const StoredTensor& tensor);

  const Checkpoint& checkpoint_;
  std::vector<bool> used_;
  std::optional<std::int64_t> main_layers_;
  Binding out_;
};

void Binder::find_matrices() {
  std::vector<StoredMatrix> found;
  for (const ModuleTensors& module : group_by_module(checkpoint_.tensors())) {
    for (const Dialect* dialect : {&kModelopt, &kCompressedTensors, &kGptOss, &kUnpacked}) {
      dialect->recognise(module, checkpoint_, found, log());
    }
  }
  std::sort(found.begin(), found.end(),
            [](const StoredMatrix& a, const StoredMatrix& b) { return a.name < b.name; });
  out_.matrices_.reserve(found.size());
  for (StoredMatrix& matrix : found) {
    if (matrix.codes->info->bytes() == 0) {
      log().add(Severity::kError, "wrong-shape", matrix.codes->name(), "holds no element");
      matrix.sound = false;
    }
    const Region region = out_.regions_[checkpoint_.number(*matrix.codes)];
    out_.matrices_.push_back({.stored = std::move(matrix), .region = region});
  }
  for (std::size_t number = 0; number < out_.matrices_.size(); ++number) {
    const std::string& name = out_.matrices_[number].stored.name;
    if (out_.by_name_.try_emplace(name, number).second) continue;
    log().add(Severity::kError, "matrix-twice", name, "is stored in two dialects at once");
  }
}

void Binder::missing(const std::string& name, bool mtp) {
  if (checkpoint_.may_be_lost(name)) return;
  if (mtp) {
    log().add(Severity::kWarning, "missing-mtp-tensor", name,
              "the MTP layer calls for it; without it speculative decoding by MTP is not possible");
  } else {
    log().add(Severity::kError, "missing-tensor", name,
              "config.json calls for it, but the checkpoint does not hold it");
  }
}

void Binder::check_shape(const ExpectedMatrix& expected, const StoredMatrix& found) {
  // What of it does not fit together has been told; by which part to judge it nobody can say.
  if (!found.sound) return;
  const bool packed_stack = found.copies > 0 && !found.loadable && found.format == Format::kNvfp4;
  if (packed_stack) return;  // which way round it is packed differs from tool to tool
  const bool upright = found.rows == expected.rows && found.columns == expected.columns;
  const bool lying = found.copies > 0 && found.rows == expected.columns &&
                     found.columns == expected.rows && !found.loadable;
  if (found.copies == expected.copies && (upright || lying)) return;
  const auto text = [](std::int64_t copies, std::int64_t rows, std::int64_t columns) {
    return copies > 0 ? fmt::format("{} x {} x {}", copies, rows, columns)
                      : fmt::format("{} x {}", rows, columns);
  };
  log().add(Severity::kError, "wrong-shape", found.name,
            fmt::format("is {}, but config.json calls for {}",
                        text(found.copies, found.rows, found.columns),
                        text(expected.copies, expected.rows, expected.columns)));
}

// No codes under this name. What else stands there belongs to the missing codes, and says how their
// dialect calls them.
void Binder::expect_absent(const ExpectedMatrix& expected) {
  if (const StoredTensor* odd = checkpoint_.find(expected.name + ".weight")) {
    use(odd);
    log().add(Severity::kError, "wrong-dtype", odd->name(),
              fmt::format("is {} {}, which is no matrix in a form that nibble knows",
                          to_string(odd->info->dtype), shape_text(odd->info->shape)));
    return;
  }
  std::string codes = ".weight";
  for (const char* suffix :
       {".weight_scale", ".weight_scale_2", ".input_scale", ".weight_scale_inv",
        ".weight_global_scale", ".input_global_scale", "_scales", "_bias"}) {
    const StoredTensor* companion = checkpoint_.find(expected.name + suffix);
    if (companion == nullptr) continue;
    use(companion);
    if (std::string_view(suffix).ends_with("_global_scale")) codes = ".weight_packed";
    if (std::string_view(suffix) == "_scales") codes = "_blocks";
  }
  if (!checkpoint_.may_be_lost(expected.name)) missing(expected.name + codes, expected.mtp);
}

// Refuses here what loading would refuse: the report must not call it servable.
void Binder::check_loadable(const ExpectedMatrix& expected, const StoredMatrix& found) {
  if (found.loadable || !found.sound) return;
  log().add(expected.mtp ? Severity::kWarning : Severity::kError, "form-not-loaded", found.name,
            fmt::format("is {}{}, a form that nibble knows but does not load",
                        found.copies > 0 ? "a stack of experts in " : "", to_string(found.format)));
}

void Binder::expect_matrix(const ExpectedMatrix& expected) {
  const auto known = out_.by_name_.find(expected.name);
  if (known == out_.by_name_.end()) return expect_absent(expected);
  BoundMatrix& matrix = out_.matrices_[known->second];
  matrix.expected = true;
  check_shape(expected, matrix.stored);
  check_loadable(expected, matrix.stored);
  const StoredMatrix& stored = matrix.stored;
  for (const StoredTensor* tensor : {stored.codes, stored.scales, stored.factor, stored.input}) {
    use(tensor);
  }
  if (!expected.bias) return;
  use(stored.bias);
  if (stored.bias == nullptr) {
    missing(expected.name + (stored.copies > 0 ? "_bias" : ".bias"), expected.mtp);
  }
}

void Binder::expect_vector(const ExpectedVector& expected) {
  for (const std::string& name : expected.names) {
    const StoredTensor* tensor = checkpoint_.find(name);
    if (tensor == nullptr) continue;
    use(tensor);
    if (tensor->info->elements() != static_cast<std::uint64_t>(expected.elements)) {
      log().add(Severity::kError, "wrong-shape", name,
                fmt::format("is {}, but config.json calls for {} elements",
                            shape_text(tensor->info->shape), expected.elements));
    }
    const Dtype dtype = tensor->info->dtype;
    if (dtype != Dtype::kBf16 && dtype != Dtype::kF16 && dtype != Dtype::kF32) {
      log().add(
          Severity::kError, "wrong-dtype", name,
          fmt::format("is {}, but a vector of weights is BF16, F16 or F32", to_string(dtype)));
    }
    return;
  }
  missing(expected.names.front(), expected.mtp);
}

bool Binder::has_mtp() const {
  return std::find(out_.regions_.begin(), out_.regions_.end(), Region::kMtp) != out_.regions_.end();
}

void Binder::expect() {
  const ModelSpec& model = *checkpoint_.model();
  const auto is_stacked = [this](const std::string& experts) {
    const std::string gate_up = experts + ".gate_up_proj";
    const std::string down = experts + ".down_proj";
    return out_.by_name_.contains(gate_up) || out_.by_name_.contains(down) ||
           checkpoint_.is_lost(gate_up) || checkpoint_.is_lost(down);
  };
  const ExpectedTensors expected = expect_tensors(model, is_stacked);
  const bool mtp = has_mtp();
  if (!mtp && model.mtp_layers > 0) {
    log().add(
        Severity::kInfo, "mtp-absent", "config.json",
        "speaks of MTP layers, but the checkpoint holds none: no speculative decoding by MTP");
  }
  for (const ExpectedMatrix& matrix : expected.matrices) {
    if (!matrix.mtp || mtp) expect_matrix(matrix);
  }
  for (const ExpectedVector& vector : expected.vectors) {
    if (!vector.mtp || mtp) expect_vector(vector);
  }
}

void Binder::read_kv_scales() {
  for (const StoredTensor& tensor : checkpoint_.tensors()) {
    if (!is_kv_scale(tensor.name())) continue;
    use(&tensor);
    const Dtype dtype = tensor.info->dtype;
    if ((dtype != Dtype::kF32 && dtype != Dtype::kBf16) || tensor.info->elements() != 1) {
      log().add(Severity::kError, "wrong-dtype", tensor.name(),
                fmt::format("is {} {}; a scale of the KV cache is one F32 or BF16 number",
                            to_string(dtype), shape_text(tensor.info->shape)));
      continue;
    }
    if (const std::optional<float> value = scalar(tensor)) {
      out_.kv_scales_.push_back({std::string(tensor.name()), *value});
    }
  }
}

void Binder::ignore(const StoredTensor& tensor, std::string_view reason) {
  auto entry =
      std::find_if(out_.ignored_.begin(), out_.ignored_.end(),
                   [reason](const IgnoredTensors& known) { return known.reason == reason; });
  if (entry == out_.ignored_.end()) {
    out_.ignored_.push_back({.reason = std::string(reason)});
    entry = out_.ignored_.end() - 1;
  }
  ++entry->tensors;
  entry->bytes += tensor.info->bytes();
  if (entry->examples.size() < FaultLog::kMostExamples) {
    entry->examples.push_back(example_of(tensor.name()));
  }
}

// What nothing called for: excused by its name, or an error.
void Binder::place_leftovers() {
  const bool tied = checkpoint_.model()->tied_embeddings;
  for (std::size_t number = 0; number < used_.size(); ++number) {
    if (used_[number]) continue;
    const StoredTensor& tensor = checkpoint_.tensors()[number];
    const Region region = out_.regions_[number];
    const bool beyond =
        region == Region::kMtp && is_beyond_layers(tensor.name(), *checkpoint_.model());
    const std::string_view reason = beyond
                                        ? "belongs to a layer beyond those that config.json names"
                                        : reason_to_ignore(tensor.name(), region, tied);
    if (!reason.empty()) {
      ignore(tensor, reason);
    } else if (tensor.name().ends_with(".pre_quant_scale")) {
      log().add(Severity::kError, "pre-quant-scale", tensor.name(),
                "AWQ's scale of the activations must be applied, and nibble does not do that");
    } else {
      log().add(Severity::kError, "extra-tensor", tensor.name(),
                "config.json does not call for it, and nothing says that it may be left out");
    }
  }
}

void Binder::read_factors() {
  for (BoundMatrix& matrix : out_.matrices_) {
    StoredMatrix& stored = matrix.stored;
    if (!stored.sound || !stored.loadable) continue;
    // Returns the multiplier. A number that is there and cannot be read has no default.
    const auto read = [&](const StoredTensor& tensor, float& as_stored) -> std::optional<float> {
      const std::optional<float> value = scalar(tensor);
      if (!value) stored.sound = false;
      if (!value) return std::nullopt;
      as_stored = *value;
      return stored.dialect->multiplier(*value);
    };
    if (stored.factor != nullptr) matrix.factor = read(*stored.factor, matrix.stored_factor);
    if (stored.input != nullptr && stored.format == Format::kNvfp4) {
      matrix.input_scale = read(*stored.input, matrix.stored_input);
    }
  }
}

// Nothing when the file no longer holds it: a fault of the file then.
std::optional<float> Binder::scalar(const StoredTensor& tensor) {
  const Result<float> value = read_scalar(checkpoint_, tensor);
  if (value.ok()) return *value;
  checkpoint_.note_unread(tensor, value.error(), log());
  return std::nullopt;
}

Binding Binder::bind() {
  find_matrices();
  read_kv_scales();
  if (checkpoint_.model()) {
    expect();
    place_leftovers();
    check_layers(checkpoint_, out_.regions_, log());
    compare_claims(checkpoint_.model()->quantization, out_.matrices_, log());
  }
  compare_activations(out_.matrices_, log());
  read_factors();
  FaultLog values;
  check_values(out_, values);
  out_.faults_.append(values);
  return std::move(out_);
}

Binding Binding::make(const Checkpoint& checkpoint) {
  return Binder(checkpoint).bind();
}

const BoundMatrix* Binding::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &matrices_[found->second];
}

std::optional<ExpertBinding> Binding::expert(std::size_t layer, std::int64_t expert) const {
  const std::optional<ModelSpec>& model = checkpoint_->model();
  if (!model || !model->moe || layer >= model->layers.size() || !model->layers[layer].moe ||
      expert < 0 || expert >= model->moe->experts) {
    return std::nullopt;
  }
  const std::string experts = block_prefix(*model, layer) + "experts.";
  ExpertBinding bound;
  if (const BoundMatrix* stack = find(experts + "gate_up_proj")) {
    bound = {stack, stack, find(experts + "down_proj"), expert};
  } else {
    const std::string below = fmt::format("{}{}.", experts, expert);
    bound = {find(below + model->names.gate), find(below + up_name(model->names)),
             find(below + model->names.down), 0};
  }
  if (bound.gate == nullptr || bound.up == nullptr || bound.down == nullptr) return std::nullopt;
  return bound;
}

Result<float> read_scalar(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  const Dtype dtype = tensor.info->dtype;
  NIBBLE_CHECK(tensor.info->elements() == 1 && (dtype == Dtype::kBf16 || dtype == Dtype::kF32));
  std::array<std::byte, sizeof(float)> bytes = {};
  const std::span<std::byte> out = std::span(bytes).first(tensor.info->bytes());
  NIBBLE_RETURN_IF_ERROR(checkpoint.read(tensor, 0, out));
  return element_at(dtype, out, 0);
}

}  // namespace nibble
