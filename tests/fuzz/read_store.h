// Shared by the fuzz targets of databases.
#pragma once

#include <map>
#include <string>

#include "database/store.h"
#include "tests/database/fixture.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

// Stores a few rows of every table.
inline void fill_store(database::Store& store) {
  using namespace database::testing;
  std::vector<database::Record> stored;
  for (int i = 0; i < 2; ++i) stored.push_back(store_with_artifact(store, sample_record(i)));
  store.insert(sample_failure(3, database::Verdict::Wrong, "C[0] is 1, not 2"));
  store.put_model(sample_model(1));
  store.put_dispatch(sample_dispatch(stored));
  store.begin_run({.args = "{}"});
}

// Reads everything. Damage gives a DatabaseError; damaged rows are skipped.
inline void read_store(const database::Store& store) {
  store.check();
  store.info();
  store.runs();
  store.dispatch_tables();
  for (const auto& workload : store.workloads()) {
    store.failures(workload.hash, "");
    store.tried(workload.hash, "");
  }
  for (const database::Record& record : store.records().records) {
    store.best({.workload_hash = record.workload_hash, .target = record.target});
    store.best_at({.workload_hash = record.workload_hash, .target = record.target}, {{"m", 17}});
    store.artifact(record.artifact_hash);
    store.model(record.target.hash, "xgboost", 1);
  }
}

}  // namespace tilewright::fuzz
