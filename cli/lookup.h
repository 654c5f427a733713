// Looking kernels up in the database for this machine.
#pragma once

#include <map>
#include <string>

#include "cli/command.h"
#include "kernel/target.h"
#include "runtime/load/kernel.h"
#include "runtime/machine/identity.h"

namespace tilewright::cli {

// Under which this machine's kernels for the target are kept: those of the GPU that is here, where
// it runs the target's.
database::TargetIdentity target_identity(const Target& target);
// The facts of that identity.
TargetFacts measuring_facts(const Target& target);
// Under which kernels are kept that were chosen with no such GPU: that of the data sheet. The same
// as target_identity() for a CPU.
database::TargetIdentity described_identity(const Target& target);

struct Lookup {
  explicit Lookup(const CommonOptions& options);

  // The best measured kernel with its artifact, or why there is none.
  database::BestResult best(const database::Store& store, const Workload& workload) const;
  // The same at these sizes of its dynamic dimensions: the kernel of the dispatch table's range,
  // where there is one.
  database::BestResult best_at(const database::Store& store, const Workload& workload,
                               const std::map<std::string, int64_t>& sizes) const;
  // The same, or where there is none the nearest measured kernel of a CPU that may serve in its place:
  // `near` says why it is less. None is what was asked for where there are fewer processors than
  // threads. Where there are enough, a number of threads that the user gave is held to. An untuned default
  // comes last where the tuned kernel does not run here.
  database::BestResult nearest_at(const database::Store& store, const Workload& workload,
                                  const std::map<std::string, int64_t>& sizes = {}) const;
  // "hit", "near" or "default" of what was found, as tw_outcome has them.
  std::string outcome_of(const database::BestResult& best) const;
  // On how many threads that kernel runs here.
  int threads_of(const database::BestResult& best) const;
  // This lookup with the number of threads for which the kernel was tuned that serves here, where
  // this machine tuned it.
  Lookup as_tuned(const database::Store& store, const Workload& workload) const;
  // The dispatch table that was measured or, for a GPU where none was, predicted.
  database::DispatchResult dispatch(const database::Store& store, const Workload& workload) const;
  // nearest_at(), or what a model ranked first where nothing was measured: its record says `offline`.
  database::BestResult best_or_predicted(const database::Store& store, const Workload& workload,
                                         const std::map<std::string, int64_t>& sizes = {}) const;

  // The fastest record, whether or not its kernel may run.
  std::optional<database::Record> best_fact(const database::Store& store,
                                            const Workload& workload) const;
  // The records of its untuned default that were right, the oldest first.
  std::vector<database::Record> defaults(const database::Store& store,
                                         const Workload& workload) const;

  Target target;
  database::TargetIdentity identity;
  int threads;           // 1 for a GPU, whose launches know their own
  bool held_to_threads;  // the user gave them, and this process may use as many processors

 private:
  // Asks for what was chosen by a model as well.
  database::BestQuery predicted_query(const Workload& workload) const;
};

// What is stored of a kernel for this CPU beside its object, which is looked at and not loaded: that is
// done in a worker. Throws DatabaseError that names the workload when either is not sound.
KernelDescription stored_description(const Workload& workload, const database::Artifact& artifact);

// Every workload that was tuned for the target, with its latest label.
std::vector<Workload> stored_workloads(const database::Store& store, const Lookup& lookup);

}  // namespace tilewright::cli
