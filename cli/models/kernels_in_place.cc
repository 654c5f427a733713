#include "cli/models/kernels_in_place.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/run/model_tensors.h"
#include "runtime/machine/timer.h"

namespace tilewright::cli {
namespace {

using database::Record;
using Choice = std::map<std::string, std::string>;  // record ids by workload

constexpr size_t kMost = 4;       // kernels of a workload
constexpr double kClose = 1.15;   // times the best one alone
constexpr double kFaster = 0.98;  // of its time, from where on another one is taken
constexpr size_t kRounds = 15, kLeastRounds = 7;
constexpr int kWarm = 2;  // runs of a round before the one that counts

// Kernels of a workload for these threads, the best one first. None where nothing can be compared.
std::vector<std::string> rivals_of(const database::Store& store, const Lookup& lookup,
                                   const Workload& w) {
  const database::BestResult best = lookup.best(store, w);
  if (!best.record || best.record->is_default || !w.dims.empty()) return {};
  std::vector<std::string> ids = {best.record->id};
  std::set<std::string> artifacts = {best.record->artifact_hash};
  const database::RecordFilter filter = {.workload_hash = w.hash(),
                                         .target_hash = best.record->target.hash,
                                         .verdict = database::Verdict::Valid,
                                         .by_time = true};
  for (const Record& r : store.records(filter).records) {
    if (r.threads != best.record->threads || r.offline || r.artifact_hash.empty()) continue;
    // A reader takes the fastest record of a file: one that is slower than the default would not count.
    if (r.is_default || r.median_seconds > kClose * best.record->median_seconds) break;
    if (ids.size() == kMost) break;
    if (!artifacts.insert(r.artifact_hash).second || !store.artifact(r)) continue;
    ids.push_back(r.id);
  }
  return ids;
}

// A model file that is there as long as this object, open.
class TrialFile {
 public:
  TrialFile(const database::Store& store, const database::ServingContent& content, std::string path,
            const CommonOptions& options)
      : path_(std::move(path)) {
    store.export_serving(path_, content);
    serving::ModelOptions own;
    own.threads = options.threads;
    own.log = [](const std::string&) {};  // what has only a default is told of when it is chosen
    model_ = std::make_unique<serving::Model>(path_, own);
    const serving::Sizes sizes = model_->largest_sizes();
    inputs_ = std::make_unique<Tensors>(model_->inputs(), sizes);
    outputs_ = std::make_unique<Tensors>(model_->outputs(), sizes);
    for (size_t i = 0; i < inputs_->size(); ++i) fill_randomly(&inputs_->at(i));
  }
  ~TrialFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;

  // Seconds of each workload in a run, by spec.
  std::map<std::string, double> times(const tw_executor& executor) {
    for (int i = 0; i <= kWarm; ++i) {
      model_->profile(inputs_->data(), inputs_->size(), outputs_->data(), outputs_->size(),
                      {&executor, nullptr});
    }
    std::map<std::string, double> seconds;
    for (const serving::NodeLine& node : model_->nodes()) seconds[node.spec] += node.seconds;
    return seconds;
  }

 private:
  std::string path_;
  std::unique_ptr<serving::Model> model_;
  std::unique_ptr<Tensors> inputs_, outputs_;
};

// The times of one workload in the rounds of a race.
struct Times {
  std::vector<double> best, other;

  bool other_wins() const {
    size_t won = 0;
    for (size_t i = 0; i < best.size(); ++i) won += other[i] < best[i] ? 1 : 0;
    return best.size() >= kLeastRounds && 4 * won >= 3 * best.size() &&
           median_of(other) < kFaster * median_of(best);
  }
};

class Race {
 public:
  Race(const database::Store& store, const database::ServingContent& content,
       const std::string& file, const CommonOptions& options, const std::atomic<bool>& interrupted)
      : store_(store), content_(content), file_(file), options_(options), lookup_(options),
        interrupted_(interrupted), threads_(lookup_.threads) {}

  PlacedKernels run(const std::vector<Workload>& workloads, double seconds);

 private:
  std::unique_ptr<TrialFile> file_of(Choice chosen, const char* suffix) const;
  std::map<std::string, Times> times_of(const Choice& best, const Choice& other, double seconds);

  const database::Store& store_;
  const database::ServingContent& content_;
  const std::string& file_;
  const CommonOptions& options_;
  const Lookup lookup_;
  const std::atomic<bool>& interrupted_;
  Threads threads_;
};

std::unique_ptr<TrialFile> Race::file_of(Choice chosen, const char* suffix) const {
  database::ServingContent content = content_;
  content.chosen = std::move(chosen);
  return std::make_unique<TrialFile>(store_, content, file_ + suffix, options_);
}

// By spec.
std::map<std::string, Times> Race::times_of(const Choice& best, const Choice& other,
                                            double seconds) {
  const auto first = file_of(best, ".best"), second = file_of(other, ".other");
  std::map<std::string, Times> times;
  const double end = steady_seconds() + seconds;
  for (size_t round = 0; round < kRounds && steady_seconds() < end; ++round) {
    if (interrupted_) return {};
    for (const auto& [spec, t] : first->times(threads_.executor)) times[spec].best.push_back(t);
    for (const auto& [spec, t] : second->times(threads_.executor)) times[spec].other.push_back(t);
  }
  return times;
}

PlacedKernels Race::run(const std::vector<Workload>& workloads, double seconds) {
  PlacedKernels placed;
  std::map<std::string, std::vector<std::string>> rivals;  // by workload
  size_t most = 1;
  for (const Workload& w : workloads) {
    std::vector<std::string> ids = rivals_of(store_, lookup_, w);
    if (ids.size() < 2) continue;
    placed.records[w.hash()] = ids[0];
    most = std::max(most, ids.size());
    rivals[w.hash()] = std::move(ids);
  }
  placed.compared = rivals.size();
  for (size_t k = 1; k < most; ++k) {
    Choice others = placed.records;
    for (const auto& [workload, ids] : rivals) {
      if (k < ids.size()) others[workload] = ids[k];
    }
    for (const auto& [spec, times] :
         times_of(placed.records, others, seconds / static_cast<double>(most - 1))) {
      if (spec.empty() || !times.other_wins()) continue;  // no spec: writes
      const std::string workload = parse_workload(spec).hash();
      if (rivals.contains(workload)) placed.records[workload] = others.at(workload);
    }
  }
  for (const auto& [workload, ids] : rivals) {
    placed.changed += placed.records[workload] != ids[0] ? 1 : 0;
  }
  return placed;
}

}  // namespace

PlacedKernels choose_in_place(const database::Store& store, const std::vector<Workload>& workloads,
                              const database::ServingContent& content, const std::string& file,
                              const CommonOptions& options, double seconds,
                              const std::atomic<bool>& interrupted) {
  return Race(store, content, file, options, interrupted).run(workloads, seconds);
}

}  // namespace tilewright::cli
