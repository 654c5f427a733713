#include "database/store.h"

#include <system_error>
#include <utility>

#include "database/schema.h"
#include "database/serving.h"
#include "database/store_impl.h"

namespace tilewright::database {
namespace {

using Kind = DatabaseError::Kind;

void require_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const std::string name = "'" + path.string() + "'";
  if (status.type() == std::filesystem::file_type::not_found) {
    throw DatabaseError(Kind::NotFound, "there is no database " + name);
  }
  if (status.type() == std::filesystem::file_type::directory) {
    throw DatabaseError(Kind::NotADatabase, name + " is a folder, expected a database file");
  }
}

void require_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw DatabaseError(Kind::NotFound, "the database '" + path.string() +
                                            "' cannot be made: there is no folder '" +
                                            folder.string() + "'");
  }
}

[[noreturn]] void empty_file(const Connection& connection) {
  connection.damaged("the file is empty");
}

// Creates or migrates under a write lock; another process may have done it in the meantime.
int prepare_for_writing(const Connection& connection, Mode mode) {
  int version = read_schema_version(connection);
  if (version == 0 && mode != Mode::Create) empty_file(connection);
  if (version == kSchemaVersion) return version;
  SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
  version = read_schema_version(connection);
  if (version == 0) {
    create_schema(connection, kSchemaVersion);
  } else {
    migrate_schema(connection, version);
  }
  transaction.commit();
  return kSchemaVersion;
}

StoreImpl open_for_writing(const std::filesystem::path& path, Mode mode,
                           std::chrono::milliseconds busy_timeout) {
  if (is_serving_file(path)) {
    throw DatabaseError(Kind::Unwritable,
                        "database '" + path.string() +
                            "' was written for serving and is not changed: name the database that "
                            "it was exported from");
  }
  const auto access = mode == Mode::Create ? Connection::Access::Create : Connection::Access::Write;
  Connection connection(path.string(), access, busy_timeout);
  const int version = prepare_for_writing(connection, mode);
  // Somebody may have switched the file to a write-ahead log, which network disks do not bear.
  Statement journal(connection, "PRAGMA journal_mode=DELETE", "setting the journal mode");
  journal.run();
  return StoreImpl(std::move(connection), version, false);
}

}  // namespace

StoreImpl open_for_reading(const std::filesystem::path& path,
                           std::chrono::milliseconds busy_timeout) {
  require_file(path);
  const auto access =
      is_serving_file(path) ? Connection::Access::Immutable : Connection::Access::Read;
  Connection connection(path.string(), access, busy_timeout);
  const int version = read_schema_version(connection);
  if (version == 0) empty_file(connection);
  return StoreImpl(std::move(connection), version, true);
}

void StoreImpl::require_writable() const {
  if (!read_only) return;
  throw DatabaseError(Kind::Unwritable,
                      "database '" + connection.path() + "' was opened for reading only");
}

int64_t StoreImpl::bytes() const {
  return connection.query_integer("PRAGMA page_count", "measuring it") *
         connection.query_integer("PRAGMA page_size", "measuring it");
}

BadRow bad_row(const Table& table, const RowScan& scan) {
  return {table.name, row_name(table, scan.row()), scan.rowid(), scan.problem()};
}

std::string to_string(const BadRow& row) {
  return row.table + " " + row.key + " (row " + std::to_string(row.row) + "): " + row.problem;
}

Store Store::open(const std::filesystem::path& path, Mode mode,
                  std::chrono::milliseconds busy_timeout) {
  // SQLite would take an empty name for a file of its own that vanishes in the end.
  if (path.empty()) throw DatabaseError(Kind::NotFound, "the name of the database is empty");
  if (mode == Mode::ReadOnly) {
    return Store(std::make_unique<StoreImpl>(open_for_reading(path, busy_timeout)));
  }
  if (mode == Mode::ReadWrite) require_file(path);
  if (mode == Mode::Create) {
    require_folder(path);
    if (std::filesystem::is_directory(path)) require_file(path);
  }
  return Store(std::make_unique<StoreImpl>(open_for_writing(path, mode, busy_timeout)));
}

Store Store::open_in_memory() {
  return Store(std::make_unique<StoreImpl>(
      open_for_writing(":memory:", Mode::Create, std::chrono::milliseconds(0))));
}

Store::Store(std::unique_ptr<StoreImpl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const std::string& Store::path() const { return impl_->connection.path(); }

int Store::schema_version() const { return impl_->version; }

class Transaction::Guard {
 public:
  explicit Guard(const Connection& connection)
      : transaction(connection, SqlTransaction::Kind::Write) {}

  SqlTransaction transaction;
};

Transaction::Transaction(StoreImpl& store) {
  store.require_writable();
  guard_ = std::make_unique<Guard>(store.connection);
}

Transaction::~Transaction() = default;
Transaction::Transaction(Transaction&&) noexcept = default;

void Transaction::commit() { guard_->transaction.commit(); }

Transaction Store::begin() { return Transaction(*impl_); }

}  // namespace tilewright::database
