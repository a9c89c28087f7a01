#include "checkpoint/inspect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/text.h"

namespace nibble {
namespace {

void widen(std::optional<float>& smallest, std::optional<float>& largest, float value) {
  smallest = smallest ? std::min(*smallest, value) : value;
  largest = largest ? std::max(*largest, value) : value;
}

std::string folder_name(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path full = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const std::string name = full.filename().string();
  return name.empty() ? path : name;  // "/" has no name of its own
}

class Reporter {
 public:
  explicit Reporter(const Binding& binding)
      : binding_(binding), checkpoint_(binding.checkpoint()) {}

  CheckpointReport report(const InspectOptions& options,
                          const std::function<Progress*(double)>& scanning);

 private:
  void add_identity();
  void add_files();
  void add_parts();
  void add_scope();
  void add_dialects();
  void add_kv_scales();
  void add_values(const std::vector<ValueStats>& values);
  void add_faults(const FaultLog& found);

  const Binding& binding_;
  const Checkpoint& checkpoint_;
  CheckpointReport out_;
};

void Reporter::add_identity() {
  out_.path = checkpoint_.path();
  out_.name = folder_name(checkpoint_.path());
  out_.tensors = checkpoint_.tensors().size();
  if (const std::optional<ModelSpec>& model = checkpoint_.model()) {
    out_.architecture = model->architecture;
    out_.claim = model->quantization.summary();
    out_.described = count_parameters(*model);
  }
}

void Reporter::add_files() {
  for (const Shard& shard : checkpoint_.shards()) {
    FileReport file{.name = shard.name, .readable = shard.file.has_value()};
    if (shard.file) {
      file.bytes = shard.file->file_bytes();
      file.header_bytes = shard.file->header_bytes();
      file.tensors = shard.file->tensors().size();
    }
    out_.bytes += static_cast<double>(file.bytes);
    out_.files.push_back(std::move(file));
  }
}

void Reporter::add_parts() {
  const std::vector<StoredTensor>& tensors = checkpoint_.tensors();
  // Parameters of each tensor: of codes the matrix's, of scales and factors none.
  std::vector<double> parameters(tensors.size());
  std::array<PartReport, kRegions> parts;
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    PartReport& part = parts[static_cast<std::size_t>(binding_.region(number))];
    part.region = binding_.region(number);
    ++part.tensors;
    part.bytes += static_cast<double>(tensors[number].info->bytes());
    parameters[number] = static_cast<double>(tensors[number].info->elements());
  }
  for (const BoundMatrix& matrix : binding_.matrices()) {
    const StoredMatrix& stored = matrix.stored;
    ++parts[static_cast<std::size_t>(matrix.region)].matrices;
    for (const StoredTensor* part : {stored.scales, stored.factor, stored.input}) {
      if (part != nullptr) parameters[checkpoint_.number(*part)] = 0;
    }
    parameters[checkpoint_.number(*stored.codes)] = stored.parameters();
  }
  for (const KvScale& scale : binding_.kv_scales()) {
    parameters[checkpoint_.number(*checkpoint_.find(scale.tensor))] = 0;
  }
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    parts[static_cast<std::size_t>(binding_.region(number))].parameters += parameters[number];
  }
  for (const PartReport& part : parts) {
    out_.parameters += part.parameters;
    if (part.tensors > 0) out_.parts.push_back(part);
  }
  std::stable_sort(out_.parts.begin(), out_.parts.end(),
                   [](const PartReport& a, const PartReport& b) { return a.bytes > b.bytes; });
}

