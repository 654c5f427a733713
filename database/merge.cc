#include "database/merge.h"

#include <system_error>

#include "base/utf8.h"
#include "database/store.h"
#include "database/store_impl.h"
#include "database/trust/vouch.h"

namespace tilewright::database {
namespace {

// Copies a table's healthy rows. Damaged pages are reported; all readable rows are taken.
void merge_table(const StoreImpl& from, const StoreImpl& to, const Table& table,
                 MergeReport& report) {
  // Damage in the source is only reported, but a failure to write the destination ends the merge.
  RowScan scan(from.connection, table, from.version, "NOT INDEXED");
  const auto next = [&] {
    try {
      return scan.next();
    } catch (const DatabaseError& error) {
      report.unreadable.push_back(std::string("table ") + table.name + ": " + error.what());
      return false;
    }
  };
  while (next()) {
    BadRow bad = bad_row(table, scan);
    if (bad.problem.empty()) bad.problem = content_problem(table, scan.row());
    if (bad.problem.empty()) {
      join_counted(to.connection, table, to.version, scan.row(), report);
    } else {
      report.bad.push_back(std::move(bad));
    }
  }
}

}  // namespace

void join_counted(const Connection& connection, const Table& table, int version, const Row& row,
                  MergeReport& report) {
  MergeReport::Counts& counts = report.tables[table.name];
  switch (join_row(connection, table, version, row)) {
    case Joined::Added: ++counts.added; return;
    case Joined::Healed: ++counts.healed; return;
    case Joined::Updated: ++counts.updated; return;
    case Joined::Same: ++counts.same; return;
  }
}

void file_foreign(const StoreImpl& store, const std::string& way, const std::string& source,
                  MergeReport& report) {
  const std::string from = source.empty() ? "" : " from '" + to_utf8(source) + "'";
  const ForeignKernels kernels = file_origins(store, "came by " + way + from + " " + today());
  report.foreign = kernels.foreign;
  report.adopted = kernels.adopted;
}

MergeReport Store::merge(const std::filesystem::path& other) {
  MergeReport report;
  std::error_code ignored;
  if (std::filesystem::equivalent(other, path(), ignored)) return report;
  Transaction transaction = begin();
  {
    const StoreImpl from = open_for_reading(other, std::chrono::seconds(5));
    SqlTransaction snapshot(from.connection, SqlTransaction::Kind::Read);
    for (const Table& table : fact_tables()) {
      if (from.has(table)) merge_table(from, *impl_, table, report);
    }
    file_foreign(*impl_, "merge", other.string(), report);
  }
  transaction.commit();
  return report;
}

}  // namespace tilewright::database
