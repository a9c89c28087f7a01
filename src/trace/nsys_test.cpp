#include "trace/nsys.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "trace/trace_testing.h"

namespace nibble::trace {
namespace {

// Tables as Nsight Systems 2024 exports them, of the columns that matter; times in ns.
constexpr const char* kTables = R"(
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);
  CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
    text TEXT, globalTid INTEGER, textId INTEGER);
  CREATE TABLE TARGET_INFO_GPU (name TEXT NOT NULL, id INTEGER NOT NULL, cuDevice INTEGER);
  INSERT INTO StringIds VALUES (1, 'nvjet_a'), (2, 'fused_moe_kernel'), (3, 'short'),
    (4, 'cudaLaunchKernel_v7000'), (5, 'execute_context_0(0)_generation_4(4)'),
    (6, 'cudaEventRecord_v3020');
  INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA B200', 40, 0);
)";

// Two processes of which each calls its GPU 0 and counts its launches from 1; the first has more
// kernels. A step every 100 us: 10 us of nvjet_a, then the experts' 20 us and 10 us.
std::string two_processes() {
  std::string sql = kTables;
  const std::int64_t pids[] = {std::int64_t{100} << 24, std::int64_t{101} << 24};
  for (int process = 0; process < 2; ++process) {
    for (int step = 0; step < (process == 0 ? 4 : 2); ++step) {
      const int at = 1000000 + 100000 * step;
      const int first = 3 * step + 1;
      sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, NULL, {}, 5);\n", at,
                         at + 9000, pids[process] + 7);
      for (int index = 0; index < 3; ++index) {
        const int starts[] = {0, 10000, 30000};
        const int lengths[] = {10000, 20000, 10000};
        sql += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, {}, {}, 4);\n",
                           at + 1000 * index, at + 1000 * index + 500, pids[process] + 7,
                           first + index);
        const int start = at + 40000 + starts[index];
        sql += fmt::format(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, 0, 1, 7, {}, {}, "
            "{}, 3);\n",
            start, start + lengths[index], first + index, pids[process], index == 0 ? 1 : 2);
      }
    }
  }
  return sql;
}

Result<TraceSummary> load_sql(const std::string& sql, std::string_view name = "report.sqlite") {
  const TemporaryFolder folder;
  sqlite3* handle = nullptr;
  NIBBLE_CHECK(sqlite3_open((folder.path() / name).c_str(), &handle) == SQLITE_OK);
  char* fault = nullptr;
  const std::string quick = "PRAGMA synchronous = OFF; BEGIN;" + sql + "COMMIT;";
  sqlite3_exec(handle, quick.c_str(), nullptr, nullptr, &fault);
  EXPECT_EQ(fault, nullptr) << fault;
  sqlite3_free(fault);
  NIBBLE_CHECK(sqlite3_close(handle) == SQLITE_OK);
  return load_trace(folder.path() / name, {});
}
std::string sql_fault(const std::string& sql) {
  const Result<TraceSummary> summary = load_sql(sql);
  return summary.ok() ? "" : summary.error().message;
}

TEST(Nsys, ReadsKernelsOfOneProcess) {
  const Result<TraceSummary> summary = load_sql(two_processes());
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->kind, "nsys");
  EXPECT_EQ(summary->engine, "vllm");
  EXPECT_EQ(summary->device, "NVIDIA B200");
  EXPECT_EQ(summary->steps, 4);
  EXPECT_EQ(summary->steps_by, "annotations execute_context");
  EXPECT_DOUBLE_EQ(summary->step_ms, 0.1);
  EXPECT_DOUBLE_EQ(summary->busy_ms, 0.04);
  EXPECT_DOUBLE_EQ(row_of(*summary, "gemm").ms, 0.01);
  EXPECT_DOUBLE_EQ(row_of(*summary, "moe.gate_up").ms, 0.02);
  EXPECT_DOUBLE_EQ(row_of(*summary, "moe.down").ms, 0.01);
  EXPECT_TRUE(notes_hold(*summary, "processes that the trace holds: 1"));
}

TEST(Nsys, ReadsPathsThatLookLikeAddresses) {
  EXPECT_TRUE(load_sql(two_processes(), "a?b#c%41.sqlite").ok());
}

