// The parts of diagnosis_document, each a section or nothing. Not for other rooms.
//
//   add_section(document, waterfall_section(diagnosis));
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "diagnose/diagnosis.h"
#include "report/document.h"

namespace nibble::diagnose {

// A section without anything in it is not shown.
void add_section(Document& document, Section section);

Section waterfall_section(const Diagnosis& diagnosis);
Section why_section(const Diagnosis& diagnosis);
Section experiments_section(const Diagnosis& diagnosis);
Section proposals_section(const Diagnosis& diagnosis);
Section sweep_section(const Diagnosis& diagnosis);
Section signals_section(const Diagnosis& diagnosis);
Section gpu_section(const Diagnosis& diagnosis);
Section roofline_section(const Diagnosis& diagnosis);
Section served_section(const Diagnosis& diagnosis);
Section tactics_section(const Diagnosis& diagnosis);
Section energy_section(const Diagnosis& diagnosis);
Section parts_section(const Diagnosis& diagnosis);
Section facts_section(const Diagnosis& diagnosis);
Section provenance_section(const Diagnosis& diagnosis);

// Null where there are no levels.
const LevelDiagnosis* headline_of(const Diagnosis& diagnosis);
const LevelEvidence* headline_evidence(const Diagnosis& diagnosis);
// "64 users", or "the whole".
std::string headline_name(const Diagnosis& diagnosis);
std::optional<double> fact_of(const LevelEvidence& level, Fact fact);  // finite ones
std::optional<double> users_place(const LevelEvidence& level);         // above zero

bool is_floor_bar(const WaterfallBar& bar);
// The known bars of the floor together; nullopt: none is known.
std::optional<double> floor_ms(const LevelDiagnosis& level);
// The largest known bar that is no floor.
const WaterfallBar* largest_loss(const LevelDiagnosis& level);

// "0.918", "12.0", "-" for what is not known.
std::string ms_cell(const std::optional<double>& ms);
// With as many decimals as the whole that it is a part of: a column of them adds up as it stands.
std::string ms_cell_of(const std::optional<double>& ms, const std::optional<double>& whole);
std::string capitalised(std::string text);
std::string without_stop(std::string text);  // ends without a full stop
// "likely (71 %)".
std::string certainty_text(const Verdict& verdict);

// Shows every text of a diagnosis, in a fixed order: texts are rewritten in place.
using TextVisitor = std::function<void(std::string&)>;
void visit_texts(Diagnosis& diagnosis, const TextVisitor& visit);
// As redacted(), with the command that made the document.
void redact(Diagnosis& diagnosis, std::string& command, const std::vector<std::string>& hosts);

}  // namespace nibble::diagnose
