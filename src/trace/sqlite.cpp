#include "trace/sqlite.h"

#include <sqlite3.h>

#include "base/text.h"

namespace nibble::trace {
namespace {

constexpr int kMostValueBytes = 16 << 20;

// As part of an address: what ends a path there is written in hexadecimal.
std::string address_of(const std::filesystem::path& path) {
  std::string address = "file:";
  for (const char letter : std::filesystem::absolute(path).string()) {
    if (letter == '?' || letter == '#' || letter == '%') {
      address += fmt::format("%{:02X}", static_cast<unsigned>(letter));
    } else {
      address += letter;
    }
  }
  return address + "?mode=ro&immutable=1";
}

}  // namespace

void Rows::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close(handle);
}

bool Rows::next() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE)
    fault_ = printable(sqlite3_errmsg(sqlite3_db_handle(statement_.get())));
  return false;
}

std::optional<std::int64_t> Rows::integer(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<std::string> Rows::text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return std::nullopt;
  const unsigned char* bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes),
                     static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

void Rows::bind(std::int64_t value) {
  sqlite3_reset(statement_.get());
  sqlite3_bind_int64(statement_.get(), 1, value);
}

Result<Database> Database::open(const std::filesystem::path& path) {
  sqlite3* handle = nullptr;
  const int result =
      sqlite3_open_v2(address_of(path).c_str(), &handle,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(path.string(), handle);
  if (handle == nullptr || result != SQLITE_OK) {
    return input_error("cannot open the SQLite database {}: {}", path.string(),
                       handle == nullptr ? "no memory" : printable(sqlite3_errmsg(handle)));
  }
  // What the file's own schema may call and change: nothing.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  return database;
}

Result<Rows> Database::query(const std::string& statement) const {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), statement.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
    return input_error("{} cannot be read as a report of Nsight Systems: {}; export it again",
                       name_, printable(sqlite3_errmsg(handle_.get())));
  }
  return Rows(prepared);
}

Result<std::set<std::string>> Database::columns(const std::string& table) const {
  // Virtual tables have no root page; computed columns are hidden.
  NIBBLE_ASSIGN_OR_RETURN(
      Rows rows, query(fmt::format("SELECT c.name FROM sqlite_schema AS t, "
                                   "pragma_table_xinfo('{}') AS c WHERE t.type = 'table' AND "
                                   "t.name = '{}' AND t.rootpage > 0 AND c.hidden = 0",
                                   table, table)));
  std::set<std::string> names;
  while (rows.next()) {
    if (const std::optional<std::string> name = rows.text(0)) names.insert(*name);
  }
  if (!rows.fault().empty()) {
    return input_error("{} cannot be read as an SQLite database: {}; export the report again",
                       name_, rows.fault());
  }
  return names;
}

}  // namespace nibble::trace
