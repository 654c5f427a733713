// Two owning classes over SQLite's C API; failures are typed exceptions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "database/error.h"
#include "database/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tilewright::database {

// The value of one column. NULL appears only in damaged files: no column may hold it.
using Cell = std::variant<std::monostate, int64_t, double, std::string, Blob>;

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const;
};
using PreparedStatement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// One open database file. Not thread safe.
class Connection {
 public:
  // Immutable: reads a file that nobody changes, so no locks are needed.
  enum class Access { Read, Write, Create, Immutable };

  // Opens `path` (":memory:" is a separate database) with the settings of every Tilewright
  // database. SQLite reads the file only at the first statement. Where `file` is given, it is
  // opened, and `path` only appears in messages.
  Connection(const std::string& path, Access access, std::chrono::milliseconds busy_timeout,
             const std::string& file = "");

  // Opens a copy of a file's bytes, independent of the file.
  Connection(const std::string& path, const Blob& bytes);

  // Reads a blob of that many bytes straight to a place, which then holds all of it or this throws.
  void read_blob(const char* table, const char* column, int64_t rowid, std::span<std::byte> place,
                 const char* doing) const;

  // Runs statements that return no rows. `doing` completes "… while" in the message of a failure.
  void exec(const std::string& sql, std::string_view doing) const;

  // The first column of the first row of a statement that always returns one.
  int64_t query_integer(const std::string& sql, std::string_view doing) const;

  // Throws the DatabaseError that corresponds to SQLite's result code.
  [[noreturn]] void fail(int code, std::string_view doing) const;

  // Throws a DatabaseError of kind Damaged that names this file.
  [[noreturn]] void damaged(const std::string& what) const;

  bool in_transaction() const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }

  // A statement that does not run at present: prepared now, or given back earlier. To prepare one takes
  // longer than most of them run.
  PreparedStatement take(const std::string& sql, const char* doing) const;
  void give_back(const std::string& sql, PreparedStatement statement) const noexcept;

 private:
  void open(const std::string& name, int flags);
  void protect() const;

  struct Close {
    void operator()(sqlite3* handle) const;
  };

  std::string path_;
  std::chrono::milliseconds busy_timeout_;
  std::unique_ptr<sqlite3, Close> handle_;
  mutable std::multimap<std::string, PreparedStatement> idle_;  // by their text
};

// One prepared statement. Its locks are released when it has run to its end or is destroyed.
class Statement {
 public:
  // `doing` must outlive the statement; it names the step in messages.
  Statement(const Connection& connection, const std::string& sql, const char* doing);
  ~Statement() { connection_->give_back(sql_, std::move(statement_)); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters are counted from 1, as in SQL.
  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);
  Statement& bind(int index, std::string_view value);
  Statement& bind(int index, const Blob& value);
  Statement& bind(int index, const Cell& value);

  bool step();  // true: there is a row
  void run();   // steps to the end and resets the statement for another run

  int64_t integer(int column) const;
  Cell cell(int column) const;
  // The bytes of a blob, until the next step; nothing for another type.
  std::optional<std::span<const std::byte>> blob(int column) const;

 private:
  void check_bound(int code) const;

  const Connection* connection_;
  const char* doing_;
  std::string sql_;
  PreparedStatement statement_;
};

// A transaction that is rolled back unless committed. Inside another transaction it has no effect
// of its own: the outer one decides.
class SqlTransaction {
 public:
  enum class Kind { Read, Write };

  SqlTransaction(const Connection& connection, Kind kind);
  ~SqlTransaction();
  SqlTransaction(const SqlTransaction&) = delete;
  SqlTransaction& operator=(const SqlTransaction&) = delete;

  void commit();

 private:
  const Connection* connection_;
  bool owner_;
};

}  // namespace tilewright::database
