#include "database/tables/sqlite.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <system_error>

namespace tilewright::database {
namespace {

using Kind = DatabaseError::Kind;

// The most that SQLite takes as it is usually built. Constants of models may be that large.
constexpr int kMaxValueBytes = 1'000'000'000;

bool no_room(int system_error) {
  return system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG;
}

Kind kind_of(int code, int system_error) {
  switch (code) {
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_TRUNCATE:
    case SQLITE_IOERR_DIR_FSYNC:
    case SQLITE_IOERR_DELETE: return no_room(system_error) ? Kind::Full : Kind::Unwritable;
    case SQLITE_IOERR_READ: return Kind::Unreadable;
    case SQLITE_IOERR_SHORT_READ: return Kind::Damaged;
    default: break;
  }
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return Kind::Locked;
    case SQLITE_FULL: return Kind::Full;
    case SQLITE_READONLY:
    case SQLITE_PERM: return Kind::Unwritable;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: return Kind::Unreadable;
    case SQLITE_NOTADB: return Kind::NotADatabase;
    default:
      // One of our own statements does not compile or breaks a constraint: the file's schema or its
      // indexes are not those that were written.
      return Kind::Damaged;
  }
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// True when the file is readable and no journal can be made beside it.
bool in_fixed_folder(const std::string& path) {
  return access(path.c_str(), R_OK) == 0 && access(folder_of(path).c_str(), W_OK) != 0;
}

// The fault of a file that is shorter than its first page says, and the way to save its rows; empty where
// the length is right. SQLite refuses such a file whole; with zeros at its end it reads the pages that
// are there. (https://www.sqlite.org/fileformat2.html, 1.3: the size of a page at byte 16, their number
// at byte 28.)
std::string truncated(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<unsigned char, 32> header{};
  if (!in.read(reinterpret_cast<char*>(header.data()), header.size())) return "";
  const auto number = [&](size_t at, size_t bytes) {
    int64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | header[at + i];
    return value;
  };
  const int64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
  const int64_t wanted = page * number(28, 4);
  const int64_t there = in.seekg(0, std::ios::end).tellg();
  if (there < 0 || there >= wanted) return "";
  return " is truncated: it has " + std::to_string(there) + " of " + std::to_string(wanted) +
         " bytes; put a copy back, or save the rows that are left: 'truncate -s " +
         std::to_string(wanted) + " " + path + "', then 'db export ROWS.jsonl --db " + path +
         "' and 'db import ROWS.jsonl --db NEW.db'";
}

std::string describe(Kind kind, const std::string& path, const std::string& cause) {
  const std::string name = "database '" + path + "'";
  switch (kind) {
    case Kind::Locked:
      return name + " is locked by another process (" + cause +
             "): wait until it has finished and try again";
    case Kind::Full:
      return "there is no room to write " + name + " (" + cause +
             "): earlier rows are intact; free some space and try again";
    case Kind::Unwritable:
      if (in_fixed_folder(path)) {
        return name + " cannot be written (" + cause +
               "): SQLite keeps its journal in the folder '" + folder_of(path) +
               "', which you may not write; chmod u+w it, or copy the database to " +
               "another folder";
      }
      return name + " cannot be written (" + cause + "): check the rights of the file and folder";
    case Kind::Unreadable: return name + " cannot be read (" + cause + ")";
    case Kind::NotADatabase:
      return "'" + path + "' is not a SQLite database, or its first page is destroyed (" + cause +
             ")";
    default:
      if (const std::string help = truncated(path); !help.empty()) return name + help;
      return name + " is damaged (" + cause +
             "): 'db check' lists what is broken, 'db export' saves the rows that are not; where "
             "these cannot open it either, put a copy back or move the file away and tune again";
  }
}

// The file as a URI that tells SQLite that nobody changes it.
std::string immutable_uri(const std::string& path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char letter : path) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain =
        std::isalnum(byte) != 0 || letter == '/' || letter == '.' || letter == '-' || letter == '_';
    if (plain) {
      uri += letter;
    } else {
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

void Connection::open(const std::string& name, int flags) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  handle_.reset(handle);
  if (handle == nullptr) throw std::bad_alloc();
  if (code != SQLITE_OK) fail(code, "opening it");
}

// Settings that protect against hostile file contents.
void Connection::protect() const {
  sqlite3* handle = handle_.get();
  sqlite3_busy_timeout(handle, static_cast<int>(busy_timeout_.count()));
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  // A file from elsewhere must not run code of its own.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  exec("PRAGMA synchronous=FULL; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;", "opening it");
}

Connection::Connection(const std::string& path, Access access,
                       std::chrono::milliseconds busy_timeout, const std::string& file)
    : path_(path), busy_timeout_(busy_timeout) {
  const std::string& name = file.empty() ? path : file;
  const bool immutable = access == Access::Immutable;
  // Readers open the file for writing, too, where it allows this: only then can SQLite roll back
  // what a killed writer left unfinished. `query_only` prevents changes by the reader itself.
  int flags = immutable ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI : SQLITE_OPEN_READWRITE;
  if (access == Access::Create) flags |= SQLITE_OPEN_CREATE;
  open(immutable ? immutable_uri(name) : name, flags);
  protect();
  if (access == Access::Read || immutable) exec("PRAGMA query_only=ON", "opening it");
}

Connection::Connection(const std::string& path, const Blob& bytes) : path_(path), busy_timeout_(0) {
  open(":memory:", SQLITE_OPEN_READWRITE);
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  // SQLite frees the copy, even on failure.
  const int code =
      sqlite3_deserialize(handle_.get(), "main", copy, size, size,
                          SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK) fail(code, "opening it");
  protect();
  exec("PRAGMA query_only=ON", "opening it");
}

void Connection::read_blob(const char* table, const char* column, int64_t rowid,
                           std::span<std::byte> place, const char* doing) const {
  sqlite3_blob* blob = nullptr;
  int code = sqlite3_blob_open(handle_.get(), "main", table, column, rowid, 0, &blob);
  const std::unique_ptr<sqlite3_blob, int (*)(sqlite3_blob*)> closing(blob, sqlite3_blob_close);
  if (code != SQLITE_OK) fail(code, doing);
  if (sqlite3_blob_bytes(blob) != static_cast<int64_t>(place.size()))
    damaged("a value is cut short");
  code = sqlite3_blob_read(blob, place.data(), static_cast<int>(place.size()), 0);
  if (code != SQLITE_OK) fail(code, doing);
}

void Connection::exec(const std::string& sql, std::string_view doing) const {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, doing);
}

int64_t Connection::query_integer(const std::string& sql, std::string_view doing) const {
  const std::string step(doing);
  Statement statement(*this, sql, step.c_str());
  if (!statement.step()) damaged("no answer while " + step);
  return statement.integer(0);
}

void Connection::fail(int code, std::string_view doing) const {
  // SQLite loses the system's error when it happens within a COMMIT.
  const int last_error = errno;
  int system_error = sqlite3_system_errno(handle_.get());
  if (system_error == 0) system_error = last_error;
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  if ((code & 0xff) == SQLITE_MISUSE || (code & 0xff) == SQLITE_RANGE) {
    throw InternalError("SQLite was misused while " + std::string(doing) + ": " +
                        sqlite3_errmsg(handle_.get()));
  }
  Kind kind = kind_of(code, system_error);
  if ((code & 0xff) == SQLITE_CANTOPEN && in_fixed_folder(path_)) kind = Kind::Unwritable;
  std::string cause = std::string(sqlite3_errmsg(handle_.get())) + " while " + std::string(doing);
  if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) {
    if (system_error != 0) cause += ": " + std::generic_category().message(system_error);
  }
  if (kind == Kind::Locked) {
    cause += ", waited " + std::to_string(busy_timeout_.count()) + " ms";
  }
  throw DatabaseError(kind, describe(kind, path_, cause));
}

