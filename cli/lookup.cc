#include "cli/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/gpu.h"
#include "runtime/load/elf_check.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/identity.h"
#include "tuner/search/trial_record.h"

namespace tilewright::cli {
namespace {

// Why the kernel that was tuned for what is asked for does not run on this processor; empty where
// something else is missing.
std::string lacking_here(const database::BestResult& exact) {
  return exact.miss.starts_with(database::kLacking) ? exact.miss : "";
}

}  // namespace

database::TargetIdentity described_identity(const Target& target) {
  TargetFacts facts = target_facts(target);
  return database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
}

database::TargetIdentity target_identity(const Target& target) {
  const TargetFacts facts = measuring_facts(target);
  return database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
}

TargetFacts measuring_facts(const Target& target) {
  TargetFacts facts = target_facts(target);
  if (!runs_on_gpu_here(target)) return facts;
  const cuda::DeviceFacts& gpu = *gpu_here().facts;
  facts.chip = gpu.name;
  facts.cores = gpu.sms;
  return facts;
}

Lookup::Lookup(const CommonOptions& options)
    : target(Target::parse(options.target)), identity(target_identity(target)),
      threads(target.has_threads ? thread_count(options) : 1),
      held_to_threads(options.threads > 0 && threads <= available_threads()) {}

database::BestResult Lookup::best(const database::Store& store, const Workload& workload) const {
  return store.best(best_query(workload, target, identity, threads));
}

database::BestResult Lookup::best_at(const database::Store& store, const Workload& workload,
                                     const std::map<std::string, int64_t>& sizes) const {
  return store.best_at(best_query(workload, target, identity, threads), sizes);
}

database::BestResult Lookup::nearest_at(const database::Store& store, const Workload& workload,
                                        const std::map<std::string, int64_t>& sizes) const {
  database::BestResult exact = best_at(store, workload, sizes);
  const database::ThreadsAsked asked{threads, available_threads()};
  const std::string better = exact.record ? exact.passed_over : lacking_here(exact);
  const bool tuned = exact.record && !(exact.record->is_default && !better.empty());
  if (!target.has_threads || (tuned && asked.met_by(threads))) return exact;
  const database::BestQuery query = best_query(workload, target, identity, threads);
  for (const database::NearQuery& near : store.nearest(query, asked)) {
    if (held_to_threads && near.query.threads != threads) continue;
    database::BestResult found = store.best_at(near.query, sizes);
    if (!found.record || (exact.record && found.record->is_default)) continue;
    found.near = (better.empty() ? "" : better + "; ") + near.reason;
    return found;
  }
  return exact;
}

std::string Lookup::outcome_of(const database::BestResult& best) const {
  if (!best.near.empty()) return "near";
  return best.record->is_untuned() && target.has_threads ? "default" : "hit";
}

int Lookup::threads_of(const database::BestResult& best) const {
  return best.record ? std::min(threads, best.record->threads) : threads;
}

Lookup Lookup::as_tuned(const database::Store& store, const Workload& workload) const {
  Lookup tuned = *this;
  const database::BestResult best = nearest_at(store, workload);
  if (best.record && best.record->target.hash == identity.hash)
    tuned.threads = best.record->threads;
  return tuned;
}

database::DispatchResult Lookup::dispatch(const database::Store& store,
                                          const Workload& workload) const {
  database::DispatchResult measured =
      store.dispatch(best_query(workload, target, identity, threads));
  if (measured.table || best(store, workload).record) return measured;
  database::DispatchResult predicted = store.dispatch(predicted_query(workload));
  return predicted.table ? predicted : measured;
}

database::BestResult Lookup::best_or_predicted(const database::Store& store,
                                               const Workload& workload,
                                               const std::map<std::string, int64_t>& sizes) const {
  database::BestResult measured = nearest_at(store, workload, sizes);
  if (measured.record) return measured;
  database::BestResult predicted = store.best_at(predicted_query(workload), sizes);
  return predicted.record ? predicted : measured;
}

std::optional<database::Record> Lookup::best_fact(const database::Store& store,
                                                  const Workload& workload) const {
  database::BestQuery query = best_query(workload, target, identity, threads);
  query.need_artifact = false;
  database::BestResult measured = store.best(query);
  if (measured.record) return measured.record;
  query = predicted_query(workload);
  query.need_artifact = false;
  return store.best(query).record;
}

database::BestQuery Lookup::predicted_query(const Workload& workload) const {
  database::BestQuery query = best_query(workload, target, described_identity(target), threads);
  query.allow_offline = true;
  return query;
}

std::vector<database::Record> Lookup::defaults(const database::Store& store,
                                               const Workload& workload) const {
  database::RecordFilter filter;
  filter.workload_hash = workload.hash();
  filter.target_hash = identity.hash;
  filter.verdict = database::Verdict::Valid;
  std::vector<database::Record> found;
  for (database::Record& r : store.records(filter).records) {
    if (r.is_default) found.push_back(std::move(r));
  }
  return found;
}

KernelDescription stored_description(const Workload& workload, const database::Artifact& artifact) {
  try {
    std::string_view object(reinterpret_cast<const char*>(artifact.bytes.data()),
                            artifact.bytes.size());
    KernelDescription description = KernelDescription::from_json(artifact.description);
    require_runnable(description);
    if (std::string problem = object_problem(object); !problem.empty()) {
      throw KernelError("cannot load a kernel: " + problem);
    }
    return description;
  } catch (const Error& e) {
    throw database::DatabaseError(
        database::DatabaseError::Kind::Damaged,
        fmt::format("the stored kernel of {}: {}", spec_to_inline(parse_spec(workload.canonical)),
                    e.what()));
  }
}

std::vector<Workload> stored_workloads(const database::Store& store, const Lookup& lookup) {
  std::vector<Workload> all;
  std::set<std::string> hashes = {lookup.identity.hash, described_identity(lookup.target).hash};
  std::set<std::string> known;
  for (const std::string& hash : hashes) {
    for (const auto& s : store.workloads("", hash)) {
      if (!known.insert(s.hash).second) continue;
      try {
        all.push_back(parse_workload(s.canonical));
        all.back().label = s.label;
      } catch (const SpecError&) {
        continue;  // of an operator that a later version knows
      }
    }
  }
  return all;
}

}  // namespace tilewright::cli
