#include "cli/load_dataset.h"

#include <algorithm>
#include <system_error>

#include "base/text.h"
#include "cli/hub_cache.h"
#include "cli/load_flags.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostTokens = 100'000'000;
constexpr std::int64_t kSglangOutput = 1024;

DatasetKind kind_of(std::string_view name) {
  if (name == "sharegpt") return DatasetKind::kShareGpt;
  if (name == "custom") return DatasetKind::kCustom;
  if (name == "random" || name == "random-ids") return DatasetKind::kRandom;
  return DatasetKind::kSharedPrefix;
}

// A length by the dataset's own name or by the general one of vLLM.
Result<> take_length(const Arguments& arguments, const char* own, const char* general,
                     std::int64_t& target, std::int64_t least = 1) {
  NIBBLE_ASSIGN_OR_RETURN(const auto given, arguments.integer(own, least, kMostTokens));
  NIBBLE_ASSIGN_OR_RETURN(const auto also, arguments.integer(general, 1, kMostTokens));
  if (given && also) {
    return usage_error("{} and {} mean the same here; give one", own, general);
  }
  if (given) target = *given;
  if (also) target = *also;
  return {};
}

struct OwnFlags {
  DatasetKind kind;
  std::vector<const char*> names;
};

// Lengths of another dataset would be ignored: whoever gave them expects something else.
Result<> check_own_flags(const Arguments& arguments, const DatasetFlags& flags) {
  const OwnFlags all[] = {{DatasetKind::kRandom,
                           {"--random-input-len", "--random-output-len", "--random-range-ratio",
                            "--random-prefix-len"}},
                          {DatasetKind::kSharedPrefix,
                           {"--gsp-num-groups", "--gsp-prompts-per-group",
                            "--gsp-system-prompt-len", "--gsp-question-len", "--gsp-output-len"}},
                          {DatasetKind::kShareGpt, {"--sharegpt-output-len"}},
                          {DatasetKind::kCustom, {"--custom-output-len"}}};
  for (const OwnFlags& own : all) {
    if (own.kind == flags.kind) continue;
    for (const char* name : own.names) {
      if (!arguments.has(name)) continue;
      return usage_error("{} does not apply to --dataset-name {}; leave it out", name, flags.name);
    }
  }
  const bool file = flags.kind == DatasetKind::kShareGpt || flags.kind == DatasetKind::kCustom;
  if (file && arguments.has("--input-len")) {
    return usage_error("--input-len does not apply to --dataset-name {}: the file has the prompts",
                       flags.name);
  }
  if (!file && arguments.has("--no-oversample")) {
    return usage_error("--no-oversample is for datasets of files; leave it out");
  }
  return {};
}

Result<> read_random(const Arguments& arguments, bool sglang, load::RandomOptions& options) {
  if (sglang) {
    options.range_rule = load::RangeRule::kSglang;
    options.output_len = kSglangOutput;
  }
  NIBBLE_RETURN_IF_ERROR(
      take_length(arguments, "--random-input-len", "--input-len", options.input_len));
  NIBBLE_RETURN_IF_ERROR(
      take_length(arguments, "--random-output-len", "--output-len", options.output_len));
  NIBBLE_ASSIGN_OR_RETURN(const auto prefix,
                          arguments.integer("--random-prefix-len", 0, kMostTokens));
  NIBBLE_ASSIGN_OR_RETURN(const auto ratio, arguments.number("--random-range-ratio", 0, 1));
  options.prefix_len = prefix.value_or(0);
  options.range_ratio = ratio.value_or(0);
  return {};
}

Result<> read_shared_prefix(const Arguments& arguments, load::SharedPrefixOptions& options) {
  NIBBLE_ASSIGN_OR_RETURN(const auto groups, arguments.integer("--gsp-num-groups", 1, kMostTokens));
  NIBBLE_ASSIGN_OR_RETURN(const auto prompts,
                          arguments.integer("--gsp-prompts-per-group", 1, kMostTokens));
  NIBBLE_ASSIGN_OR_RETURN(const auto system,
                          arguments.integer("--gsp-system-prompt-len", 1, kMostTokens));
  options.groups = groups.value_or(options.groups);
  options.prompts_per_group = prompts.value_or(options.prompts_per_group);
  options.system_len = system.value_or(options.system_len);
  NIBBLE_RETURN_IF_ERROR(
      take_length(arguments, "--gsp-question-len", "--input-len", options.question_len));
  return take_length(arguments, "--gsp-output-len", "--output-len", options.output_len);
}

Result<> read_file_flags(const Arguments& arguments, DatasetFlags& flags) {
  const bool sharegpt = flags.kind == DatasetKind::kShareGpt;
  constexpr std::int64_t kFromFile = -1;  // as vLLM writes it
  std::int64_t output = kFromFile;
  NIBBLE_RETURN_IF_ERROR(take_length(arguments,
                                     sharegpt ? "--sharegpt-output-len" : "--custom-output-len",
                                     "--output-len", output, sharegpt ? 1 : kFromFile));
  if (output == 0) return usage_error("--custom-output-len is 0; give at least 1, or -1");
  if (output != kFromFile) flags.file.output_len = output;
  flags.file.repeat = !arguments.has("--no-oversample");
  const std::optional<std::string> path = arguments.text("--dataset-path");
  if (!path) {
    return usage_error("--dataset-name {} needs --dataset-path; nothing is downloaded", flags.name);
  }
  flags.path = *path;
  return {};
}

