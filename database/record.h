// The facts that the database keeps. All of them are plain values; the caller decides how they are
// made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::database {

using Blob = std::vector<std::byte>;

// The outcome of a trial. The names of `verdict_name` are stored and shown to users.
enum class Verdict { Valid, CompileError, RuntimeError, Timeout, Wrong, Illegal };

// "valid", "compile", "runtime", "timeout", "wrong" or "illegal".
std::string_view verdict_name(Verdict verdict);
std::optional<Verdict> verdict_from_name(std::string_view name);

// The machine that a kernel was tuned for. Only `hash` is compared; `chip`, `features` and `cores`
// describe how two targets differ.
struct TargetIdentity {
  std::string hash = {};
  std::string chip = {};       // "AMD EPYC 9B14", "NVIDIA H200"
  std::string features = {};   // sorted, separated by single spaces: "avx2 avx512f fma"
  int cores = 0;               // cores, or multiprocessors of a GPU
  std::string canonical = {};  // the text that was hashed

  bool operator==(const TargetIdentity&) const = default;
};

// A target with its hash. Its canonical text holds the three fields and `extra`, free text that
// tells machines apart.
TargetIdentity make_target(std::string chip, std::string features, int cores,
                           const std::string& extra = "");

// The size of each dynamic dimension, by name.
using Sizes = std::map<std::string, int64_t>;

// A kernel's time at one combination of sizes of the workload's dynamic dimensions.
struct SizedTime {
  Sizes sizes = {};
  double seconds = 0;  // median

  bool operator==(const SizedTime&) const = default;
};

// "1 thread", "2 threads".
std::string threads_text(int threads);

// One finished trial: a measurement, or a failure with its reason.
struct Record {
  std::string id = {};  // made by Store::insert from all other fields; ignored on input
  std::string workload_hash = {};
  std::string workload_canonical = {};
  std::string op = {};
  std::string label = {};  // the user's name for the workload, may be empty
  TargetIdentity target = {};
  std::string sketch = {};
  int sketch_version = 0;
  std::string config = {};  // a JSON object, stored verbatim
  Verdict verdict = Verdict::Valid;
  std::string reason = {};  // why it failed; empty for a valid trial
  int threads = 1;
  // Seconds, in the order of measurement. A confirmed record has one sample, the median over all
  // its turns.
  std::vector<double> samples = {};
  double best_seconds = 0;    // 0: the least of the samples is taken
  double median_seconds = 0;  // 0: the median of the samples is taken
  // For a workload with dynamic dimensions: times at sizes other than the largest ones, which
  // `samples` has.
  std::vector<SizedTime> points = {};
  std::vector<float> features = {};  // the cost model's input, may be empty
  int feature_version = 0;
  int trial = 0;  // index within its run
  uint64_t seed = 0;
  std::string run_id = {};
  int64_t created = 0;  // microseconds since 1970; 0: now
  std::string tool_version = {};
  std::string compiler_version = {};
  std::string driver_version = {};
  bool is_default = false;         // the untuned default of its workload
  bool offline = false;            // ranked by a model, never measured
  bool confirmed = false;          // measured again at the end, interleaved with its rivals
  std::string artifact_hash = {};  // empty: no kernel is kept

  // An untuned default that nobody chose by measuring: better kernels may be there.
  bool is_untuned() const { return is_default && !confirmed; }
  bool operator==(const Record&) const = default;
};

// A compiled kernel. Its key is the hash of everything below, so equal bytes with another
// description are another artifact.
struct Artifact {
  std::string hash = {};  // made by Store::put_artifact; ignored on input
  Blob bytes = {};
  std::string description = {};  // a JSON object: symbols, parameters, launch geometry
  std::string source = {};
  std::string compiler = {};
  std::string flags = {};

  bool operator==(const Artifact&) const = default;
};

// A trained cost model, one per target, kind and feature version; the latest one counts.
struct Model {
  std::string target_hash = {};
  std::string kind = {};  // "xgboost"
  int feature_version = 0;
  Blob bytes = {};
  int64_t trained_on = 0;  // number of records
  int64_t created = 0;     // microseconds since 1970; 0: now

  bool operator==(const Model&) const = default;
};

// A run that was killed stays `Running`; a resume treats it like `Interrupted`.
enum class RunState { Running, Interrupted, Finished, Failed };

std::string_view run_state_name(RunState state);
std::optional<RunState> run_state_from_name(std::string_view name);

// One tuning run, from its command line to its end.
struct TuningRun {
  std::string id = {};  // made by Store::begin_run
  uint64_t seed = 0;
  std::string args = {};  // a JSON object: the request, for people to read, and the run's findings
  std::string target_hash = {};
  std::string tool_version = {};
  RunState state = RunState::Running;
  int64_t started = 0;  // microseconds since 1970; 0: now
  int64_t updated = 0;  // time of the last change

  bool operator==(const TuningRun&) const = default;
};

}  // namespace tilewright::database
