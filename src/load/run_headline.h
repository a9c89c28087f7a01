// The first sentences of a run: what came out of it.
//
//   tell_headline(report, list);   // "knee at 32 users: ...; best 812 tok/s at 64 users"
#pragma once

#include <string>
#include <vector>

#include "load/run_report.h"

namespace nibble::load {

// Of a sweep: where it stops scaling, and what the server holds back by its own counts. Of one
// level: its numbers. Nothing where no request succeeded: that is a failure's sentence.
void tell_headline(const RunReport& report, std::vector<std::string>& list);

// How far the answers stay below the rate that an open loop offers, as a share of it, where that is
// more than random arrivals explain; nullopt: the server kept up, or it was no such loop.
std::optional<double> shortfall_of(const LevelResult& level);

// More than half of the requests of an open loop left more than 1 ms behind their schedule: a
// shortfall says nothing of the server.
bool sent_late(const LevelResult& level);

}  // namespace nibble::load
