// The store: one SQLite file with everything that tuning found out.
//
//   Store store = Store::open("tilewright.db", Mode::Create);
//   Transaction both = store.begin();  // the kernel and its record, or neither
//   record.artifact_hash = store.put_artifact(artifact);
//   store.insert(record);
//   both.commit();                     // from here on it survives kill -9 and loss of power
//   …
//   BestResult best = store.best({.workload_hash = hash, .target = target});
//   if (!best.record) log(best.miss);  // "tuned for another chip: …"
//
// Every row carries a checksum that is verified whenever the row is read. A damaged row is passed
// over and reported, never returned. A store is used by one thread at a time; any number of
// processes may read a file while one writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "database/dispatch.h"
#include "database/error.h"
#include "database/record.h"
#include "database/report.h"
#include "database/target.h"
#include "database/trust.h"

namespace tilewright::database {

enum class Mode {
  ReadWrite,  // the file must exist; an older schema is migrated
  // The file must exist; an older schema is read as it is. A serving file, which nobody changes, is
  // read without locks.
  ReadOnly,
  Create,  // ReadWrite, and made when it does not exist
};

// A value, or why there is none.
template <class T>
struct Lookup {
  std::optional<T> value = {};
  std::string miss = {};

  explicit operator bool() const { return value.has_value(); }
};

// What a kernel must match to be used. What is left out does not matter.
struct BestQuery {
  std::string workload_hash = {};
  TargetIdentity target = {};
  std::optional<int> threads = {};
  std::map<std::string, int> sketch_versions = {};  // the current version of each sketch by name
  std::optional<std::string> tool_version = {};
  std::optional<std::string> compiler_version = {};
  std::optional<std::string> driver_version = {};
  bool need_artifact = true;
  bool allow_offline = false;  // also what a model has ranked and nobody has measured
  // What the processor has whose instruction sets the code must keep to, as cpu_features() names them.
  std::optional<std::set<std::string>> processor = {};
};

// The query that a nearer or farther kernel answers, and why that kernel is less than what was asked
// for: "tuned for 2 threads, asked for 1". Empty for what was asked for.
struct NearQuery {
  BestQuery query = {};
  std::string reason = {};
};

// The fastest record that matches, with its artifact if it has one. Confirmed records come before
// those that were measured only once, of several confirmations of one kernel the latest counts, ties
// go to the earlier trial. `miss` says why there is none,
// `skipped` which better rows were damaged.
struct BestResult {
  std::optional<Record> record = {};
  std::optional<Artifact> artifact = {};
  std::string miss = {};
  std::vector<BadRow> skipped = {};
  std::optional<DispatchRange> range = {};  // of best_at: the range of the table that said so
  std::string near =
      {};  // of a kernel for one of nearest(): why it is less than what was asked for
};

// Which records are asked for; what is left empty does not matter.
struct RecordFilter {
  std::string workload_hash = {};
  std::string target_hash = {};
  std::string op = {};
  std::string run_id = {};
  std::optional<Verdict> verdict = {};
  bool by_time = false;  // fastest first instead of in the order of storing
  int64_t limit = -1;    // at most so many rows are looked at
};

struct RecordList {
  std::vector<Record> records = {};
  std::vector<BadRow> skipped = {};
};

struct FailureCounts {
  std::map<Verdict, int64_t> by_verdict = {};     // valid trials are not among them
  std::map<std::string, int64_t> by_reason = {};  // by the first line of the reason
};

// A config that need not be tried again.
struct TriedConfig {
  std::string sketch = {};
  int sketch_version = 0;
  std::string config = {};

  // clang-tidy 14 sees a null pointer in a comparison that is made by the compiler.
  auto operator<=>(const TriedConfig&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The hash under which an artifact is stored.
std::string content_hash(const Artifact& artifact);

// The id under which a record is stored. `created` must be set: it is part of it.
std::string content_hash(const Record& record);

class StoreImpl;

// Groups changes: all of them are stored by `commit`, or none. Within another transaction it only
// joins that one.
class Transaction {
 public:
  explicit Transaction(StoreImpl& store);
  ~Transaction();
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) = delete;

  void commit();

 private:
  class Guard;
  std::unique_ptr<Guard> guard_;
};

class Store {
 public:
  // Throws DatabaseError. An interrupted write of an earlier process is rolled back.
  // Kernels leave a store only to be run, so only those leave it that may: those that were made here,
  // in a file that nobody else may write, and those that a key of `trust` has signed. With a pin the
  // path must be a serving file of that content, which then may be anybody's; it is read once.
  // Throws TrustError for a key or pin that is none.
  static Store open(const std::filesystem::path& path, Mode mode,
                    std::chrono::milliseconds busy_timeout = std::chrono::seconds(5),
                    Trust trust = {});

