#include "serving/table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "database/serving.h"
#include "database/store.h"
#include "kernel/cpu_features.h"
#include "runtime/error.h"

namespace tilewright::serving {
namespace {

// The instruction sets that code of the target may use; nothing for a GPU's, which its driver judges.
std::optional<std::set<std::string>> processor_for(const database::TargetIdentity& target) {
  if (target.features.starts_with("sm_")) return std::nullopt;
  return cpu_features();
}

// Whether kernels of the target may run in this process at all.
bool may_run(const database::TargetIdentity& target) {
  const auto processor = processor_for(target);
  if (!processor) return true;
  std::istringstream names(target.features);
  for (std::string name; names >> name;) {
    if (!processor->contains(name)) return false;
  }
  return true;
}

bool is_dynamic(const Spec& spec) {
  return std::any_of(spec.params.begin(), spec.params.end(), [](const auto& param) {
    if (auto* size = std::get_if<DimSize>(&param.second)) return size->is_dynamic();
    auto* shape = std::get_if<std::vector<DimSize>>(&param.second);
    return shape != nullptr && std::any_of(shape->begin(), shape->end(),
                                           [](const DimSize& d) { return d.is_dynamic(); });
  });
}

// Whose kernels are read.
enum class Machines : uint8_t { This, All };

std::optional<std::set<std::string>> processor_for(const database::TargetIdentity& target,
                                                   Machines machines) {
  return machines == Machines::All ? std::nullopt : processor_for(target);
}

StoredKernel kernel_of(const database::Record& record, database::Artifact artifact) {
  std::string flags = artifact.flags;
  artifact.source.clear();  // what serves kernels compiles none
  return {record.target,
          record.threads,
          record.sketch,
          record.median_seconds,
          record.is_default,
          record.offline,
          record.confirmed,
          "",
          record.artifact_hash,
          record.workload_hash,
          std::move(flags),
          0,
          std::make_shared<const database::Artifact>(std::move(artifact))};
}

// Kernels under one key compete with each other; the store says which is the best.
struct Key {
  std::string target_hash;
  int threads = 1;
  bool offline = false;

