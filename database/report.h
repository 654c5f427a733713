// What the store's longer jobs have to tell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "database/record.h"

namespace tilewright::database {

// A row that must not be used. Readers pass over it and report it.
struct BadRow {
  std::string table = {};
  std::string key = {};  // as it stands in the file; may itself be damaged
  int64_t row = 0;       // SQLite's rowid
  std::string problem = {};
};

// "records 3f2a… (row 7): the checksum does not match"
std::string to_string(const BadRow& row);

struct CheckReport {
  std::vector<std::string> structure = {};  // what SQLite's integrity check says
  std::vector<BadRow> rows = {};
  // Healthy records whose workload, target or artifact is missing, and dispatch tables that name a
  // record which is.
  std::vector<BadRow> dangling = {};
  std::map<std::string, int64_t> checked = {};  // rows looked at, by table

  bool ok() const { return structure.empty() && rows.empty() && dangling.empty(); }
};

// Of merge and import.
struct MergeReport {
  struct Counts {
    int64_t added = 0;
    int64_t healed = 0;   // a damaged row here was replaced by a healthy one
    int64_t updated = 0;  // a later row won
    int64_t same = 0;

    bool operator==(const Counts&) const = default;
  };

  std::map<std::string, Counts> tables = {};
  int64_t foreign = 0;  // kernels that came along and are not run: nobody here made or signed them
  int64_t adopted = 0;  // kernels that a trusted key has signed
  std::vector<BadRow> bad = {};              // rows of the source that were not taken
  std::vector<std::string> unreadable = {};  // tables of the source that could be read only in part
};

struct ExportReport {
  int64_t rows = 0;
  std::vector<BadRow> bad = {};  // rows that were left out
  std::vector<std::string> unreadable = {};
};

// What went into a serving file.
struct ServingReport {
  int64_t workloads = 0;
  int64_t records = 0;
  int64_t artifacts = 0;
  int64_t tables = 0;  // dispatch tables
  int64_t bytes = 0;
  std::string sha256 = {};  // of the file, to pin it
};

// What prune keeps. Defaults are always kept, the best one of each group, so that a tuned kernel
// can still be held against not tuning.
struct PrunePolicy {
  int keep_best = 8;  // valid records for each workload, target and number of threads
  bool keep_failures = false;
  bool drop_damaged = false;  // rows that no one can use any more
  bool dry_run = false;       // count, change nothing
};

struct PruneReport {
  int64_t records = 0;  // dropped, as the following
  int64_t artifacts = 0;
  int64_t workloads = 0;
  int64_t targets = 0;
  int64_t damaged = 0;
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
};

// One workload with what is known of it.
struct WorkloadSummary {
  std::string hash = {};
  std::string canonical = {};
  std::string op = {};
  std::string label = {};  // of its latest labelled record
  int64_t records = 0;
  int64_t valid = 0;        // measured and right
  double best_seconds = 0;  // median of the fastest valid record, 0 without one
};

struct Info {
  std::string path = {};
  int schema_version = 0;
  bool serving = false;       // written by export_serving: it cannot be changed
  std::string distrust = {};  // why others may decide what it holds; empty: it is trusted
  int64_t kernels = 0;        // that records name, one for each workload
  int64_t runnable = 0;       // kernels of these that may run
  int64_t bytes = 0;
  std::map<std::string, int64_t> rows = {};  // by table
  std::vector<WorkloadSummary> workloads = {};
  std::vector<TargetIdentity> targets = {};
  std::vector<std::string> tool_versions = {};
  std::vector<BadRow> bad = {};
};

}  // namespace tilewright::database