Result<std::shared_ptr<const load::Dataset>> make_dataset(const DatasetFlags& flags,
                                                          const load::TokenTools& tools) {
  const auto made = [&]() -> Result<std::unique_ptr<load::Dataset>> {
    switch (flags.kind) {
      case DatasetKind::kRandom:
        return load::make_random(flags.random, tools);
      case DatasetKind::kSharedPrefix:
        return load::make_shared_prefix(flags.shared_prefix, tools);
      case DatasetKind::kShareGpt:
        return load::load_sharegpt(flags.path, flags.file, tools);
      case DatasetKind::kCustom:
        return load::load_custom(flags.path, flags.file, tools);
    }
    return usage_error("--dataset-name {} is no dataset", flags.name);
  };
  NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<load::Dataset> dataset, made());
  return std::shared_ptr<const load::Dataset>(std::move(dataset));
}

bool is_tokenizer_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path / "tokenizer.json", ignored);
}

}  // namespace

std::int64_t DatasetFlags::prompts_of_a_round() const {
  if (kind != DatasetKind::kSharedPrefix) return 0;
  return shared_prefix.groups * shared_prefix.prompts_per_group;
}

std::optional<double> DatasetFlags::mean_context() const {
  if (kind == DatasetKind::kSharedPrefix) {
    return static_cast<double>(shared_prefix.system_len + shared_prefix.question_len) +
           static_cast<double>(shared_prefix.output_len) / 2;
  }
  if (kind != DatasetKind::kRandom) return std::nullopt;
  // Of a uniform length: around the whole of it by vLLM's rule, up to it by SGLang's.
  const double share =
      random.range_rule == load::RangeRule::kSglang ? (1 + random.range_ratio) / 2 : 1;
  return static_cast<double>(random.prefix_len) +
         share *
             (static_cast<double>(random.input_len) + static_cast<double>(random.output_len) / 2);
}

std::vector<std::pair<std::string, Json>> DatasetFlags::described() const {
  switch (kind) {
    case DatasetKind::kRandom:
      return {{"random_input_len", random.input_len},
              {"random_output_len", random.output_len},
              {"random_range_ratio", random.range_ratio},
              {"random_prefix_len", random.prefix_len}};
    case DatasetKind::kSharedPrefix:
      return {{"gsp_num_groups", shared_prefix.groups},
              {"gsp_prompts_per_group", shared_prefix.prompts_per_group},
              {"gsp_system_prompt_len", shared_prefix.system_len},
              {"gsp_question_len", shared_prefix.question_len},
              {"gsp_output_len", shared_prefix.output_len}};
    case DatasetKind::kShareGpt:
    case DatasetKind::kCustom:
      break;
  }
  return {{"dataset_path", path.string()},
          {kind == DatasetKind::kCustom ? "custom_output_len" : "sharegpt_output_len",
           file.output_len ? Json(*file.output_len) : Json()},
          {"oversample", file.repeat}};
}

Result<DatasetFlags> dataset_flags_from(const Arguments& arguments, const api::Backend& backend,
                                        std::vector<std::string>& notes) {
  DatasetFlags flags;
  flags.name = arguments.text("--dataset-name").value_or("random");
  flags.kind = kind_of(flags.name);
  flags.needs_ids = flags.name == "random-ids";
  const bool sglang = follows_sglang(backend);
  NIBBLE_RETURN_IF_ERROR(check_own_flags(arguments, flags));
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  flags.random.seed = flags.shared_prefix.seed = flags.file.seed =
      static_cast<std::uint64_t>(seed.value_or(0));
  switch (flags.kind) {
    case DatasetKind::kRandom:
      NIBBLE_RETURN_IF_ERROR(read_random(arguments, sglang, flags.random));
      break;
    case DatasetKind::kSharedPrefix:
      NIBBLE_RETURN_IF_ERROR(read_shared_prefix(arguments, flags.shared_prefix));
      break;
    case DatasetKind::kShareGpt:
    case DatasetKind::kCustom:
      NIBBLE_RETURN_IF_ERROR(read_file_flags(arguments, flags));
      return flags;
  }
  if (arguments.has("--dataset-path")) {
    if (!arguments.has("--dataset-name")) {
      return usage_error(
          "--dataset-path names a file and --dataset-name is missing; give --dataset-name sharegpt "
          "or custom");
    }
    notes.push_back(
        fmt::format("--dataset-path is not read: --dataset-name {} makes its prompts", flags.name));
  }
  if (flags.needs_ids && (!backend.token_ids || arguments.has("--no-token-ids"))) {
    return usage_error("--dataset-name random-ids sends token ids, which {}; give random",
                       backend.token_ids ? std::string("--no-token-ids rules out")
                                         : fmt::format("--backend {} does not take", backend.name));
  }
  return flags;
}