  bool operator<(const Key& o) const {
    return std::tie(target_hash, threads, offline) < std::tie(o.target_hash, o.threads, o.offline);
  }
};

// Adds the kernels of a dispatch table, if there is one. Ranges of one kernel share its artifact.
void add_ranges(const database::Store& store, const database::BestQuery& query,
                StoredWorkload& workload) {
  database::DispatchResult found = store.dispatch(query);
  if (!found.table) return;
  std::map<std::string, StoredKernel> kernels;
  for (auto& [id, kernel] : found.kernels) {
    if (!kernel.artifact) return;
    kernels.emplace(id, kernel_of(kernel.record, std::move(*kernel.artifact)));
  }
  const database::DispatchTable& table = *found.table;
  StoredRanges ranges{query.target, table.threads, query.allow_offline, table.one_order, {}};
  for (const database::DispatchRange& range : table.ranges) {
    StoredRanges::Range stored{{}, kernels.at(range.record), {}};
    for (const auto& [dim, first] : range.first) stored.sizes[dim] = {first, range.last.at(dim)};
    for (const database::DispatchPoint& point : table.points) {
      const auto seconds = point.seconds.find(range.record);
      if (seconds != point.seconds.end()) {
        stored.measured.emplace_back(point.sizes, seconds->second);
      }
    }
    ranges.ranges.push_back(std::move(stored));
  }
  workload.ranges.push_back(std::move(ranges));
}

// Adds the untuned default of each target, where it is not its best kernel anyway.
void add_defaults(const database::Store& store, const std::vector<database::Record>& records,
                  Machines machines, std::vector<StoredKernel>& kernels) {
  for (const database::Record& record : records) {
    if (!record.is_default || record.artifact_hash.empty()) continue;
    if (machines == Machines::This && !may_run(record.target)) continue;
    bool known = std::any_of(kernels.begin(), kernels.end(), [&](const StoredKernel& k) {
      return k.artifact_hash == record.artifact_hash && k.target.hash == record.target.hash &&
             k.threads == record.threads;
    });
    if (known) continue;
    auto artifact = store.artifact(record);
    if (!artifact) continue;
    const auto processor = processor_for(record.target, machines);
    if (processor && !database::lacking_features(*artifact.value, *processor).empty()) continue;
    kernels.push_back(kernel_of(record, std::move(*artifact.value)));
  }
}

void read_kernels(const database::Store& store, Machines machines, StoredWorkload& workload) {
  auto records = store
                     .records({.workload_hash = workload.hash,
                               .verdict = database::Verdict::Valid,
                               .by_time = true})
                     .records;
  std::set<std::string> known;
  std::set<Key> keys;
  std::map<std::string, database::TargetIdentity> targets;
  for (const database::Record& record : records) {
    if (known.insert(record.target.hash).second) workload.targets.push_back(record.target);
    if (machines == Machines::This && !may_run(record.target)) continue;
    targets.emplace(record.target.hash, record.target);
    keys.insert({record.target.hash, record.threads, record.offline});
  }
  for (const Key& key : keys) {
    database::BestQuery query;
    query.workload_hash = workload.hash;
    query.target = targets.at(key.target_hash);
    query.threads = key.threads;
    query.allow_offline = key.offline;
    query.processor = processor_for(query.target, machines);
    database::BestResult best = store.best(query);
    // Where something was measured, what a model ranked does not count.
    if (!best.record) workload.troubles.try_emplace(key.target_hash, best.miss);
    if (!best.record || !best.artifact || best.record->offline != key.offline) continue;
    workload.kernels.push_back(kernel_of(*best.record, std::move(*best.artifact)));
    workload.kernels.back().passed_over = best.passed_over;
    add_ranges(store, query, workload);
  }
  add_defaults(store, records, machines, workload.kernels);
  std::stable_sort(workload.kernels.begin(), workload.kernels.end(),
                   [](const StoredKernel& a, const StoredKernel& b) {
                     return std::tie(a.offline, a.seconds) < std::tie(b.offline, b.seconds);
                   });
}

StoredWorkloads read_workloads(const database::Store& store, Machines machines) {
  StoredWorkloads workloads;
  for (const database::WorkloadSummary& summary : store.workloads()) {
    StoredWorkload workload;
    workload.hash = summary.hash;
    workload.canonical = summary.canonical;
    try {
      if (summary.canonical.find("..") != std::string::npos) {
        workload.spec = parse_spec(summary.canonical);
      }
    } catch (const SpecError&) {
      continue;  // of an operator that a later version knows
    }
    if (summary.valid == 0) workload.failures = summary.records;
    read_kernels(store, machines, workload);
    workloads.emplace(workload.hash, std::move(workload));
  }
  return workloads;
}

bool any_dynamic(const StoredWorkloads& workloads) {
  return std::ranges::any_of(workloads,
                             [](const auto& entry) { return is_dynamic(entry.second.spec); });
}

}  // namespace

Table Table::read(const std::string& path, database::Trust trust) {
  database::Store store = database::Store::open(path, database::Mode::ReadOnly,
                                                std::chrono::seconds(5), std::move(trust));
  Table table;
  table.path_ = path;
  table.distrust_ = store.distrust();
  table.serving_ = database::is_serving_file(path);
  table.model_ = table.serving_ && store.has_parts();
  table.workloads_ = read_workloads(store, Machines::This);
  table.dynamic_ = any_dynamic(table.workloads_);
  return table;
}

StoredWorkloads Table::all_of(const database::Store& store) {
  StoredWorkloads workloads = read_workloads(store, Machines::All);
  const auto drop_code = [](StoredKernel& kernel) {
    kernel.code_checksum = database::code_checksum(*kernel.artifact);
    kernel.artifact = nullptr;
  };
  for (auto& [hash, workload] : workloads) {
    for (StoredKernel& kernel : workload.kernels) drop_code(kernel);
    for (StoredRanges& ranges : workload.ranges) {
      for (StoredRanges::Range& range : ranges.ranges) drop_code(range.kernel);
    }
  }
  return workloads;
}

Table::Table(std::shared_ptr<const database::Store> model, StoredWorkloads workloads)
    : path_(model->path()), distrust_(model->distrust()), serving_(true), model_(true),
      workloads_(std::move(workloads)), store_(std::move(model)) {
  // Targets of one name are one target, mostly that of all kernels.
  std::map<std::string, bool> known;
  const auto elsewhere = [&](const database::TargetIdentity& target) {
    auto [entry, fresh] = known.try_emplace(target.hash, false);
    if (fresh) entry->second = !may_run(target);
    return entry->second;
  };
  for (auto& [hash, workload] : workloads_) {
    std::erase_if(workload.kernels, [&](const auto& kernel) { return elsewhere(kernel.target); });
    std::erase_if(workload.ranges, [&](const auto& ranges) { return elsewhere(ranges.target); });
  }
  dynamic_ = any_dynamic(workloads_);
}

std::shared_ptr<const database::Artifact> Table::artifact(const StoredKernel& kernel) const {
  if (kernel.artifact != nullptr) return kernel.artifact;
  database::Lookup<database::Artifact> found =
      store_->artifact(kernel.artifact_hash, kernel.workload_hash, kernel.code_checksum);
  if (!found) throw KernelError("its artifact cannot be used: " + found.miss);
  if (const auto processor = processor_for(kernel.target)) {
    // Its description names others, which are looked at when it is loaded.
    const auto [lacking, fresh] = lacking_.try_emplace(kernel.flags);
    if (fresh) {
      lacking->second =
          database::lacking_features(database::flag_features(kernel.flags), *processor);
    }
    if (!lacking->second.empty()) throw KernelError(lacking->second);
  }
  return std::make_shared<const database::Artifact>(std::move(*found.value));
}

std::shared_ptr<const database::Artifact> Table::artifact_with_source(
    const StoredKernel& kernel) const {
  database::Lookup<database::Artifact> found =
      store_->artifact(kernel.artifact_hash, kernel.workload_hash);
  if (!found) throw KernelError("its artifact cannot be used: " + found.miss);
  return std::make_shared<const database::Artifact>(std::move(*found.value));
}

const StoredWorkload* Table::find(const std::string& hash) const {
  auto found = workloads_.find(hash);
  return found == workloads_.end() ? nullptr : &found->second;
}

std::vector<const StoredWorkload*> Table::dynamic(const std::string& op) const {
  std::vector<const StoredWorkload*> found;
  for (const auto& [hash, workload] : workloads_) {
    if (workload.spec.op == op && is_dynamic(workload.spec)) found.push_back(&workload);
  }
  return found;
}

}  // namespace tilewright::serving
