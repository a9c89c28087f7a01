// The few calls of SQLite that reading an export takes; sqlite3.h is included in
// sqlite.cpp alone.
//
//   NIBBLE_ASSIGN_OR_RETURN(Database database, Database::open("report.sqlite"));
//   NIBBLE_ASSIGN_OR_RETURN(Rows rows, database.query("SELECT start FROM T"));
//   while (rows.next()) use(rows.integer(0));
//   if (!rows.fault().empty()) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace nibble::trace {

class Rows {
 public:
  bool next();
  std::optional<std::int64_t> integer(int column) const;  // nothing for NULL, text, ...
  std::optional<std::string> text(int column) const;
  const std::string& fault() const {
    return fault_;
  }                               // why the rows ended early; "" if they did not
  void bind(std::int64_t value);  // of the only parameter; begins anew

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Rows(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string fault_;
};

class Database {
 public:
  static Result<Database> open(const std::filesystem::path& path);

  // The columns of an ordinary table that are stored in it; empty when there is no such table.
  Result<std::set<std::string>> columns(const std::string& table) const;
  Result<Rows> query(const std::string& statement) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  Database(std::string name, sqlite3* handle) : name_(std::move(name)), handle_(handle) {}
  std::string name_;
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace nibble::trace
