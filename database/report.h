// Results of the store's longer operations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "database/record.h"

namespace tilewright::database {

// A row that must not be used. Readers skip it and report it.
struct BadRow {
  std::string table = {};
  std::string key = {};  // as stored in the file; may itself be damaged
  int64_t row = 0;       // SQLite's rowid
  std::string problem = {};
};

// "records 3f2a… (row 7): the checksum does not match"
std::string to_string(const BadRow& row);

struct CheckReport {
  std::vector<std::string> structure = {};  // messages of SQLite's integrity check
  std::vector<BadRow> rows = {};
  // Healthy records whose workload, target or artifact is missing, and dispatch tables that name a
  // missing record.
  std::vector<BadRow> dangling = {};
  std::map<std::string, int64_t> checked = {};  // rows checked, by table

  bool ok() const { return structure.empty() && rows.empty() && dangling.empty(); }
};

// The result of merge and import.
struct MergeReport {
  struct Counts {
    int64_t added = 0;
    int64_t healed = 0;   // a damaged row here was replaced by a healthy one
    int64_t updated = 0;  // a later row replaced this one
    int64_t same = 0;

    bool operator==(const Counts&) const = default;
  };

  std::map<std::string, Counts> tables = {};
  int64_t foreign = 0;  // kernels that arrived and may not run: not made here, and not signed by a
                        // trusted key
  int64_t adopted = 0;  // kernels signed by a trusted key
  std::vector<BadRow> bad = {};              // rows of the source that were rejected
  std::vector<std::string> unreadable = {};  // tables of the source that were only partly readable
};

struct ExportReport {
  int64_t rows = 0;
  std::vector<BadRow> bad = {};  // rows left out
  std::vector<std::string> unreadable = {};
};

// The contents of an exported serving file.
struct ServingReport {
  int64_t workloads = 0;
  int64_t records = 0;
  int64_t artifacts = 0;
  int64_t tables = 0;  // dispatch tables
  int64_t bytes = 0;
  std::string sha256 = {};  // the file's hash, for pinning it
};

// The records that prune keeps. The best default of each group is always kept, so that a tuned
// kernel can still be compared with the untuned one.
struct PrunePolicy {
  int keep_best = 8;  // valid records per workload, target and number of threads
  bool keep_failures = false;
  bool drop_damaged = false;  // rows that nobody can use any more
  bool dry_run = false;       // counts and changes nothing
};

struct PruneReport {
  int64_t records = 0;  // number dropped, as in the following
  int64_t artifacts = 0;
  int64_t workloads = 0;
  int64_t targets = 0;
  int64_t damaged = 0;
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
};

// One workload and a summary of its records.
struct WorkloadSummary {
  std::string hash = {};
  std::string canonical = {};
  std::string op = {};
  std::string label = {};  // label of its latest labelled record
  int64_t records = 0;
  int64_t valid = 0;        // measured and correct
  double best_seconds = 0;  // median of the fastest valid record; 0 without one
};

struct Info {
  std::string path = {};
  int schema_version = 0;
  bool serving = false;       // written by export_serving: cannot be changed
  std::string distrust = {};  // why others may decide its content; empty: trusted
  int64_t kernels = 0;        // kernels that records name, one per workload
  int64_t runnable = 0;       // kernels of these that may run
  int64_t bytes = 0;
  std::map<std::string, int64_t> rows = {};  // by table
  std::vector<WorkloadSummary> workloads = {};
  std::vector<TargetIdentity> targets = {};
  std::vector<std::string> tool_versions = {};
  std::vector<BadRow> bad = {};
};

}  // namespace tilewright::database