void Connection::damaged(const std::string& what) const {
  throw DatabaseError(Kind::Damaged, describe(Kind::Damaged, path_, what));
}

bool Connection::in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }

void FinalizeStatement::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

PreparedStatement Connection::take(const std::string& sql, const char* doing) const {
  if (auto node = idle_.extract(sql)) return std::move(node.mapped());
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle(), sql.c_str(), static_cast<int>(sql.size()) + 1,
                                      &statement, nullptr);
  PreparedStatement prepared(statement);
  if (code != SQLITE_OK) fail(code, doing);
  return prepared;
}

void Connection::give_back(const std::string& sql, PreparedStatement statement) const noexcept {
  constexpr size_t kKept = 64;  // more than there are texts
  if (statement == nullptr || idle_.size() >= kKept) return;
  sqlite3_reset(statement.get());
  sqlite3_clear_bindings(statement.get());  // they may be large
  try {
    idle_.emplace(sql, std::move(statement));
  } catch (const std::bad_alloc&) {
    // It is prepared again.
  }
}

Statement::Statement(const Connection& connection, const std::string& sql, const char* doing)
    : connection_(&connection), doing_(doing), sql_(sql), statement_(connection.take(sql, doing)) {}

void Statement::check_bound(int code) const {
  if (code == SQLITE_OK) return;
  if ((code & 0xff) == SQLITE_TOOBIG) {
    throw RecordError("a value is too large to be stored: at most " +
                      std::to_string(kMaxValueBytes) + " bytes are accepted");
  }
  connection_->fail(code, doing_);
}

