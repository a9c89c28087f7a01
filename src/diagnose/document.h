// The diagnosis as a document: one description for the terminal, the page and Markdown.
//
//   const Document document = diagnosis_document(diagnosis, {.command = "nibble diagnose"});
//   fmt::print("{}", render_terminal(document, Style::for_stdout()));
//   NIBBLE_RETURN_IF_ERROR(write_report(document, "nibble-report"));
//
// Parts of which nothing is known are left out; that they are, and why, stands at the end.
#pragma once

#include <string>
#include <vector>

#include "diagnose/diagnosis.h"
#include "report/document.h"

namespace nibble::diagnose {

struct DocumentOptions {
  std::string command;             // that made it
  bool show_hosts = false;         // hosts, folders and what looks like a key: as they are
  std::vector<std::string> hosts;  // names to hide besides those that the texts give away
};

// `data` of the document is nibble.diagnosis/1 of the same.
Document diagnosis_document(const Diagnosis& diagnosis, const DocumentOptions& options);

// A copy to pass on: in every text hosts become host1, host2, ... in the order in which they appear
// (those of URLs, of "HOST:PORT", IPv4 addresses other than loopback, and the given ones), paths
// lose their folder, and keys, passwords and tokens become "***".
Diagnosis redacted(Diagnosis diagnosis, const std::vector<std::string>& hosts);

}  // namespace nibble::diagnose