void Reporter::add_scope() {
  using Key = std::tuple<Region, Format, Format, Format, bool>;
  std::map<Key, ScopeReport> rows;
  for (const BoundMatrix& matrix : binding_.matrices()) {
    const StoredMatrix& stored = matrix.stored;
    const ModuleFormat claimed =
        matrix.claimed.value_or(ModuleFormat{stored.format, stored.format});
    ScopeReport& row =
        rows[{matrix.region, stored.format, claimed.weights, claimed.activations, matrix.agrees}];
    row.region = matrix.region;
    row.found = stored.format;
    row.claimed = matrix.claimed;
    row.agrees = matrix.agrees;
    ++row.matrices;
    row.parameters += stored.parameters();
    row.bytes += static_cast<double>(stored.bytes());
    row.with_input_scale += stored.input != nullptr ? 1 : 0;
    if (row.examples.size() < FaultLog::kMostExamples)
      row.examples.push_back(example_of(stored.name));
  }
  for (auto& [key, row] : rows) out_.scope.push_back(std::move(row));
  std::stable_sort(out_.scope.begin(), out_.scope.end(),
                   [](const ScopeReport& a, const ScopeReport& b) { return a.bytes > b.bytes; });
}

void Reporter::add_dialects() {
  std::map<std::string, std::uint64_t> counts;
  for (const BoundMatrix& matrix : binding_.matrices()) {
    if (matrix.stored.dialect != &kUnpacked) ++counts[std::string(matrix.stored.dialect->name)];
  }
  for (const auto& [name, count] : counts) out_.dialects.push_back(name);
  std::stable_sort(
      out_.dialects.begin(), out_.dialects.end(),
      [&](const std::string& a, const std::string& b) { return counts[a] > counts[b]; });
}

void Reporter::add_kv_scales() {
  out_.kv_scales = binding_.kv_scales().size();
  for (const KvScale& scale : binding_.kv_scales()) {
    if (std::isfinite(scale.value)) widen(out_.min_kv_scale, out_.max_kv_scale, scale.value);
  }
}

void Reporter::add_values(const std::vector<ValueStats>& values) {
  std::map<std::pair<Region, Format>, ValueReport> rows;
  for (std::size_t number = 0; number < values.size(); ++number) {
    const BoundMatrix& matrix = binding_.matrices()[number];
    if (values[number].values == 0) continue;
    ValueReport& row = rows[{matrix.region, matrix.stored.format}];
    row.region = matrix.region;
    row.format = matrix.stored.format;
    ++row.matrices;
    row.values.merge(values[number]);
    if (matrix.factor && std::isfinite(*matrix.factor)) {
      widen(row.min_factor, row.max_factor, *matrix.factor);
    }
  }
  for (auto& [key, row] : rows) out_.values.push_back(std::move(row));
  std::stable_sort(
      out_.values.begin(), out_.values.end(),
      [](const ValueReport& a, const ValueReport& b) { return a.values.values > b.values.values; });
}

void Reporter::add_faults(const FaultLog& found) {
  out_.faults = found.faults();
  std::stable_sort(out_.faults.begin(), out_.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.severity > b.severity; });
}

CheckpointReport Reporter::report(const InspectOptions& options,
                                  const std::function<Progress*(double)>& scanning) {
  add_identity();
  add_files();
  add_parts();
  add_scope();
  add_dialects();
  add_kv_scales();
  out_.ignored = binding_.ignored();
  FaultLog faults = binding_.faults();
  if (options.deep) {
    Progress* progress = scanning ? scanning(scan_bytes(binding_)) : nullptr;
    FaultLog of_values;
    const std::vector<ValueStats> values = scan_values(binding_, progress, faults);
    check_scanned(binding_, values, of_values);
    faults.append(of_values);
    add_values(values);
    out_.deep = true;
  }
  add_faults(faults);
  return std::move(out_);
}

}  // namespace

std::uint64_t CheckpointReport::count(Severity severity) const {
  return static_cast<std::uint64_t>(
      std::count_if(faults.begin(), faults.end(),
                    [severity](const Fault& fault) { return fault.severity == severity; }));
}

CheckpointReport inspect_checkpoint(const Checkpoint& checkpoint, const InspectOptions& options,
                                    const std::function<Progress*(double)>& scanning) {
  const Binding binding = Binding::make(checkpoint);
  return Reporter(binding).report(options, scanning);
}

}  // namespace nibble
