#include "cli/inspect.h"

#include <cerrno>
#include <cstdio>
#include <fmt/core.h>
#include <memory>
#include <system_error>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace nibble::cli {
namespace {

constexpr int kCannotBeServed = 2;

std::string counted(double count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", format_count(count), count == 1 ? one : many);
}

std::string claim_text(const ScopeReport& row) {
  if (!row.claimed) return "unknown";
  return fmt::format("{} x {}", to_string(row.claimed->weights),
                     to_string(row.claimed->activations));
}

std::string summary_text(const CheckpointReport& report, const Style& style) {
  std::string text = style.strong(printable(report.name));
  if (!report.architecture.empty()) text += "  " + printable(report.architecture);
  text += "\n";
  const std::string size = fmt::format(
      "{} parameters in {}; {} in {}", format_count(report.parameters),
      counted(static_cast<double>(report.tensors), "tensor", "tensors"), format_bytes(report.bytes),
      counted(static_cast<double>(report.files.size()), "file", "files"));
  text += style.wrap(size, 0) + "\n";
  if (report.described) {
    text += style.wrap(fmt::format("config.json describes {} parameters, {} of them active",
                                   format_count(report.described->total + report.described->mtp),
                                   format_count(report.described->active)),
                       0) +
            "\n";
  }
  if (!report.claim.empty())
    text += style.wrap("claimed: " + printable(report.claim, 400), 2) + "\n";
  if (!report.dialects.empty()) text += "dialect: " + join(report.dialects, ", ") + "\n";
  return text;
}

std::string parts_text(const CheckpointReport& report, const Style& style) {
  Table table({{"part"},
               {"tensors", Align::kRight, 2},
               {"matrices", Align::kRight, 1},
               {"parameters", Align::kRight},
               {"bytes", Align::kRight},
               {"share", Align::kRight}});
  double all = 0;
  for (const PartReport& part : report.parts) all += part.bytes;
  for (const PartReport& part : report.parts) {
    table.row({std::string(to_string(part.region)), format_count(static_cast<double>(part.tensors)),
               format_count(static_cast<double>(part.matrices)), format_count(part.parameters),
               format_bytes(part.bytes), format_share(all > 0 ? part.bytes / all : 0)});
  }
  return table.render(style);
}

std::string scope_text(const CheckpointReport& report, const Style& style) {
  Table table({{"part"},
               {"found"},
               {"claimed (weights x input)"},
               {"matrices", Align::kRight},
               {"bytes", Align::kRight, 1},
               {"agree"}});
  for (const ScopeReport& row : report.scope) {
    const Cell agree = !row.claimed ? Cell("-", Emphasis::kFaint)
                       : row.agrees ? Cell("yes", Emphasis::kGood)
                                    : Cell("no", Emphasis::kWarning);
    table.row({std::string(to_string(row.region)), std::string(to_string(row.found)),
               claim_text(row), format_count(static_cast<double>(row.matrices)),
               format_bytes(row.bytes), agree});
  }
  return table.render(style);
}

std::string values_text(const CheckpointReport& report, const Style& style) {
  Table table({{"part"},
               {"format"},
               {"values", Align::kRight, 2},
               {"rms", Align::kRight},
               {"max |w|", Align::kRight},
               {"zeros", Align::kRight},
               {"block scales", Align::kRight, 1},
               {"factors", Align::kRight, 3}});
  for (const ValueReport& row : report.values) {
    const ValueStats& values = row.values;
    const std::string scales =
        values.scales > 0 ? fmt::format("{:.3g} .. {:.3g}", values.min_scale, values.max_scale)
                          : "";
    const std::string factors =
        row.min_factor ? fmt::format("{:.2g} .. {:.2g}", *row.min_factor, *row.max_factor) : "";
    table.row({std::string(to_string(row.region)), std::string(to_string(row.format)),
               format_count(values.values), fmt::format("{:.3g}", values.rms()),
               fmt::format("{:.3g}", values.max_abs), format_share(values.zeros / values.values),
               scales, factors});
  }
  return table.render(style);
}

std::string ignored_text(const CheckpointReport& report, const Style& style) {
  std::string text;
  for (const IgnoredTensors& ignored : report.ignored) {
    const std::string line = fmt::format(
        "{} ({}): {}", counted(static_cast<double>(ignored.tensors), "tensor", "tensors"),
        format_bytes(static_cast<double>(ignored.bytes)), ignored.reason);
    text += "  " + style.wrap(line, 4) + "\n";
  }
  return text;
}

std::string severity_word(Severity severity, const Style& style) {
  const std::string_view word = to_string(severity);
  if (severity == Severity::kError) return style.bad(word);
  return severity == Severity::kWarning ? style.warning(word) : style.faint(word);
}

std::string faults_text(const CheckpointReport& report, const Style& style) {
  std::string text;
  for (const Fault& fault : report.faults) {
    const std::string head = fmt::format("{} {}: ", severity_word(fault.severity, style), fault.id);
    constexpr std::size_t kLongest = 1200;
    text += "  " + style.wrap(head + printable(fault.text(), kLongest), 4) + "\n";
  }
  return text;
}

std::string verdict_text(const CheckpointReport& report, const Style& style) {
  const std::uint64_t errors = report.count(Severity::kError);
  const std::uint64_t warnings = report.count(Severity::kWarning);
  const std::string scanned = report.deep ? "" : "; values were not scanned (--deep)";
  if (errors > 0) {
    return style.bad(fmt::format("It cannot be served as it is: {}{}",
                                 counted(static_cast<double>(errors), "kind", "kinds"),
                                 errors == 1 ? " of error" : " of errors")) +
           scanned + "\n";
  }
  if (warnings > 0) return style.warning("It can be loaded; look at the warnings") + scanned + "\n";
  return style.good("Nothing is wrong with it") + scanned + "\n";
}

std::string section(std::string_view title, const std::string& body, const Style& style) {
  return body.empty() ? "" : "\n" + style.heading(title) + "\n" + body;
}

}  // namespace

