// Inside the diagnosis of a case: the scene that all analyses share, and how findings name their
// inputs. One file a concern: explain_kernels, explain_formats, explain_routing, explain_step, ...
//
//   scene.conclude({.id = "kernel.memory_floor." + slug, .point = 2, .title = "Memory floor",
//                   .value = us, .unit = "us", .formula = "bytes / bandwidth",
//                   .inputs = Inputs(scene).shape(kernel).bandwidth().list(), .sentence = ...});
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "explain/explain.h"
#include "ledger/tile.h"

namespace nibble {

// A number of the case that replaced another one of the catalog.
struct Override {
  std::string path;  // "model.hidden"
  std::string what;  // "hidden size"
  std::string unit;
  double given = 0;
  double catalog = 0;
  std::string of;           // "catalog: glm-5-nvfp4"
  std::string replaced_by;  // the source of a flag's number that stands instead; empty: none
};

// A Finding whose every member may be left out.
struct Draft {
  std::string id = {};
  int point = 0;
  std::string title = {};
  std::optional<double> value = {};
  std::string unit = {};
  std::string verdict = {};
  std::string formula = {};
  std::vector<FindingInput> inputs = {};
  std::vector<std::string> assumptions = {};
  Confidence confidence = Confidence::kDerived;
  std::string sentence = {};
};

// What is known before anything is concluded.
struct Scene {
  Scene(const Case& described, PeakIs meant) : found(described), peak_is(meant) {}

  const Case& found;
  PeakIs peak_is;  // how the quoted peak is meant in this analysis
  ModelSpec catalog_model;
  MachineSpec catalog_machine;
  std::vector<Override> overrides;   // numbers that differ
  std::vector<std::string> ignored;  // numbers of the case that nothing here can take, and why
  bool fp4_by_flag = false;          // `adjust` set the FP4 peak: the quoted one is not used
  CaseAnalysis analysis;             // the deployment is in it

  const Deployment& deployment() const { return analysis.deployment; }
  const MachineSpec& machine() const { return analysis.deployment.machine; }
  const ModelSpec& model() const { return analysis.deployment.model; }

  void conclude(Draft draft);
  // A finding without a value: `missing` says why, and its sentence too.
  void cannot_say(std::string id, int point, std::string title, std::string reason);
  void lacks(std::string signal);  // an entry of missing_signals, once
};

// The catalog's model and machine with the case's numbers in their place.
Result<Scene> set_scene(const Case& found, const CaseOptions& options, PeakIs peak_is);
PeakIs quoted_peak_is(const Case& found, const CaseOptions& options);

// Collects the inputs of a finding; each method appends some with their sources.
class Inputs {
 public:
  explicit Inputs(const Scene& scene) : scene_(scene) {}

  Inputs& add(std::string name, double value, std::string unit, std::string source);
  Inputs& given(std::string name, double value, std::string unit, std::string_view case_path);
  Inputs& number(std::string name, const Sourced& number, std::string unit);
  Inputs& shape(const MeasuredKernel& kernel);   // m, n, k
  Inputs& timing(const MeasuredKernel& kernel);  // the rate or the time
  Inputs& bandwidth();
  Inputs& peak(Precision precision);
  Inputs& sms();
  Inputs& experts();       // experts, top_k
  Inputs& expert_sizes();  // hidden, moe_intermediate
  Inputs& layers();
  Inputs& layout();
  Inputs& link();
  Inputs& memory();
  Inputs& cap();      // max_running_requests
  Inputs& lengths();  // input_len, output_len
  Inputs& concurrency(const MeasuredLevel& level);
  Inputs& rate(const MeasuredLevel& level);  // output_tok_s, or total_tok_s
  // Everything that the floor of a step rests on, without the load.
  Inputs& deployment();

  std::vector<FindingInput> list() const { return list_; }

 private:
  Inputs& model_number(std::string name, double value, const std::optional<std::int64_t>& given,
                       std::string_view path);

  const Scene& scene_;
  std::vector<FindingInput> list_;
};

// The tile that most GEMM libraries take first.
inline constexpr TileShape kUsualTile{128, 128, 128};

// Prompts are prefilled in chunks of at least this many tokens, the usual limit of the engines, so
// that weights are read once for many prompts; a server that runs smaller passes pays more.
inline constexpr double kPrefillChunkTokens = 8192;

// "nvfp4.16x2048x6144": the part of an id that names a kernel.
std::string kernel_slug(const MeasuredKernel& kernel);
std::string level_slug(double concurrency);  // "1024"
std::string percent_text(double ratio);      // "39.3 %"
std::string times_text(double ratio);        // "110 x", "21.1 x"
// "1 request", "1,024 requests".
std::string counted(double count, std::string_view noun);
bool has_shape(const MeasuredKernel& kernel);
// Generated tokens per second: stated, or the total's share of them.
std::optional<double> output_rate(const Case& found, const std::optional<double>& output,
                                  const std::optional<double>& total);
double running(const Case& found, double concurrency);  // min(concurrency, max_running_requests)
// Mean tokens in the cache of a running sequence: the prompt and half of the output.
std::optional<double> mean_context(const Case& found);

// One MoE layer's expert GEMMs on a rank: reading them against multiplying padded tiles.
struct LayerTiles {
  double layers = 0;         // of the step
  double rows = 0;           // per expert, mean
  double memory_us = 0;      // of one layer
  double padded_128_us = 0;  // rows padded to 128, MMAs at peak
  double padded_256_us = 0;
  double win_us = 0;  // what a better tile could win at most, one layer
};
LayerTiles layer_tiles(const Scene& scene, const LevelAnalysis& level);

KernelAnalysis analyze_kernel(const Scene& scene, const MeasuredKernel& measured);

// The analyses, in the order in which they run; each fills its part of scene.analysis.
void explain_kernels(Scene& scene);      // points 1 and 2
void explain_formats(Scene& scene);      // 6
Result<> explain_routing(Scene& scene);  // 3
void explain_shapes(Scene& scene);       // 4
Result<> measure_levels(Scene& scene);   // levels and headline: no findings
void explain_step(Scene& scene);         // 5
void explain_collectives(Scene& scene);  // 5
void explain_power(Scene& scene);        // 7
void explain_capacity(Scene& scene);     // 8
void explain_plateau(Scene& scene);      // 8
void explain_tiles(Scene& scene);        // 9
void explain_layouts(Scene& scene);      // 10
void explain_little(Scene& scene);       // 13
void explain_sources(Scene& scene);      // 14
void propose(Scene& scene);              // 12
void choose_headlines(Scene& scene);     // which findings are read first
// 11: `other` is the same analysis under the other reading of the peak.
void explain_peak(Scene& scene, const Scene* other);

}  // namespace nibble
