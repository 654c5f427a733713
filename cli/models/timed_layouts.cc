#include "cli/models/timed_layouts.h"

#include <algorithm>
#include <functional>
#include <set>

#include "cli/lookup.h"

namespace tilewright::cli {
namespace {

constexpr double kShare = 0.33;  // of the time limit, for first answers in other layouts

bool is_chosen_by_time(const ProgramArguments& a, const ModelProgram& program,
                       const database::Store& store) {
  // Kernels that are not trusted have times and are not run.
  if (!store.distrust().empty()) return false;
  return !a.no_fusion && program.graph.dims.empty() && program.graph.states.empty() &&
         !Target::parse(a.common.target).is_cuda();
}

// The times of a database, and what it was asked for in vain.
struct StoredTimes {
  std::optional<double> operator()(const std::string& spec) {
    const Workload workload = parse_workload(spec);
    const auto record = lookup.best_fact(store, workload);
    if (record && !record->offline) return record->median_seconds;
    if (asked.insert(workload.canonical).second && !has_failed(workload))
      lacking.push_back(workload);
    return otherwise;
  }

  // A first answer that was wrong once is not tried by each command.
  bool has_failed(const Workload& workload) const {
    const auto tried =
        store.records({.workload_hash = workload.hash(), .target_hash = lookup.identity.hash});
    return std::ranges::any_of(tried.records,
                               [&](const auto& r) { return r.threads == lookup.threads; });
  }

  const Lookup& lookup;
  const database::Store& store;
  std::optional<double> otherwise = {};  // seconds of what the database lacks
  std::vector<Workload> lacking = {};
  std::set<std::string> asked = {};  // canonical texts of `lacking`
};

}  // namespace

graph::Graph with_timed_layouts(const ProgramArguments& a, const ModelProgram& program,
                                const database::Store& store, Lacking lacking) {
  if (!is_chosen_by_time(a, program, store)) return program.graph;
  const Lookup lookup(a.common);
  StoredTimes times{lookup, store};
  if (lacking == Lacking::Avoided) times.otherwise = graph::kForbiddenSeconds;
  return optimized(program.model, a, program.narrowing, std::ref(times));
}

bool time_layouts(const ProgramArguments& a, const ModelProgram& program,
                  const TuningArguments& arguments, database::Store& store) {
  if (arguments.trials == 0 || !is_chosen_by_time(a, program, store)) return false;
  const Lookup lookup(a.common);
  StoredTimes times{lookup, store};
  optimized(program.model, a, program.narrowing, std::ref(times));
  // Constants that the model's own workloads read lie in memory as much as theirs.
  int64_t bytes = 0;
  for (const auto& [workload, own] : uses_of(program.graph).constants) bytes = own.bytes;
  Uses others;
  for (Workload& w : times.lacking) {
    SpreadOperands& own = others.constants[w.hash()];
    own.bytes = bytes;
    for (const Param& p : w.inputs) {
      if (p.role == ParamRole::Weight) own.names.push_back(p.buffer->name);
    }
    others.workloads.push_back(std::move(w));
    others.counts.push_back(1);
  }
  return Tuning(arguments, others, store).answer(kShare * arguments.seconds);
}

}  // namespace tilewright::cli
