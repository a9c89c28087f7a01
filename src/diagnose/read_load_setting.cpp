// Who served and how the load was made: `setup` of nibble.load/1.
#include <algorithm>
#include <fmt/format.h>

#include "base/text.h"
#include "diagnose/read_level.h"
#include "diagnose/read_load.h"

namespace nibble::diagnose {
namespace {

// A member of an object that may not be there.
const Json* part_of(const Json* json, std::string_view key) {
  const Json* found = json == nullptr ? nullptr : json->find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

// The first of several places in which servers tell the same number.
std::optional<double> number_at(std::initializer_list<const Json*> places, std::string_view key) {
  for (const Json* place : places) {
    const Json* found = part_of(place, key);
    if (found != nullptr && found->is_number() && found->as_number() > 0) {
      return found->as_number();
    }
  }
  return std::nullopt;
}

std::string text_at(std::initializer_list<const Json*> places, std::string_view key) {
  for (const Json* place : places) {
    const Json* found = part_of(place, key);
    if (found != nullptr && found->is_string()) return printable(found->as_string());
  }
  return "";
}

// Our own server told no engine at first: its model is owned by it.
std::string engine_in(const Json& server) {
  const std::string told = text_at({&server}, "engine");
  if (!told.empty()) return told;
  const Json* models = part_of(&server, "models");
  if (models == nullptr || !models->is_array() || models->as_array().empty()) return "";
  const std::string owner = text_at({&models->as_array().front()}, "owned_by");
  // The mock has the same owner, and no cache.
  const Json* engine = part_of(part_of(&server, "server_info"), "engine");
  return owner == "nibble" && part_of(engine, "kv_blocks") != nullptr ? owner : "";
}

void read_server_info(const Json& server, Setting& setting) {
  const Json* info = part_of(&server, "server_info");
  const Json* engine = part_of(info, "engine");
  const Json* model = part_of(info, "model");
  const Json* config = part_of(info, "vllm_config");
  const Json* scheduler = part_of(config, "scheduler_config");
  const Json* parallel = part_of(config, "parallel_config");
  if (!setting.max_running) {
    setting.max_running = number_at({engine, info}, "max_running_requests");
  }
  if (!setting.max_running) {
    setting.max_running = number_at({scheduler, config, info}, "max_num_seqs");
  }
  const Json* props = part_of(&server, "props");
  if (!setting.max_running) setting.max_running = number_at({props}, "total_slots");
  const auto ranks = [](std::optional<double> told) {
    return static_cast<std::int64_t>(std::min(told.value_or(1), 1e6));
  };
  if (setting.tp == 1) setting.tp = ranks(number_at({info}, "tp_size"));
  if (setting.tp == 1) setting.tp = ranks(number_at({parallel}, "tensor_parallel_size"));
  if (setting.pp == 1) setting.pp = ranks(number_at({info}, "pp_size"));
  if (setting.pp == 1) setting.pp = ranks(number_at({parallel}, "pipeline_parallel_size"));
  if (setting.ep == 1) setting.ep = ranks(number_at({info}, "ep_size"));
  if (setting.gpus == 1) setting.gpus = setting.tp * setting.pp;
  if (setting.tactic.empty()) setting.tactic = text_at({model}, "isa");
  if (setting.best_tactic.empty()) setting.best_tactic = text_at({model}, "best_isa");
}

void read_machine_name(const Json* host, Setting& setting) {
  const std::string cpu = text_at({host}, "cpu");
  const Json* gpus = part_of(host, "gpus");
  const bool any = gpus != nullptr && gpus->is_array() && !gpus->as_array().empty() &&
                   gpus->as_array().front().is_string();
  if (!setting.machine.empty()) return;
  // A server elsewhere has another machine: only our own engine on this host has the client's.
  if (any) {
    setting.machine = printable(gpus->as_array().front().as_string());
  } else if (setting.engine == "nibble") {
    setting.machine = cpu;
  }
}

std::optional<bool> drawn_unique(std::string_view dataset, const Json* options) {
  if (dataset != "random") return std::nullopt;
  const Json* prefix = part_of(options, "random_prefix_len");
  const bool shared = prefix != nullptr && prefix->is_number() && prefix->as_number() > 0;
  return !shared;
}

}  // namespace

Result<> read_load_setting(const Json& setup, const ReadContext& context, Setting& setting) {
  ObjectReader reader(setup, place_in(context, "setup"));
  const Json* server = reader.object("server");
  const Json* host = reader.object("host");
  const std::optional<std::string> dataset = reader.string("dataset");
  const Json* options = reader.object("dataset_options");
  const Json* notes = reader.array("notes");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (server != nullptr) {
    if (setting.engine.empty()) setting.engine = engine_in(*server);
    if (setting.engine_version.empty()) setting.engine_version = text_at({server}, "version");
    read_server_info(*server, setting);
  }
  setting.is_cpu = setting.is_cpu || setting.engine == "nibble";
  read_machine_name(host, setting);
  if (!setting.prompts_unique) {
    setting.prompts_unique = drawn_unique(dataset.value_or(""), options);
  }
  if (setting.title.empty() && !setting.model.empty()) {
    setting.title = setting.machine.empty()
                        ? setting.model
                        : fmt::format("{} on {}", setting.model, setting.machine);
  }
  if (notes == nullptr) return {};
  for (const Json& note : notes->as_array()) {
    if (note.is_string()) setting.notes.push_back(printable(note.as_string(), 300));
  }
  return {};
}

}  // namespace nibble::diagnose
