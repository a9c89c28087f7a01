// A layer of experts, on a GPU or the CPU: its weights, its workspace, a call.
#include "kernels/moe/moe.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nibble/nibble.h>
#include <optional>
#include <string>

#include "capi/arguments.h"
#include "capi/cpu_range.h"
#include "capi/cpu_tokens.h"
#include "capi/elements.h"
#include "capi/error.h"
#include "capi/gpu_moe.h"
#include "capi/handles.h"
#include "capi/moe_weights.h"

struct nibble_moe {
  std::shared_ptr<nibble::capi::DeviceState> device;
  nibble_moe_desc desc = {};
  nibble::Format format = nibble::Format::kNvfp4;
  // One of the two.
  std::unique_ptr<nibble::capi::GpuMoe> gpu;
  std::optional<nibble::MoeLayer> cpu;
  std::string tuning;  // what the device's tuning file said of it
};

struct nibble_moe_workspace {
  std::shared_ptr<nibble::capi::DeviceState> device;
  std::unique_ptr<nibble::capi::GpuMoeWorkspace> gpu;
  std::optional<nibble::MoeWorkspace> cpu;
  nibble_moe_desc desc = {};
};

namespace nibble::capi {
namespace {

// Of one layer, on the host.
struct HostLayer {
  HostMatrices gate_up;
  HostMatrices down;
  std::vector<float> gate_up_bias;
  std::vector<float> down_bias;
  bool static_input_scales = false;

  MoeWeights views() const {
    return {.gate_up = gate_up.views(),
            .gate_up_bias = gate_up_bias,
            .down = down.views(),
            .down_bias = down_bias};
  }
};

Result<> check_desc(const nibble_moe_desc& desc, bool on_gpu) {
  NIBBLE_RETURN_IF_ERROR(check_float_dtype("dtype", desc.dtype));
  if (on_gpu && desc.dtype == NIBBLE_FP32) {
    return input_error("dtype is NIBBLE_FP32; a layer takes bf16 or fp16 on a GPU");
  }
  NIBBLE_RETURN_IF_ERROR(
      check_range("activation", desc.activation, NIBBLE_SWIGLU, NIBBLE_CLAMPED_SWIGLU));
  NIBBLE_RETURN_IF_ERROR(
      check_range("operand", desc.operand, NIBBLE_OPERAND_16, NIBBLE_OPERAND_FP4));
  if (!on_gpu && desc.operand == NIBBLE_OPERAND_FP4 && desc.format == NIBBLE_MXFP4) {
    return input_error("operands in mxfp4 need a GPU; the CPU takes nvfp4, or 16 bits");
  }
  NIBBLE_RETURN_IF_ERROR(check_reserved("desc", desc.reserved));
  NIBBLE_RETURN_IF_ERROR(check_range("experts", desc.experts, 1, kMostExpertsGiven));
  NIBBLE_RETURN_IF_ERROR(check_range("top_k", desc.top_k, 1, desc.experts));
  NIBBLE_RETURN_IF_ERROR(check_range("hidden", desc.hidden, 2, kMostSide));
  NIBBLE_RETURN_IF_ERROR(check_range("intermediate", desc.intermediate, 2, kMostSide / 2));
  return check_range("expected_tokens", desc.expected_tokens, 0,
                     std::numeric_limits<std::int32_t>::max());
}

// Both or neither, and of NVFP4 operands alone.
Result<> add_input_scales(const nibble_moe_desc& desc, const nibble_moe_weights& given,
                          Source source, HostLayer& layer) {
  const bool first = given.w13_input_scale != nullptr;
  const bool second = given.w2_input_scale != nullptr;
  if (!first && !second) return {};
  if (desc.operand != NIBBLE_OPERAND_FP4 || desc.format != NIBBLE_NVFP4) {
    return input_error("input scales are given, and the layer's operand is not FP4 in nvfp4");
  }
  if (!first || !second) {
    return input_error("{} is null; give both input scales, or neither",
                       first ? "w2_input_scale" : "w13_input_scale");
  }
  layer.static_input_scales = true;
  NIBBLE_RETURN_IF_ERROR(
      layer.gate_up.set_input_scales("w13_input_scale", given.w13_input_scale, source));
  return layer.down.set_input_scales("w2_input_scale", given.w2_input_scale, source);
}

Result<HostLayer> read_layer(const nibble_moe_desc& desc, const nibble_moe_weights& given,
                             Source source) {
  NIBBLE_ASSIGN_OR_RETURN(const Format format, format_of(desc.format));
  HostLayer layer;
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up,
                          HostMatrices::read({.names = {"w13", "w13_scale", "w13_factor"},
                                              .format = format,
                                              .experts = desc.experts,
                                              .rows = 2 * desc.intermediate,
                                              .columns = desc.hidden,
                                              .scale_layout = given.scale_layout,
                                              .gated = true,
                                              .row_order = given.row_order,
                                              .codes = given.w13,
                                              .scales = given.w13_scale,
                                              .factors = given.w13_factor},
                                             source));
  NIBBLE_ASSIGN_OR_RETURN(layer.down, HostMatrices::read({.names = {"w2", "w2_scale", "w2_factor"},
                                                          .format = format,
                                                          .experts = desc.experts,
                                                          .rows = desc.hidden,
                                                          .columns = desc.intermediate,
                                                          .scale_layout = given.scale_layout,
                                                          .codes = given.w2,
                                                          .scales = given.w2_scale,
                                                          .factors = given.w2_factor},
                                                         source));
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_bias,
                          read_bias("w13_bias", given.w13_bias, desc.experts, 2 * desc.intermediate,
                                    given.row_order, source));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_bias, read_bias("w2_bias", given.w2_bias, desc.experts,
                                                     desc.hidden, NIBBLE_GATE_UP, source));
  NIBBLE_RETURN_IF_ERROR(add_input_scales(desc, given, source, layer));
  return layer;
}

