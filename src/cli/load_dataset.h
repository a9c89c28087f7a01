// The prompts of `nibble load` as the command line describes them, and what is known of the model's
// tokens.
//
//   NIBBLE_ASSIGN_OR_RETURN(const DatasetFlags flags, dataset_flags_from(arguments, backend,
//   notes)); NIBBLE_ASSIGN_OR_RETURN(run.make_dataset, dataset_maker(flags, tokenizer, target));
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"
#include "drive/run.h"
#include "load/dataset.h"
#include "text/tokenizer.h"

namespace nibble::cli {

enum class DatasetKind { kRandom, kSharedPrefix, kShareGpt, kCustom };

struct DatasetFlags {
  std::string name;  // as it was named
  DatasetKind kind = DatasetKind::kRandom;
  bool needs_ids = false;  // random-ids: text would be another dataset
  load::RandomOptions random;
  load::SharedPrefixOptions shared_prefix;
  load::FileOptions file;
  std::filesystem::path path;
  // Prompts of one round; 0: any number of them.
  std::int64_t prompts_of_a_round() const;
  // Mean tokens in the cache of a sequence: prompt and half of the output; nullopt: in the file.
  std::optional<double> mean_context() const;
  // "random_input_len" -> 1024, ...: for the document.
  std::vector<std::pair<std::string, Json>> described() const;
};

Result<DatasetFlags> dataset_flags_from(const Arguments& arguments, const api::Backend& backend,
                                        std::vector<std::string>& notes);

// --tokenizer: a file, a folder, or a Hub id that lies in Hugging Face's cache (where it does not,
// a note says so and there is none); or the folder that --model names when a tokenizer.json lies
// there.
struct TokenizerChoice {
  std::optional<text::Tokenizer> tokenizer;
  std::string id;  // empty: none
};
Result<TokenizerChoice> tokenizer_from(const Arguments& arguments, std::vector<std::string>& notes);

// A text counts as the server will count it: a chat template is the server's own affair, special
// tokens around a completion are not.
load::TokenTools token_tools(const std::optional<text::Tokenizer>& tokenizer,
                             const drive::WireFacts& wire, bool chat);

using DatasetMaker =
    std::function<Result<std::shared_ptr<const load::Dataset>>(const drive::WireFacts&)>;

// Makes the dataset once for the wire that is expected, so that a fault in a file or a length is
// known before the load; the maker makes it anew only when the wire turns out otherwise.
Result<DatasetMaker> dataset_maker(const DatasetFlags& flags,
                                   const std::optional<text::Tokenizer>& tokenizer,
                                   const drive::Target& target);

}  // namespace nibble::cli