TEST(Nsys, ReadsGraphsThatWereRecordedWhole) {
  std::string sql = kTables;
  sql +=
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, "
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER);\n";
  for (int step = 0; step < 5; ++step)
    sql += fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({}, {}, 0, 7, 1, 1, 17);\n",
        1 + 100000 * step, 80001 + 100000 * step);
  const Result<TraceSummary> summary = load_sql(sql);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->steps, 4);
  EXPECT_DOUBLE_EQ(summary->step_ms, 0.1);
  EXPECT_DOUBLE_EQ(row_of(*summary, "graph").ms, 0.08);
  EXPECT_TRUE(notes_hold(*summary, "--cuda-graph-trace=node"));
}

TEST(Nsys, ReadsCopies) {
  const std::string sql =
      two_processes() +
      fmt::format(
          "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId "
          "INTEGER, streamId INTEGER, globalPid INTEGER, copyKind INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1090000, 1094000, 0, 9, {}, 2);",
          std::int64_t{100} << 24);
  const Result<TraceSummary> summary = load_sql(sql);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_DOUBLE_EQ(row_of(*summary, "copy").ms, 0.001);  // 4 us in one of four steps
  EXPECT_EQ(row_of(*summary, "copy").kernels[0].name, "Memcpy DtoH");
}

TEST(Nsys, ReadsShortNamesAndTextsInPlace) {
  const Result<TraceSummary> summary = load_sql(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, shortName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 1005, 0, 'nvjet_b');");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_DOUBLE_EQ(row_of(*summary, "gemm").ms, 0.001);
}

TEST(Nsys, WhatCannotBeReadIsRefusedInOneSentence) {
  EXPECT_NE(sql_fault("CREATE TABLE t (a);").find("has no kernels"), std::string::npos);
  EXPECT_NE(sql_fault(kTables).find("nsys profile --trace=cuda"), std::string::npos);
  EXPECT_NE(sql_fault("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, shortName);")
                .find("no column \"deviceId\""),
            std::string::npos);
  EXPECT_NE(sql_fault("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId);")
                .find("demangledName"),
            std::string::npos);
  EXPECT_NE(
      sql_fault("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, shortName);"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9, 5, 0, 'a'), (NULL, 1, 0, 'b'),"
                "(0, 0, 0, 'c'), ('x', 1, 0, 'd'), (1, 9223372036854775807, 0, 'e'),"
                "(-9223372036854775808, 0, 0, 'f'), (1.5, 2.5, 0, 'g');")
          .find("7 kernels, none with usable times"),
      std::string::npos);
}

TEST(Nsys, ViewsAndComputedColumnsAreNotRead) {
  // A view that never ends would be run by whoever selects from it.
  EXPECT_NE(
      sql_fault("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start, end, "
                "deviceId, shortName) AS (SELECT 1, 2, 0, 'a' UNION ALL SELECT start + 1, end + 1, "
                "0, 'a' FROM c) SELECT * FROM c;")
          .find("has no kernels"),
      std::string::npos);
  EXPECT_NE(
      sql_fault("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, "
                "shortName AS (hex(zeroblob(1000000))));"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId) VALUES (1, 2, 0);")
          .find("demangledName"),
      std::string::npos);
}

TEST(Nsys, ADamagedFileIsReadAsFarAsItGoesOrRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "report.sqlite";
  std::string sql = "BEGIN;" + two_processes();
  for (int index = 0; index < 5000; ++index)
    sql +=
        fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, 0, 1, 7, 0, 5, 1, 3);",
                    2000000 + 20 * index, 2000010 + 20 * index);
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, (sql + "COMMIT;").c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_close(handle), SQLITE_OK);
  const std::string whole = *read_file(path, 64 << 20);
  for (const std::size_t size : {std::size_t{16}, std::size_t{100}, std::size_t{5000},
                                 whole.size() / 4, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(write_file(path, whole.substr(0, size)).ok());
    const Result<TraceSummary> summary = load_trace(path, {});
    if (!summary.ok()) {
      EXPECT_NE(summary.error().message.find("report.sqlite"), std::string::npos);
      continue;
    }
    EXPECT_TRUE(size == whole.size() - 1 || notes_hold(*summary, "as far as it goes")) << size;
  }
}

}  // namespace
}  // namespace nibble::trace