Activation activation_of(const nibble_moe_desc& desc) {
  Activation activation;
  if (desc.activation == NIBBLE_CLAMPED_SWIGLU) activation.kind = ActivationKind::kClampedSwiGlu;
  if (desc.swiglu_alpha != 0) activation.alpha = desc.swiglu_alpha;
  if (desc.swiglu_limit != 0) activation.limit = desc.swiglu_limit;
  return activation;
}

RouterConfig router_of(const nibble_moe_desc& desc) {
  return {.experts = desc.experts, .top_k = desc.top_k};
}

// ---- On a GPU -----------------------------------------------------------------------------------

Result<> make_on_gpu(nibble_moe& moe, const nibble_moe_weights& given) {
  Gpu& gpu = *moe.device->gpu;
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
  // What an engine still writes of its weights has ended before they are read.
  NIBBLE_RETURN_IF_ERROR(gpu.device.synchronize());
  NIBBLE_ASSIGN_OR_RETURN(const HostLayer host,
                          read_layer(moe.desc, given, given.on_device != 0 ? driver : nullptr));
  const Element element = moe.desc.dtype == NIBBLE_FP16 ? Element::kFp16 : Element::kBf16;
  NIBBLE_ASSIGN_OR_RETURN(moe.gpu, make_gpu_moe(gpu, moe.desc,
                                                {.hidden = moe.desc.hidden,
                                                 .intermediate = moe.desc.intermediate,
                                                 .router = router_of(moe.desc),
                                                 .activation = activation_of(moe.desc),
                                                 .activations = element,
                                                 .output = element,
                                                 .static_input_scales = host.static_input_scales},
                                                host.views()));
  return {};
}

cuda::DevicePointer moe_address(const void* pointer) {
  return reinterpret_cast<cuda::DevicePointer>(pointer);
}

Result<> enqueue_layer(const nibble_moe& moe, nibble_moe_workspace& workspace,
                       const nibble_moe_args& args, void* stream) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::get());
  const cuda::Device& device = moe.device->gpu->device;
  cuda::BorrowedStream borrowed(*driver, device.context(), static_cast<cuda::abi::Stream>(stream));
  return moe.gpu->run(*workspace.gpu,
                      {.x = moe_address(args.hidden_states),
                       .expert_ids = moe_address(args.topk_ids),
                       .expert_weights = moe_address(args.topk_weights),
                       .shared = moe_address(args.shared),
                       .y = moe_address(args.out),
                       .tokens = args.tokens},
                      borrowed.stream());
}

// ---- On the CPU ---------------------------------------------------------------------------------

Format cpu_activations(const nibble_moe_desc& desc) {
  if (desc.operand == NIBBLE_OPERAND_FP4) return Format::kNvfp4;
  return desc.dtype == NIBBLE_BF16 ? Format::kBf16 : Format::kFp32;
}

Result<> check_layer_held(const HostLayer& host, const nibble_moe_weights& given) {
  // Rows are counted as they are held.
  const std::string_view name =
      given.row_order == NIBBLE_GATE_UP ? "w13" : "w13 (in NIBBLE_GATE_UP's order)";
  NIBBLE_RETURN_IF_ERROR(check_weights_held(name, host.gate_up.views()));
  NIBBLE_RETURN_IF_ERROR(check_weights_held("w2", host.down.views()));
  NIBBLE_RETURN_IF_ERROR(check_input_scales_held("w13_input_scale", host.gate_up.views()));
  return check_input_scales_held("w2_input_scale", host.down.views());
}

