#include <gtest/gtest.h>

#include "diagnose/document_fixture.h"
#include "diagnose/document_parts.h"

namespace nibble::diagnose {
namespace {

// Texts of the row that starts with `name`.
std::vector<std::string> row_of(const Table& table, std::string_view name) {
  std::vector<std::string> texts(9);
  for (const std::vector<Cell>& row : table.rows()) {
    if (row.empty() || row.front().text != name) continue;
    for (std::size_t at = 0; at < std::min(row.size(), texts.size()); ++at)
      texts[at] = row[at].text;
  }
  return texts;
}

TEST(GpuSection, IsAPartialSumBesideBothRoofs) {
  const Section section = gpu_section(full_diagnosis());
  ASSERT_EQ(section.tables.size(), 2u);
  const Table& cover = section.tables[0].second;
  // 75 x 190 us and 75 x 95 us; 78 x 10 us.
  EXPECT_EQ(row_of(cover, "timed, a partial sum"),
            (std::vector<std::string>{"timed, a partial sum", "", "", "", "", "", "14.2", "7.12",
                                      "1 of 2 operations"}));
  EXPECT_EQ(row_of(cover, "nothing covers")[7], "0.780");
  EXPECT_EQ(row_of(cover, "moe.gate_up + moe.down")[5], "2 x");
  const std::vector<std::string> read = row_of(section.tables[1].second, "memory, read");
  EXPECT_EQ(read[1], "4100");  // as measured
  EXPECT_EQ(read[2], "4800");  // of the data sheet
  EXPECT_EQ(read[7], "power cap");
  const std::vector<std::string> fp8 = row_of(section.tables[1].second, "matrix, fp8, sustained");
  EXPECT_EQ(fp8[1], "-");
  EXPECT_EQ(fp8[8], "cuBLASLt is not there");
}

TEST(GpuSection, SaysThatItExplainsNothingAndWhatTheBoardDid) {
  const Section section = gpu_section(full_diagnosis());
  EXPECT_NE(section.paragraphs.front().find("explain nothing of this load"), std::string::npos);
  EXPECT_NE(section.paragraphs.back().find("480 W of 700 W"), std::string::npos);
  EXPECT_NE(section.paragraphs.back().find("held down by power cap"), std::string::npos);
}

TEST(GpuSection, IsNothingWithoutAGpuAndAReasonWithoutAStep) {
  Diagnosis diagnosis = full_diagnosis();
  diagnosis.evidence.gpu->steps.clear();
  diagnosis.evidence.gpu->steps_reason = "which model is served is not told";
  const Section section = gpu_section(diagnosis);
  EXPECT_EQ(section.tables.size(), 1u);
  EXPECT_NE(section.paragraphs[1].find("which model is served is not told."), std::string::npos);
  diagnosis.evidence.gpu.reset();
  EXPECT_TRUE(gpu_section(diagnosis).tables.empty());
}

TEST(GpuSection, HostsAreRedactedInAllOfIt) {
  Diagnosis diagnosis = full_diagnosis();
  std::string command;
  redact(diagnosis, command, {"node7"});
  const GpuEvidence& gpu = *diagnosis.evidence.gpu;
  EXPECT_EQ(gpu.source, "bench.json");
  EXPECT_EQ(gpu.served_elsewhere.find("node7"), std::string::npos) << gpu.served_elsewhere;
  EXPECT_EQ(gpu.steps[0].cover.ops[1].reason.find("node7"), std::string::npos);
}

}  // namespace
}  // namespace nibble::diagnose