std::string inspect_text(const CheckpointReport& report, const Style& style) {
  std::string text = summary_text(report, style);
  if (!report.parts.empty()) text += section("Parts", parts_text(report, style), style);
  if (!report.scope.empty()) {
    text += section("Quantization, as found and as claimed", scope_text(report, style), style);
  }
  if (!report.values.empty()) text += section("Values", values_text(report, style), style);
  text += section("Ignored", ignored_text(report, style), style);
  text += section("Faults", faults_text(report, style), style);
  return text + "\n" + verdict_text(report, style);
}

namespace {

// A reader that closes the pipe early does not change what the checkpoint is, nor our status.
void print_all(const std::string& text) {
  try {
    fmt::print("{}", text);
  } catch (const std::system_error& error) {
    if (error.code().value() != EPIPE) throw;
    std::clearerr(stdout);  // told to nobody: not a failure
  }
}

}  // namespace

Result<int> run_inspect(const Arguments& arguments) {
  const std::string folder = arguments.text("DIR").value_or("");
  NIBBLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(folder));
  std::unique_ptr<Progress> progress;
  const auto scanning = [&progress](double bytes) {
    progress = std::make_unique<Progress>("scanning", bytes);
    return progress.get();
  };
  const CheckpointReport report =
      inspect_checkpoint(checkpoint, {.deep = arguments.has("--deep")}, scanning);
  progress.reset();  // erases its line
  if (arguments.has("--json")) {
    print_all(inspect_document(report).dump() + "\n");
  } else {
    print_all(inspect_text(report, Style::for_stdout()));
  }
  return report.count(Severity::kError) > 0 ? kCannotBeServed : 0;
}

CommandDef inspect_command() {
  return {
      .name = "inspect",
      .summary = "what a checkpoint holds, and what is wrong with it",
      .description =
          "Reads the headers of a Hugging Face checkpoint (one safetensors file, or many with an "
          "index) and compares them with config.json: parameters and bytes by part, which matrices "
          "are quantized and which the configuration claims to be, and every fault with its "
          "severity. What the header says is the truth; the configuration is a claim.\n\n"
          "Values are read with --deep only: their sizes by part, and NaN or negative scales.\n\n"
          "The exit status is 2 when a fault is an error, for then the checkpoint cannot be "
          "served; "
          "the report is printed all the same. Warnings and remarks leave it 0.",
      .options = {{.name = "--deep", .help = "read every value, not the headers alone"}},
      .examples = {{"nibble inspect /data/GLM-5-NVFP4", "what it holds, from the headers"},
                   {"nibble inspect . --deep --json",
                    "with values, as a nibble.inspect/1 document"}},
      .run = run_inspect,
      .operands = {{.name = "DIR",
                    .kind = ValueKind::kDirectory,
                    .help = "the folder of the checkpoint",
                    .required = true}}};
}

}  // namespace nibble::cli