Result<> make_on_cpu(nibble_moe& moe, const nibble_moe_weights& given) {
  if (given.on_device != 0) {
    return input_error("weights->on_device is {}, and the layer is to run on the CPU; give 0",
                       given.on_device);
  }
  NIBBLE_ASSIGN_OR_RETURN(const HostLayer host, read_layer(moe.desc, given, nullptr));
  MoeConfig config{.hidden = moe.desc.hidden,
                   .intermediate = moe.desc.intermediate,
                   .router = router_of(moe.desc),
                   .activation = activation_of(moe.desc),
                   .activations = cpu_activations(moe.desc),
                   .static_input_scales = host.static_input_scales};
  const auto tuned =
      moe.device->tuning.choose({.experts = moe.desc.experts,
                                 .top_k = moe.desc.top_k,
                                 .hidden = moe.desc.hidden,
                                 .intermediate = moe.desc.intermediate,
                                 .format = moe.format,
                                 .activations = config.activations,
                                 .tokens = {std::max<std::int64_t>(moe.desc.expected_tokens, 1)},
                                 .threads = moe.device->cpu->threads()});
  if (tuned) {
    config.isa = tuned->values.isa;
    config.threads = tuned->values.threads;
    moe.tuning = tuned->said;
  }
  Result<MoeLayer> layer = input_error("not made");
  NIBBLE_RETURN_IF_ERROR(moe.device->cpu->run(
      [&](ThreadPool& pool) { layer = MoeLayer::make(config, host.views(), pool); }));
  if (!layer.ok()) return layer.error();
  NIBBLE_RETURN_IF_ERROR(check_layer_held(host, given));
  moe.cpu.emplace(std::move(*layer));
  return {};
}

Result<> run_on_cpu(const nibble_moe& moe_layer, nibble_moe_workspace& workspace,
                    const nibble_moe_args& args) {
  const nibble_moe_desc& desc = moe_layer.desc;
  NIBBLE_RETURN_IF_ERROR(moe_layer.device->cpu->check_process());
  NIBBLE_ASSIGN_OR_RETURN(const CpuTokens tokens, CpuTokens::read(desc, args));
  std::vector<float> y(tokens.x.size());
  NIBBLE_RETURN_IF_ERROR(moe_layer.device->cpu->run([&](ThreadPool& pool) {
    moe({.layer = *moe_layer.cpu,
         .workspace = *workspace.cpu,
         .x = tokens.x,
         .expert_ids = tokens.ids,
         .expert_weights = tokens.weights,
         .shared = tokens.shared,
         .y = y},
        pool);
  }));
  NIBBLE_RETURN_IF_ERROR(check_layer_made(desc, *workspace.cpu, y));
  narrow(y, desc.dtype, args.out);
  return {};
}

// ---- Both ---------------------------------------------------------------------------------------

Result<> check_layer_call(const nibble_moe& moe, const nibble_moe_workspace& workspace,
                          const nibble_moe_args& args) {
  NIBBLE_RETURN_IF_ERROR(check_reserved("args", args.reserved));
  const std::int64_t most =
      workspace.gpu ? workspace.gpu->most_tokens() : workspace.cpu->most_tokens();
  const nibble_moe_desc& other = workspace.desc;
  const bool same = workspace.device == moe.device && other.experts == moe.desc.experts &&
                    other.top_k == moe.desc.top_k && other.hidden == moe.desc.hidden &&
                    other.intermediate == moe.desc.intermediate && other.dtype == moe.desc.dtype &&
                    other.format == moe.desc.format && other.operand == moe.desc.operand;
  if (!same) return input_error("the workspace was made for another layer's description");
  if (args.tokens < 0 || args.tokens > most) {
    return input_error("tokens is {}; the workspace holds 0 to {}", args.tokens, most);
  }
  if (args.tokens == 0) return {};
  NIBBLE_RETURN_IF_ERROR(check_given(args.hidden_states, "hidden_states"));
  NIBBLE_RETURN_IF_ERROR(check_given(args.topk_ids, "topk_ids"));
  NIBBLE_RETURN_IF_ERROR(check_given(args.topk_weights, "topk_weights"));
  NIBBLE_RETURN_IF_ERROR(check_given(args.out, "out"));
  if (args.hidden_states == args.out) return input_error("out is hidden_states; give two buffers");
  return {};
}

}  // namespace