  // A store that lives as long as this object.
  static Store open_in_memory();

  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  const std::string& path() const;
  int schema_version() const;  // lower than kSchemaVersion only when opened read-only
  // Why what the file holds may be somebody else's, with the next command; empty when it is trusted.
  const std::string& distrust() const;

  // --- Writing. All throw DatabaseError (Unwritable when opened read-only) and RecordError. ---

  [[nodiscard]] Transaction begin();

  // Stores a finished trial and returns its id. Storing the very same record again (with
  // `created` set) changes nothing.
  std::string insert(const Record& record);
  std::vector<std::string> insert(std::span<const Record> records);  // in one transaction

  // Vouches for the kernel: it was made here. Returns its hash. A record that is inserted later and
  // names it says for which workload.
  std::string put_artifact(const Artifact& artifact);
  void put_model(const Model& model);  // replaces the one with its key

  // Replaces the one with its key. The records that it names must be here.
  void put_dispatch(const DispatchTable& table);

  std::string begin_run(TuningRun run);  // returns the id that the run's records carry
  void set_run_state(const std::string& id, RunState state);

  // --- Reading. All throw DatabaseError when the file itself is damaged. Damaged rows are passed
  // over; where the answer does not list them, `check` does. ---

  BestResult best(const BestQuery& query) const;
  // The same at sizes of the workload's dynamic dimensions: what its dispatch table says, where it
  // has one that can be used and the sizes lie within it; else best().
  BestResult best_at(const BestQuery& query, const Sizes& sizes) const;
  // What to ask for where no kernel is what the query asks for, on `asked` threads: all measured
  // kernels of the workload that may serve (database/target.h), by target and number of threads, the
  // nearest first. best, best_at and dispatch answer each.
  std::vector<NearQuery> nearest(const BestQuery& query, const ThreadsAsked& asked) const;
  // The latest dispatch table all of whose kernels match the query: one that is missing, damaged or
  // of another version makes the whole table a miss.
  DispatchResult dispatch(const BestQuery& query) const;
  std::vector<DispatchTable> dispatch_tables() const;  // all healthy ones, by key
  RecordList records(const RecordFilter& filter = {}) const;
  Lookup<Record> record(const std::string& id) const;
  // The kernel of a record, where it may run; every other way to a kernel goes through this one.
  Lookup<Artifact> artifact(const Record& record) const;
  // A kernel that may run for some workload.
  Lookup<Artifact> artifact(const std::string& hash) const;
  Lookup<Model> model(const std::string& target_hash, const std::string& kind,
                      int feature_version) const;

  std::vector<TuningRun> runs() const;  // latest first
  Lookup<TuningRun> run(const std::string& id) const;
  Lookup<TuningRun> last_unfinished_run() const;  // running (or killed) or interrupted

  // The workloads of an operator (all of them for "") with what was measured on a target (any for
  // ""), for warm starts: how near they are is the caller's to judge.
  std::vector<WorkloadSummary> workloads(const std::string& op = "",
                                         const std::string& target_hash = "") const;

  FailureCounts failures(const std::string& workload_hash, const std::string& target_hash) const;

  // Every config with a verdict, right or wrong. What was only ranked by a model is not among them.
  std::set<TriedConfig> tried(const std::string& workload_hash,
                              const std::string& target_hash) const;

  // --- Care. ---

  Info info() const;

  // Looks at every page and row. Reports damage instead of throwing.
  CheckReport check() const;

  // Takes in all facts of another database. The outcome does not depend on the order of merges. Its
  // kernels come along and are not run, unless a key that this store trusts has signed them.
  MergeReport merge(const std::filesystem::path& other);

  // Signs every kernel that was made here, for whoever trusts the key. Returns how many.
  int64_t sign(const SigningKey& key);

  PruneReport prune(const PrunePolicy& policy);

  // One JSON object a line: a header, then every healthy row in an order that depends on nothing
  // but content. Importing into an empty store and exporting again gives the same text.
  ExportReport export_jsonl(std::ostream& out) const;

  // Writes a slim file for serving processes, in the place of an earlier one: of each workload,
  // target and number of threads the best record, the latest untuned default as a fallback, the
  // dispatch table and its records, and their kernels; no failures, runs or models. All rows are as
  // they stand here. Such a file is opened for reading only, without locks. It vouches for its
  // kernels, all of which may run here.
  ServingReport export_serving(const std::filesystem::path& path) const;

  // Takes in such lines as export_jsonl writes. A line that is not one of these throws RecordError with its number and
  // nothing is imported; a row whose checksum does not match is reported and left out.
  // `source` names where the lines come from. Kernels are treated as merge() does.
  MergeReport import_jsonl(std::istream& in, const std::string& source = "");

 private:
  explicit Store(std::unique_ptr<StoreImpl> impl);

  std::unique_ptr<StoreImpl> impl_;
};

}  // namespace tilewright::database
