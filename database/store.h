// The store: one SQLite file with all results of tuning.
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
// Every row carries a checksum that is verified whenever the row is read. A damaged row is skipped
// and reported, never returned. A store is used by one thread at a time. Any number of processes
// may read a file while one writes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
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
#include "database/trust/trust.h"

namespace tilewright::database {

enum class Mode {
  ReadWrite,  // the file must exist; migrates an older schema
  // The file must exist; an older schema is read as it is. A serving file, which nobody changes, is
  // read without locks.
  ReadOnly,
  Create,  // ReadWrite, and creates the file when it does not exist
};

// A value, or the reason why there is none.
template <class T>
struct Lookup {
  std::optional<T> value = {};
  std::string miss = {};

  explicit operator bool() const { return value.has_value(); }
};

// The requirements on a kernel. Empty fields match everything.
struct BestQuery {
  std::string workload_hash = {};
  TargetIdentity target = {};
  std::optional<int> threads = {};
  std::optional<std::string> tool_version = {};
  std::optional<std::string> compiler_version = {};
  std::optional<std::string> driver_version = {};
  bool need_artifact = true;
  bool allow_offline = false;  // also kernels that a model ranked and nobody measured
  // The processor's instruction sets, as cpu_features() names them: code that needs others is passed
  // over. Nothing: any code.
  std::optional<std::set<std::string>> processor = {};
};

// A query that another kernel answers, and why that kernel is less than asked for: "tuned for 2
// threads, not for 1". The reason is empty for the kernel that was asked for.
struct NearQuery {
  BestQuery query = {};
  std::string reason = {};
};

// The fastest record that matches, with its artifact if it has one. Confirmed records come before
// those that were measured only once. Among several confirmations of one kernel the latest counts.
// Ties go to the earlier trial. `miss` is the reason why there is none; `skipped` lists better rows
// that were damaged.
struct BestResult {
  std::optional<Record> record = {};
  std::optional<Artifact> artifact = {};
  std::string miss = {};
  std::vector<BadRow> skipped = {};
  std::optional<DispatchRange> range = {};  // for best_at: the table's range that gave the record
  std::string near = {};  // for a kernel of nearest(): why it is less than asked for
  // Why a better kernel that was kept does not serve; "": none. That this processor lacks its features
  // is told of an untuned default alone: what was tuned without them is as good as it gets.
  std::string passed_over = {};
};

// A filter for records; empty fields match everything.
struct RecordFilter {
  std::string workload_hash = {};
  std::string target_hash = {};
  std::string op = {};
  std::string run_id = {};
  std::optional<Verdict> verdict = {};
  bool by_time = false;  // fastest first, instead of in the order of insertion
  int64_t limit = -1;    // maximum number of rows to examine
};

struct RecordList {
  std::vector<Record> records = {};
  std::vector<BadRow> skipped = {};
};

struct FailureCounts {
  std::map<Verdict, int64_t> by_verdict = {};     // without valid trials
  std::map<std::string, int64_t> by_reason = {};  // by the first line of the reason
};

// A config that need not be tried again.
struct TriedConfig {
  std::string sketch = {};
  int sketch_version = 0;
  std::string config = {};

  // clang-tidy 14 sees a null pointer in the compiler's generated comparison.
  auto operator<=>(const TriedConfig&) const = default;  // NOLINT(modernize-use-nullptr)
};

class Store;

// The contents of a serving file.
struct ServingContent {
  std::optional<std::set<std::string>> workloads = {};  // by hash; nothing: all of them
  // Records in place of the best ones of their threads and target, by workload.
  std::map<std::string, std::string> chosen = {};
  // Named parts, which make it a model file.
  std::map<std::string, std::shared_ptr<const std::string>> parts = {};
  // One more part, which tells of the file's kernels: made of the file, and of their hashes. Where the file's
  // place is not trusted it is left out.
  std::string index_name = {};
  std::function<std::string(const Store& made, const std::set<std::string>& kernels)> index =
      nullptr;
};

// The hash under which an artifact is stored.
std::string content_hash(const Artifact& artifact);

// The checksum of its bytes and description, to find damage.
int64_t code_checksum(const Artifact& artifact);

// The id under which a record is stored. `created` must be set, since it is part of the id.
std::string content_hash(const Record& record);

class StoreImpl;

// Groups changes: `commit` stores all of them, or none is stored. Inside another transaction it
// only joins that one.
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
  //
  // Kernels leave a store only to be run, so only trusted ones leave it. These are kernels that
  // were made here, in a file that nobody else may write, and kernels that a key of `trust` has
  // signed.
  //
  // With a pin, the path must be a serving file of that content, which may then have any owner; it
  // is read once. Throws TrustError for an invalid key or pin.
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
  // The reason why others may decide the file's content, with the next command; empty when it is
  // trusted.
  const std::string& distrust() const;

  // --- Writing. All throw DatabaseError (Unwritable when opened read-only) and RecordError. ---

  [[nodiscard]] Transaction begin();

  // Stores a finished trial and returns its id. Storing the same record again (with `created` set)
  // changes nothing.
  std::string insert(const Record& record);
  std::vector<std::string> insert(std::span<const Record> records);  // in one transaction

