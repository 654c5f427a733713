// Dispatch tables: for a workload with dynamic dimensions, the kernel to run at each size.
//
//   DispatchResult found = store.dispatch({.workload_hash = hash, .target = target, .threads = 2});
//   if (!found.table) use(store.best(query));        // found.miss says why there is no table
//   const DispatchKernel* kernel = found.kernel_at({{"m", 17}});
//
// Every kernel accepts every size of the dimensions; a table only tells where each is the fastest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "database/record.h"
#include "database/report.h"

namespace tilewright::database {

// The sizes from `first` to `last` of each dimension, both included, and the kernel that runs
// there.
struct DispatchRange {
  Sizes first = {}, last = {};
  std::string record = {};  // id of the kernel's record

  // True when these sizes lie in the range. They must include its dimensions.
  bool holds(const Sizes& sizes) const;
  bool operator==(const DispatchRange&) const = default;
};

// Measurements at one point, taken in turns: a median per kernel that took part.
struct DispatchPoint {
  Sizes sizes = {};
  bool held_out = false;                       // used to verify the ranges, not to learn them
  std::map<std::string, double> seconds = {};  // keyed by the id of the kernel's record

  bool operator==(const DispatchPoint&) const = default;
};

// One table per workload, target and number of threads; the latest one counts.
struct DispatchTable {
  std::string workload_hash = {};
  std::string target_hash = {};
  int threads = 1;
  std::vector<std::string> dims = {};  // names of the dimensions: {"m"}
  // Ascending for one dimension. Together the ranges cover the dimensions' whole range: a box
  // without gaps.
  std::vector<DispatchRange> ranges = {};
  std::vector<DispatchPoint> points =
      {};                           // ascending, the first dimension's size before the others
  std::string default_record = {};  // id of the untuned default's record, may be empty
  // True when all kernels gave the same bits wherever they were run, so results do not depend on
  // the size.
  bool one_order = false;
  std::string tool_version = {};
  int64_t created = 0;  // microseconds since 1970; 0: now

  // The range that holds the sizes. Null for sizes outside the dimensions' ranges, and where a
  // dimension is missing.
  const DispatchRange* range_at(const Sizes& sizes) const;

  bool operator==(const DispatchTable&) const = default;
};

// A kernel of a table. The artifact is present unless the query did without it.
struct DispatchKernel {
  Record record = {};
  std::optional<Artifact> artifact = {};
};

// A table all of whose kernels can be used, or the reason why there is none.
struct DispatchResult {
  std::optional<DispatchTable> table = {};
  std::map<std::string, DispatchKernel> kernels = {};  // kernels of the ranges, by record id
  std::string miss = {};
  std::vector<BadRow> skipped = {};  // damaged tables

  // The kernel of the range that holds the sizes; null without a table, and for sizes outside.
  const DispatchKernel* kernel_at(const Sizes& sizes) const;
};

// "17..64"; for several dimensions "m=17..64, n=1..8".
std::string to_string(const DispatchRange& range);
// "17"; for several dimensions "m=17, n=8".
std::string to_string(const Sizes& sizes);

// The ids of all records that a table names, including the default's.
std::vector<std::string> records_of(const DispatchTable& table);

}  // namespace tilewright::database
