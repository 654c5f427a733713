// Dispatch tables: of a workload with dynamic dimensions, which kernel runs at which sizes.
//
//   DispatchResult found = store.dispatch({.workload_hash = hash, .target = target, .threads = 2});
//   if (!found.table) use(store.best(query));        // found.miss says why there is no table
//   const DispatchKernel* kernel = found.kernel_at({{"m", 17}});
//
// Every kernel takes every size of the dimensions: a table only says where each is the fastest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "database/record.h"
#include "database/report.h"

namespace tilewright::database {

// The sizes from `first` to `last` of each dimension, both included, and the kernel that runs there.
struct DispatchRange {
  Sizes first = {}, last = {};
  std::string record = {};  // id of the kernel's record

  // Whether these sizes, of the same dimensions at least, lie in it.
  bool holds(const Sizes& sizes) const;
  bool operator==(const DispatchRange&) const = default;
};

// What was measured at one place, in turns: a median for each kernel that took part.
struct DispatchPoint {
  Sizes sizes = {};
  bool held_out = false;                       // the ranges were verified there, not learnt
  std::map<std::string, double> seconds = {};  // by id of the kernel's record

  bool operator==(const DispatchPoint&) const = default;
};

// One for each workload, target and number of threads; the latest one counts.
struct DispatchTable {
  std::string workload_hash = {};
  std::string target_hash = {};
  int threads = 1;
  std::vector<std::string> dims = {};  // names of the dimensions: {"m"}
  // Of one dimension ascending. Together they are the dimensions' whole range: a box without gaps.
  std::vector<DispatchRange> ranges = {};
  std::vector<DispatchPoint> points =
      {};                           // ascending, the first dimension's size before the others
  std::string default_record = {};  // id of the untuned default's record, may be empty
  // All kernels gave the same bits wherever they were run, so results do not depend on the size.
  bool one_order = false;
  std::string tool_version = {};
  int64_t created = 0;  // microseconds since 1970; 0: now

  // The range that holds the sizes; null for sizes outside the dimensions' ranges, and where one of
  // the dimensions is not among them.
  const DispatchRange* range_at(const Sizes& sizes) const;

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

  // The kernel of the range that holds the sizes; null without a table, and for sizes outside.
  const DispatchKernel* kernel_at(const Sizes& sizes) const;
};

// "17..64", of several dimensions "m=17..64, n=1..8".
std::string to_string(const DispatchRange& range);
// "17", of several dimensions "m=17, n=8".
std::string to_string(const Sizes& sizes);

// The ids of all records that a table names, the default's among them.
std::vector<std::string> records_of(const DispatchTable& table);

}  // namespace tilewright::database