  // Records that the kernel was made here, and returns its hash. A record that is inserted later
  // and names the kernel determines its workload.
  std::string put_artifact(const Artifact& artifact);
  void put_model(const Model& model);  // replaces the one with its key

  // Replaces the table with its key. The records that it names must be in the store.
  void put_dispatch(const DispatchTable& table);

  std::string begin_run(TuningRun run);  // returns the id for the run's records
  void set_run_state(const std::string& id, RunState state);
  void set_run_args(const std::string& id, const std::string& args);

  // --- Reading. All throw DatabaseError when the file itself is damaged. Damaged rows are skipped.
  // Where the result does not list them, `check` does. ---

  BestResult best(const BestQuery& query) const;
  // Like best(), at sizes of the workload's dynamic dimensions. It uses the dispatch table where
  // there is a usable one and the sizes lie within it; otherwise best().
  BestResult best_at(const BestQuery& query, const Sizes& sizes) const;
  // Queries to try where no kernel is just what the query asks for, on `asked` threads: one per target
  // and number of threads of all measured kernels that may serve (database/target.h), nearest first.
  // best, best_at and dispatch answer each.
  std::vector<NearQuery> nearest(const BestQuery& query, const ThreadsAsked& asked) const;
  // The latest dispatch table all of whose kernels match the query. A kernel that is missing,
  // damaged or of another version makes the whole table a miss.
  DispatchResult dispatch(const BestQuery& query) const;
  std::vector<DispatchTable> dispatch_tables() const;  // all healthy ones, by key
  RecordList records(const RecordFilter& filter = {}) const;
  Lookup<Record> record(const std::string& id) const;
  // The kernel of a record, where it may run. Every other access to a kernel goes through this one.
  Lookup<Artifact> artifact(const Record& record) const;
  // A kernel that may run for a workload.
  Lookup<Artifact> artifact(const std::string& hash, const std::string& workload_hash) const;
  // The same without its source, out of a trusted serving file only bytes and description, which have to have
  // this checksum; so its source is not read.
  Lookup<Artifact> artifact(const std::string& hash, const std::string& workload_hash,
                            int64_t checksum) const;
  // A kernel that may run for some workload.
  Lookup<Artifact> artifact(const std::string& hash) const;
  Lookup<Model> model(const std::string& target_hash, const std::string& kind,
                      int feature_version) const;

  std::vector<TuningRun> runs() const;  // latest first
  Lookup<TuningRun> run(const std::string& id) const;
  Lookup<TuningRun> last_unfinished_run() const;  // running (or killed) or interrupted

  // The workloads of an operator (all for "") with a summary of measurements on a target (any for
  // ""), for warm starts. The caller judges their similarity.
  std::vector<WorkloadSummary> workloads(const std::string& op = "",
                                         const std::string& target_hash = "") const;

  FailureCounts failures(const std::string& workload_hash, const std::string& target_hash) const;

  // Every config with a verdict, right or wrong. Configs that a model only ranked are excluded.
  std::set<TriedConfig> tried(const std::string& workload_hash,
                              const std::string& target_hash) const;

  // --- Maintenance. ---

  Info info() const;

  // Checks every page and row. Reports damage instead of throwing.
  CheckReport check() const;

  // Merges all facts of another database. The result does not depend on the order of merges. Its
  // kernels are copied but may not run, unless a key that this store trusts has signed them.
  MergeReport merge(const std::filesystem::path& other);

  // Signs every kernel that was made here, for users who trust the key. Returns the number of
  // kernels.
  int64_t sign(const SigningKey& key);

  PruneReport prune(const PrunePolicy& policy);

  // One JSON object per line: a header, then every healthy row in an order that depends only on
  // content. Importing into an empty store and exporting again gives the same text.
  ExportReport export_jsonl(std::ostream& out) const;

  // Writes a small file for serving processes and replaces an earlier one. For each workload,
  // target and thread count it holds the best record and the latest untuned default as a fallback.
  // It also holds the dispatch table with its records, and all their kernels, but no failures, runs
  // or models. Rows are copied unchanged.
  //
  // Such a file is opened for reading only, without locks. It vouches for its kernels, all of which
  // may run here.
  ServingReport export_serving(const std::filesystem::path& path,
                               const ServingContent& content = {}) const;
  // Whether it is a model file, as `tune-cli compile` makes them.
  bool has_parts() const;
  // A part of a model file, or why there is none.
  Lookup<std::string> part(const std::string& name) const;
  // Reads a part of as many bytes to a place. Returns why it holds something else now, or "".
  std::string read_part(const std::string& name, std::span<std::byte> place) const;

  // Imports lines in the format of export_jsonl(). Any other line throws RecordError with its
  // number, and nothing is imported. A row whose checksum does not match is reported and left out.
  // `source` names the origin of the lines. Kernels are treated as in merge().
  MergeReport import_jsonl(std::istream& in, const std::string& source = "");

 private:
  explicit Store(std::unique_ptr<StoreImpl> impl);
  void change_run(const std::string& id, const std::function<void(TuningRun&)>& change);

  std::unique_ptr<StoreImpl> impl_;
};

}  // namespace tilewright::database
