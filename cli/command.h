// What the commands of tune-cli share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "database/store.h"
#include "ir/ops/spec.h"
#include "kernel/target.h"

namespace CLI {
class App;
}

namespace tilewright::cli {

// The exit codes of the contract.
enum ExitCode : int {
  kDone = 0,
  kInternalFault = 1,
  kBadUsage = 2,
  kNoValidCandidate = 3,
  kNoDeviceOrToolchain = 4,
  kDatabaseTrouble = 5,
  kBudgetEnded = 6,
  kRequiredMissed = 7,
  kInterrupted = 130,
};

// What TILEWRIGHT_DB says.
std::string default_database();

// Options that most commands take.
struct CommonOptions {
  std::vector<std::string> specs;
  std::string db = default_database();
  std::string target = "native";
  int threads = 0;  // 0: all cores
  bool json = false;
  bool quiet = false;
  std::vector<std::string> trust;  // public keys, or files that hold one
  std::string pin;                 // SHA-256 of a serving file
};

// What a command needs and the database does not hold: exit code 7.
class MissError : public Error {
 public:
  using Error::Error;
  // "SPEC: REASON; this would tune it: tune-cli tune 'SPEC' --db FILE". `otherwise` is said behind.
  MissError(const Workload& workload, const CommonOptions& options, const std::string& reason,
            const std::string& otherwise = "");
};

// Adds the options: `--json` and `--quiet` always, the others where a command has use for them.
struct Wants {
  bool specs = true, specs_required = true;
  bool db = true;
  bool target = true;
  bool threads = true;
  // Kernels run: a target that this machine cannot run is refused before anything is done, as one
  // that does not exist is in any case.
  bool runs_kernels = true;
  bool cuda = false;   // CUDA targets too
  bool trust = false;  // --trust and --pin: kernels come out of the database
};
void add_common(CLI::App& app, CommonOptions& options, const Wants& wants);

// All specs that the command line names, as workloads. Throws SpecError.
std::vector<Workload> read_workloads(const CommonOptions& options);
// Keys and pin of the options; a key may be a file that holds it.
database::Trust trust_of(const CommonOptions& options);
// The database, with what the options trust. Throws DatabaseError, TrustError.
database::Store open_store(const CommonOptions& options,
                           database::Mode mode = database::Mode::ReadOnly);
// The command that would tune the workload: "tune-cli tune 'matmul:…' --db kernels.db".
std::string tune_command(const Workload& workload, const CommonOptions& options);
// The same as a note: "this would tune it: …".
void note_tuning(const CommonOptions& options, const Workload& workload);
int thread_count(const CommonOptions& options);
// This program with the argument that makes it a worker.
std::vector<std::string> worker_command();

// One JSON document on standard output. Throws as flush_output.
void print_json(const nlohmann::ordered_json& document);
// Whether print_json was called: no other document may follow.
bool printed_document();
// Hands on what was printed to standard output; throws Error when it does not take all of it.
void flush_output();
// Why standard output took no more, by the error number: "cannot write standard output: …".
std::string output_problem(int error);
// A line on standard error, unless --quiet.
void note(const CommonOptions& options, const std::string& line);

// A command adds itself to the parser; its function runs when it was called and gives the exit
// code.
using Runner = std::function<int()>;
using Runners = std::map<std::string, Runner>;

void add_tune(CLI::App& app, Runners& runners);
void add_best(CLI::App& app, Runners& runners);
void add_replay(CLI::App& app, Runners& runners);
void add_run(CLI::App& app, Runners& runners);
void add_explain(CLI::App& app, Runners& runners);
void add_bench(CLI::App& app, Runners& runners);
void add_export(CLI::App& app, Runners& runners);
void add_report(CLI::App& app, Runners& runners);
void add_show(CLI::App& app, Runners& runners);
void add_ops(CLI::App& app, Runners& runners);
void add_targets(CLI::App& app, Runners& runners);
void add_weights(CLI::App& app, Runners& runners);
void add_compile(CLI::App& app, Runners& runners);
void add_db(CLI::App& app, Runners& runners);
void add_help(CLI::App& app, Runners& runners);
void add_documents(CLI::App& app, Runners& runners);
void add_worker(CLI::App& app, Runners& runners);
void add_job_worker(CLI::App& app, Runners& runners);

// The whole program: parses, runs, and turns what is thrown into a message and an exit code.
int run(int argc, const char* const* argv);

}  // namespace tilewright::cli