extern "C" {

nibble_status nibble_moe_create(nibble_device* device, const nibble_moe_desc* desc,
                                const nibble_moe_weights* weights, nibble_moe** moe) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(moe, "moe"));
    *moe = nullptr;
    NIBBLE_RETURN_IF_ERROR(check_given(device, "device"));
    auto made = std::make_unique<nibble_moe>();
    made->device = device->state;
    NIBBLE_ASSIGN_OR_RETURN(made->desc, read_struct(desc, "desc"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_moe_weights given, read_struct(weights, "weights"));
    NIBBLE_ASSIGN_OR_RETURN(made->format, format_of(made->desc.format));
    NIBBLE_RETURN_IF_ERROR(check_desc(made->desc, device->state->gpu != nullptr));
    if (device->state->gpu) {
      NIBBLE_RETURN_IF_ERROR(
          on_gpu(*device->state->gpu, [&] { return make_on_gpu(*made, given); }));
    } else {
      NIBBLE_RETURN_IF_ERROR(make_on_cpu(*made, given));
    }
    *moe = made.release();
    return {};
  });
}

void nibble_moe_destroy(nibble_moe* moe) {
  const std::unique_ptr<nibble_moe> owned(moe);
}

nibble_status nibble_moe_workspace_create(const nibble_moe* moe, int64_t most_tokens,
                                          nibble_moe_workspace** workspace) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(workspace, "workspace"));
    *workspace = nullptr;
    NIBBLE_RETURN_IF_ERROR(check_given(moe, "moe"));
    NIBBLE_RETURN_IF_ERROR(
        check_range("most_tokens", most_tokens, 1, std::numeric_limits<std::int32_t>::max()));
    auto made = std::make_unique<nibble_moe_workspace>();
    made->device = moe->device;
    made->desc = moe->desc;
    if (moe->gpu) {
      NIBBLE_RETURN_IF_ERROR(on_gpu(*moe->device->gpu, [&]() -> Result<> {
        NIBBLE_ASSIGN_OR_RETURN(made->gpu, moe->gpu->make_workspace(most_tokens));
        return {};
      }));
    } else {
      NIBBLE_ASSIGN_OR_RETURN(made->cpu, MoeWorkspace::make(*moe->cpu, most_tokens));
    }
    *workspace = made.release();
    return {};
  });
}

void nibble_moe_workspace_destroy(nibble_moe_workspace* workspace) {
  const std::unique_ptr<nibble_moe_workspace> owned(workspace);
}

nibble_status nibble_moe_run(const nibble_moe* moe, nibble_moe_workspace* workspace,
                             const nibble_moe_args* args, void* stream) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(moe, "moe"));
    NIBBLE_RETURN_IF_ERROR(check_given(workspace, "workspace"));
    NIBBLE_ASSIGN_OR_RETURN(const nibble_moe_args read, read_struct(args, "args"));
    NIBBLE_RETURN_IF_ERROR(check_layer_call(*moe, *workspace, read));
    if (moe->cpu && stream != nullptr) {
      return input_error("stream is not null, and the layer runs on the CPU");
    }
    if (read.tokens == 0) return {};
    return moe->gpu ? enqueue_layer(*moe, *workspace, read, stream)
                    : run_on_cpu(*moe, *workspace, read);
  });
}

nibble_status nibble_moe_dropped_choices(const nibble_moe_workspace* workspace, int64_t* choices) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(workspace, "workspace"));
    NIBBLE_RETURN_IF_ERROR(check_given(choices, "choices"));
    *choices = 0;
    if (!workspace->gpu) return {};
    return on_gpu(*workspace->device->gpu, [&]() -> Result<> {
      NIBBLE_ASSIGN_OR_RETURN(*choices, workspace->gpu->dropped_choices());
      return {};
    });
  });
}

nibble_status nibble_moe_describe(const nibble_moe* moe, nibble_moe_info* info) {
  return guarded([&]() -> Result<> {
    NIBBLE_RETURN_IF_ERROR(check_given(moe, "moe"));
    nibble_moe_info filled = {};
    if (moe->gpu) {
      filled.is_gpu = 1;
      filled.software_mma = moe->gpu->software_mma() ? 1 : 0;
      write_text(filled.layer, moe->gpu->layer());
      write_text(filled.tactics, moe->gpu->tactics());
    } else {
      write_text(filled.layer, moe_name(moe->cpu->config(), moe->format));
      write_text(filled.tuning, moe->tuning);
    }
    return write_struct(info, filled, "info");
  });
}

}  // extern "C"

}  // namespace nibble::capi
