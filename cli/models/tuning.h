// Kernels for the workloads of a model, as far as its database lacks them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/lookup.h"
#include "database/store.h"
#include "graph/graph.h"
#include "tuner/search/tuner.h"

namespace tilewright::cli {

// Each workload once, with its number of uses.
struct Uses {
  std::vector<Workload> workloads;
  std::vector<double> counts;
  std::map<std::string, SpreadOperands> constants;  // by the workload's hash
};
Uses uses_of(const graph::Graph& graph);

struct TuningArguments {
  CommonOptions common;
  std::string model;     // the file that it is for
  int trials = 16;       // a workload
  double seconds = 0;    // 0: there is no limit
  bool offline = false;  // a model ranks the candidates of a GPU, and nothing is measured
};

// Gives each workload that the database lacks its best first answer, so that the model runs, or its untuned default
// where that fails; then as many candidates as the options say where they save the model the most.
class Tuning {
 public:
  // All of them must outlive it.
  Tuning(const TuningArguments& a, const Uses& uses, database::Store& store);

  // Returns whether it was interrupted.
  bool run();
  // First answers alone, in about so many seconds at most; 0: no limit. Returns whether it was interrupted.
  bool answer(double seconds);
  // The workloads without any kernel: no candidate was right, and neither was the default.
  std::vector<size_t> lacking() const;
  // Seconds of all nodes, one after another, each by the best kernel of its workload. None is lacking.
  double seconds() const;

 private:
  database::BestResult best(const Workload& w) const;
  std::vector<size_t> untuned() const;
  bool is_tuned(const Workload& w) const;
  bool is_of_a_search(const database::Record& predicted) const;
  void sort_by_time(std::vector<size_t>& which) const;
  enum class Goal : uint8_t { FirstAnswers, Search };
  void tune_at(std::vector<size_t> which, TuneOptions o, Goal goal);

  const TuningArguments& a_;
  const Uses& uses_;
  database::Store& store_;
  Lookup lookup_;
  const std::atomic<bool>& interrupted_;
};

}  // namespace tilewright::cli
