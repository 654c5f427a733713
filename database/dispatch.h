// Dispatch tables: of a workload with a dynamic dimension, which kernel runs at which sizes.
//
//   DispatchResult found = store.dispatch({.workload_hash = hash, .target = target, .threads = 2});
//   if (!found.table) use(store.best(query));        // found.miss says why there is no table
//   const DispatchKernel* kernel = found.kernel_at(17);
//
// Every kernel takes every size of the dimension: a table only says where each is the fastest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "database/record.h"
#include "database/report.h"

namespace tilewright::database {

// The sizes from `first` to `last`, both included, and the kernel that runs there.
struct DispatchRange {
  int64_t first = 0, last = 0;
  std::string record = {};  // id of the kernel's record

  bool operator==(const DispatchRange&) const = default;
};

// What was measured at one size, in turns: a median for each kernel that took part.
struct DispatchPoint {
  int64_t size = 0;
  bool held_out = false;                       // the ranges were verified there, not learnt
  std::map<std::string, double> seconds = {};  // by id of the kernel's record

  bool operator==(const DispatchPoint&) const = default;
};

// One for each workload, target and number of threads; the latest one counts.
struct DispatchTable {
  std::string workload_hash = {};
  std::string target_hash = {};
  int threads = 1;
  std::string dim = {};                    // name of the dimension: "m"
  std::vector<DispatchRange> ranges = {};  // ascending, without gaps: the dimension's whole range
  std::vector<DispatchPoint> points = {};  // ascending
  std::string default_record = {};         // id of the untuned default's record, may be empty
  // All kernels gave the same bits wherever they were run, so results do not depend on the size.
  bool one_order = false;
  std::string tool_version = {};
  int64_t created = 0;  // microseconds since 1970; 0: now

  // The range that holds the size; null for a size outside the dimension's range.
  const DispatchRange* range_at(int64_t size) const;

  bool operator==(const DispatchTable&) const = default;
};

// A kernel of a table. The artifact is there unless the query did without.
struct DispatchKernel {
  Record record = {};
  std::optional<Artifact> artifact = {};
};

// A table whose kernels can all be used, or why there is none.
struct DispatchResult {
  std::optional<DispatchTable> table = {};
  std::map<std::string, DispatchKernel> kernels = {};  // of the ranges, by id of the record
  std::string miss = {};
  std::vector<BadRow> skipped = {};  // tables that are damaged

  // The kernel of the range that holds the size; null without a table, and for a size outside.
  const DispatchKernel* kernel_at(int64_t size) const;
};

// The ids of all records that a table names, the default's among them.
std::vector<std::string> records_of(const DispatchTable& table);

}  // namespace tilewright::database
