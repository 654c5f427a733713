#include "database/dispatch.h"

#include <algorithm>
#include <set>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/dispatch_row.h"

namespace tilewright::database {
namespace {

// Loads the table's kernels. Returns the reason why one of them cannot be used, or an empty string.
std::string load_kernels(const Store& store, const BestQuery& query, const DispatchTable& table,
                         std::map<std::string, DispatchKernel>& kernels) {
  for (const DispatchRange& range : table.ranges) {
    if (kernels.contains(range.record)) continue;
    Lookup<Record> record = store.record(range.record);
    if (!record) return record.miss;
    const bool other = record.value->workload_hash != table.workload_hash ||
                       record.value->target.hash != table.target_hash ||
                       record.value->threads != table.threads ||
                       record.value->verdict != Verdict::Valid;
    if (other) return "record " + range.record + " is of another workload, target or verdict";
    DispatchKernel kernel;
    std::string reason = unusable(store, *record.value, query, kernel.artifact);
    if (!reason.empty()) return reason;
    kernel.record = std::move(*record.value);
    kernels[range.record] = std::move(kernel);
  }
  return "";
}

std::string threads_difference(const DispatchTable& table, const BestQuery& query) {
  if (!query.threads || *query.threads == table.threads) return "";
  return "its dispatch table was learnt for " + threads_text(table.threads) + ", not for " +
         std::to_string(*query.threads);
}

}  // namespace

bool DispatchRange::holds(const Sizes& sizes) const {
  return std::all_of(first.begin(), first.end(), [&](const auto& lowest) {
    const auto size = sizes.find(lowest.first);
    return size != sizes.end() && lowest.second <= size->second &&
           size->second <= last.at(lowest.first);
  });
}

const DispatchRange* DispatchTable::range_at(const Sizes& sizes) const {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const DispatchRange& range) { return range.holds(sizes); });
  return found == ranges.end() ? nullptr : &*found;
}

const DispatchKernel* DispatchResult::kernel_at(const Sizes& sizes) const {
  const DispatchRange* range = table ? table->range_at(sizes) : nullptr;
  if (range == nullptr) return nullptr;
  const auto found = kernels.find(range->record);
  return found == kernels.end() ? nullptr : &found->second;
}

namespace {

// The text of `value` for each dimension, with the dimension's name where there are several: "m=1,
// n=8".
template <class Map, class Value>
std::string join_dims(const Map& dims, Value&& value) {
  std::string text;
  for (const auto& dim : dims) {
    if (dims.size() == 1) return value(dim);
    text += (text.empty() ? "" : ", ") + dim.first + "=" + value(dim);
  }
  return text;
}

}  // namespace

std::string to_string(const DispatchRange& range) {
  return join_dims(range.first, [&](const auto& dim) {
    return std::to_string(dim.second) + ".." + std::to_string(range.last.at(dim.first));
  });
}

std::string to_string(const Sizes& sizes) {
  return join_dims(sizes, [](const auto& dim) { return std::to_string(dim.second); });
}

std::vector<std::string> records_of(const DispatchTable& table) {
  std::set<std::string> ids;
  for (const DispatchRange& range : table.ranges) ids.insert(range.record);
  if (!table.default_record.empty()) ids.insert(table.default_record);
  return {ids.begin(), ids.end()};
}

void Store::put_dispatch(const DispatchTable& table) {
  Transaction transaction = begin();
  const Row row = dispatch_row(table);
  for (const std::string& id : records_of(table)) {
    const Lookup<Record> found = record(id);
    if (!found)
      throw RecordError("the dispatch table names a record that is not here: " + found.miss);
    if (found.value->workload_hash != table.workload_hash ||
        found.value->target.hash != table.target_hash || found.value->threads != table.threads) {
      throw RecordError("the dispatch table names record " + id +
                        ", which is of another workload, target or number of threads");
    }
  }
  replace_row(impl_->connection, table_named("dispatch"), impl_->version, row);
  transaction.commit();
}

std::vector<DispatchTable> Store::dispatch_tables() const {
  std::vector<DispatchTable> tables;
  const Table& description = table_named("dispatch");
  if (!impl_->has(description)) return tables;
  RowScan scan(impl_->connection, description, impl_->version,
               "ORDER BY workload_hash, target_hash, threads");
  while (scan.next()) {
    if (!scan.problem().empty()) continue;
    try {
      tables.push_back(dispatch_from_row(scan.row()));
      tables.back().target_hash = target_hash_today(*impl_, tables.back().target_hash);
    } catch (const RecordError&) {
      continue;  // `check` reports the damaged row
    }
  }
  return tables;
}

BestResult Store::best_at(const BestQuery& query, const Sizes& sizes) const {
  if (sizes.empty()) return best(query);
  DispatchResult found = dispatch(query);
  const DispatchKernel* kernel = found.kernel_at(sizes);
  if (kernel == nullptr) return best(query);
  return {.record = kernel->record,
          .artifact = kernel->artifact,
          .miss = {},
          .skipped = std::move(found.skipped),
          .range = *found.table->range_at(sizes)};
}

DispatchResult Store::dispatch(const BestQuery& query) const {
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  DispatchResult result;
  const Table& description = table_named("dispatch");
  if (!impl_->has(description)) {
    result.miss = "it has no dispatch tables: the database's schema is too old";
    return result;
  }
  RowScan scan(impl_->connection, description, impl_->version,
               "WHERE workload_hash = ?1 AND " +
                   in_stored_targets(*impl_, "target_hash", query.target.hash) +
                   " ORDER BY created DESC, threads");
  scan.statement().bind(1, std::string_view(query.workload_hash));
  while (scan.next()) {
    BadRow bad = bad_row(description, scan);
    DispatchTable table;
    try {
      if (bad.problem.empty()) {
        table = dispatch_from_row(scan.row());
        table.target_hash = target_hash_today(*impl_, table.target_hash);
      }
    } catch (const RecordError& error) {
      bad.problem = error.what();
    }
    const bool same =
        table.workload_hash == query.workload_hash && table.target_hash == query.target.hash;
    if (bad.problem.empty() && !same) bad.problem = "an index that leads to it is damaged";
    if (!bad.problem.empty()) {
      result.skipped.push_back(std::move(bad));
      continue;
    }
    std::map<std::string, DispatchKernel> kernels;
    std::string reason = threads_difference(table, query);
    if (reason.empty()) reason = load_kernels(*this, query, table, kernels);
    if (reason.empty()) {
      result.table = std::move(table);
      result.kernels = std::move(kernels);
      result.miss.clear();
      return result;
    }
    if (result.miss.empty()) result.miss = std::move(reason);
  }
  if (result.miss.empty() && !result.skipped.empty()) {
    result.miss = "its dispatch table is damaged: " + to_string(result.skipped.front());
  }
  if (result.miss.empty()) result.miss = "no dispatch table was learnt for it";
  return result;
}

}  // namespace tilewright::database