Statement& Statement::bind(int index, int64_t value) {
  check_bound(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, double value) {
  check_bound(sqlite3_bind_double(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, std::string_view value) {
  // A null pointer would bind NULL, which no column accepts.
  const char* data = value.data() == nullptr ? "" : value.data();
  check_bound(sqlite3_bind_text64(statement_.get(), index, data, value.size(), SQLITE_TRANSIENT,
                                  SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int index, const Blob& value) {
  const void* data = value.empty() ? static_cast<const void*>("") : value.data();
  check_bound(sqlite3_bind_blob64(statement_.get(), index, data, value.size(), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int index, const Cell& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return bind(index, *integer);
  if (const auto* real = std::get_if<double>(&value)) return bind(index, *real);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return bind(index, std::string_view(*text));
  }
  if (const auto* blob = std::get_if<Blob>(&value)) return bind(index, *blob);
  check_bound(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_->fail(code, doing_);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(statement_.get());
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

Cell Statement::cell(int column) const {
  sqlite3_stmt* statement = statement_.get();
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: {
      const unsigned char* text = sqlite3_column_text(statement, column);
      if (text == nullptr) return std::monostate{};
      const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
      return std::string(reinterpret_cast<const char*>(text), size);
    }
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, column));
      const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
      return size == 0 || bytes == nullptr ? Blob{} : Blob(bytes, bytes + size);
    }
    default: return std::monostate{};
  }
}

std::optional<std::span<const std::byte>> Statement::blob(int column) const {
  sqlite3_stmt* statement = statement_.get();
  if (sqlite3_column_type(statement, column) != SQLITE_BLOB) return std::nullopt;
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
  if (bytes == nullptr && size > 0) throw std::bad_alloc();
  return std::span(bytes, size);
}

SqlTransaction::SqlTransaction(const Connection& connection, Kind kind)
    : connection_(&connection), owner_(!connection.in_transaction()) {
  if (!owner_) return;
  connection.exec(kind == Kind::Read ? "BEGIN DEFERRED" : "BEGIN IMMEDIATE",
                  "beginning a transaction");
}

SqlTransaction::~SqlTransaction() {
  // After some failures SQLite has already rolled back.
  if (!owner_ || !connection_->in_transaction()) return;
  sqlite3_exec(connection_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void SqlTransaction::commit() {
  if (!owner_) return;
  connection_->exec("COMMIT", "committing a transaction");
  owner_ = false;
}

}  // namespace tilewright::database
