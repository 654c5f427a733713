#include "database/store.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/utf8.h"
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
  // Opening a FIFO would wait for a writer.
  const bool other = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (other) {
    throw DatabaseError(Kind::NotADatabase,
                        name + " is a FIFO, socket or device, expected a database file");
  }
}

// The file to open: the target of all links, so that the file that is checked is the one that is
// read.
struct Place {
  explicit Place(const std::filesystem::path& path)
      : path(path), file(resolve(path)), serving(is_serving_file(file)) {}

  std::filesystem::path path, file;
  bool serving;
};

void require_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw DatabaseError(Kind::Unwritable, "the database '" + path.string() +
                                              "' cannot be made: there is no folder '" +
                                              folder.string() + "'; mkdir -p " + quoted(folder) +
                                              " makes it");
  }
  if (!std::filesystem::exists(path, error) && access(folder.c_str(), W_OK) != 0) {
    throw DatabaseError(Kind::Unwritable,
                        "the database '" + path.string() + "' cannot be made: the folder '" +
                            folder.string() + "' cannot be written (" +
                            std::generic_category().message(errno) +
                            "); name one in a folder that you may write: --db FILE");
  }
}

[[noreturn]] void empty_file(const Connection& connection) {
  connection.damaged("the file is empty");
}

std::string distrust_of(const Place& place) { return distrust(place.file, place.serving); }

// Creates or migrates under a write lock; another process may have done so in the meantime.
int prepare_for_writing(const Connection& connection, Mode mode, const Place& place) {
  int version = read_schema_version(connection);
  if (version == 0 && mode != Mode::Create) empty_file(connection);
  if (version == kSchemaVersion) return version;
  SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
  version = read_schema_version(connection);
  if (version == 0) {
    create_schema(connection, kSchemaVersion);
  } else {
    migrate_schema(connection, version, distrust(place.file, false));
  }
  transaction.commit();
  return kSchemaVersion;
}

StoreImpl open_for_writing(const std::filesystem::path& path, Mode mode,
                           std::chrono::milliseconds busy_timeout, const Trust& trust) {
  const Place place(path);
  if (place.serving) {
    throw DatabaseError(Kind::Unwritable,
                        "database '" + path.string() +
                            "' was written for serving and is not changed: name the database that "
                            "it was exported from");
  }
  const auto access = mode == Mode::Create ? Connection::Access::Create : Connection::Access::Write;
  require_own_journal(place.file);
  Connection connection(path.string(), access, busy_timeout, place.file.string());
  const int version = prepare_for_writing(connection, mode, place);
  // Somebody may have switched the file to a write-ahead log, which does not work on network disks.
  Statement journal(connection, "PRAGMA journal_mode=DELETE", "setting the journal mode");
  journal.run();
  return StoreImpl(std::move(connection), version, false, distrust_of(place), trust.keys);
}

// Opens a serving file whose content is exactly the pinned one.
StoreImpl open_pinned(const std::filesystem::path& path, const Trust& trust) {
  const Blob bytes = read_regular_file(path);
  const std::string name = "'" + path.string() + "'";
  const std::string found = sha256(bytes);
  if (found != trust.pin) {
    throw DatabaseError(Kind::Untrusted, name +
                                             " is not the file that was pinned: its SHA-256 is " +
                                             found + ", expected " + trust.pin +
                                             "; 'sha256sum' says that of the file that was meant");
  }
  if (!is_serving_file(bytes)) {
    throw DatabaseError(Kind::Untrusted,
                        name +
                            " is no serving file, and others have no content that stays: 'db "
                            "export --serve FILE' writes one to pin");
  }
  Connection connection(path.string(), bytes);
  const int version = read_schema_version(connection);
  if (version == 0) empty_file(connection);
  StoreImpl store(std::move(connection), version, true, "", trust.keys);
  store.serving = true;
  return store;
}

}  // namespace

StoreImpl open_for_reading(const std::filesystem::path& path,
                           std::chrono::milliseconds busy_timeout, const Trust& trust) {
  require_file(path);
  if (!trust.pin.empty()) return open_pinned(path, trust);
  const Place place(path);
  const auto access = place.serving ? Connection::Access::Immutable : Connection::Access::Read;
  if (!place.serving) require_own_journal(place.file);
  Connection connection(path.string(), access, busy_timeout, place.file.string());
  const int version = read_schema_version(connection);
  if (version == 0) empty_file(connection);
  StoreImpl store(std::move(connection), version, true, distrust_of(place), trust.keys);
  store.serving = place.serving;
  return store;
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
  return {table.name, to_utf8(row_name(table, scan.row())), scan.rowid(), scan.problem()};
}

std::string to_string(const BadRow& row) {
  return row.table + " " + row.key + " (row " + std::to_string(row.row) + "): " + row.problem;
}

Store Store::open(const std::filesystem::path& path, Mode mode,
                  std::chrono::milliseconds busy_timeout, Trust trust) {
  trust.normalize();
  // SQLite would open a temporary file for an empty name.
  if (path.empty()) throw DatabaseError(Kind::NotFound, "the name of the database is empty");
  if (mode == Mode::ReadOnly) {
    return Store(std::make_unique<StoreImpl>(open_for_reading(path, busy_timeout, trust)));
  }
  if (!trust.pin.empty()) {
    throw TrustError("only a file that is read is pinned, and '" + path.string() +
                     "' was to be written");
  }
  if (mode == Mode::ReadWrite) require_file(path);
  if (mode == Mode::Create) {
    require_folder(path);
    std::error_code error;
    if (std::filesystem::exists(path, error)) require_file(path);
  }
  return Store(std::make_unique<StoreImpl>(open_for_writing(path, mode, busy_timeout, trust)));
}

Store Store::open_in_memory() {
  Connection connection(":memory:", Connection::Access::Create, std::chrono::milliseconds(0));
  SqlTransaction transaction(connection, SqlTransaction::Kind::Write);
  create_schema(connection, kSchemaVersion);
  transaction.commit();
  return Store(std::make_unique<StoreImpl>(std::move(connection), kSchemaVersion, false));
}

Store::Store(std::unique_ptr<StoreImpl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const std::string& Store::path() const { return impl_->connection.path(); }

int Store::schema_version() const { return impl_->version; }

const std::string& Store::distrust() const { return impl_->distrust; }

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