Result<TokenizerChoice> tokenizer_from(const Arguments& arguments,
                                       std::vector<std::string>& notes) {
  TokenizerChoice choice;
  std::filesystem::path from;
  if (const auto path = arguments.text("--tokenizer")) {
    std::error_code ignored;
    if (std::filesystem::exists(*path, ignored)) {
      choice.id = *path;
    } else if (!is_hub_id(*path)) {
      return usage_error(
          "--tokenizer is \"{}\", which is no file or folder here; give a tokenizer.json or its "
          "folder (nothing is downloaded)",
          printable(*path));
    } else if (const auto kept = find_in_hub_cache(*path, "tokenizer.json")) {
      choice.id = *path;
      from = *kept;
    } else {
      notes.push_back(
          fmt::format("no tokenizer: {} is not in {}, and nothing is downloaded; the server's "
                      "counts are taken",
                      printable(*path), hub_cache().string()));
      return choice;
    }
  } else if (const auto model = arguments.text("--model"); model && is_tokenizer_folder(*model)) {
    choice.id = *model;
  } else {
    return choice;
  }
  if (from.empty()) from = choice.id;
  NIBBLE_ASSIGN_OR_RETURN(choice.tokenizer, text::load_tokenizer(from));
  return choice;
}

load::TokenTools token_tools(const std::optional<text::Tokenizer>& tokenizer,
                             const drive::WireFacts& wire, bool chat) {
  load::TokenTools tools;
  tools.send_ids = wire.token_ids;
  tools.tokens_per_word = std::clamp(wire.tokens_per_word.value_or(1), 0.1, 100.0);
  // A small vocabulary has its own limits; in a larger one the range fits as it is.
  std::int64_t end = std::min<std::int64_t>(tools.end_id, wire.vocabulary.value_or(tools.end_id));
  if (tokenizer) end = std::min(end, static_cast<std::int64_t>(tokenizer->size()));
  tools.end_id = static_cast<std::int32_t>(std::max<std::int64_t>(1, end));
  tools.first_id = std::min(tools.first_id, tools.end_id / 2);
  if (!tokenizer) return tools;
  tools.count = [tokenizer, chat](std::string_view text) {
    const auto ids = tokenizer->encode(text, {.add_special = !chat});
    // Only texts beyond all bounds are refused.
    return ids.ok() ? ids->size() : text.size();
  };
  tools.decode = [tokenizer](std::span<const std::int32_t> ids) { return tokenizer->decode(ids); };
  return tools;
}

namespace {

// Every request of fixed lengths that do not fit would be refused: said before they are sent.
Result<> check_fits(const DatasetFlags& flags, const drive::WireFacts& wire) {
  if (flags.kind != DatasetKind::kRandom || !wire.max_model_len) return {};
  const std::int64_t input = flags.random.input_len;
  const std::int64_t output = flags.random.output_len;
  if (input + output + wire.template_tokens <= *wire.max_model_len) return {};
  return input_error(
      "the server takes {} tokens of prompt and answer together (max_model_len), fewer than the {} "
      "+ "
      "{}{} that were to be sent; give a smaller --input-len or --output-len",
      *wire.max_model_len, input, output,
      wire.template_tokens > 0 ? fmt::format(" and {} of its chat template", wire.template_tokens)
                               : "");
}

}  // namespace

Result<DatasetMaker> dataset_maker(const DatasetFlags& flags,
                                   const std::optional<text::Tokenizer>& tokenizer,
                                   const drive::Target& target) {
  const bool chat = target.backend.dialect == api::Dialect::kChat;
  const drive::WireFacts expected = {.token_ids = target.backend.token_ids && target.token_ids};
  NIBBLE_ASSIGN_OR_RETURN(std::shared_ptr<const load::Dataset> made,
                          make_dataset(flags, token_tools(tokenizer, expected, chat)));
  // Words are measured in the server's tokens only where nothing else counts them.
  const bool of_file = flags.kind == DatasetKind::kShareGpt || flags.kind == DatasetKind::kCustom;
  const bool exact = expected.token_ids || tokenizer.has_value() || of_file;
  return DatasetMaker(
      [=](const drive::WireFacts& wire) -> Result<std::shared_ptr<const load::Dataset>> {
        if (flags.needs_ids && !wire.token_ids) {
          return input_error(
              "the server refuses token ids, which --dataset-name random-ids sends; "
              "give random");
        }
        NIBBLE_RETURN_IF_ERROR(check_fits(flags, wire));
        const bool as_expected =
            wire.token_ids == expected.token_ids && (of_file || !wire.vocabulary);
        if (as_expected && (exact || !wire.tokens_per_word)) return made;
        return make_dataset(flags, token_tools(tokenizer, wire, chat));
      });
}

}  // namespace nibble::cli
