// Candidates: answered sketches, scheduled and looked at, but not yet compiled.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/stmt.h"
#include "schedule/error.h"
#include "tuner/gpu_features.h"
#include "tuner/sketch.h"

namespace tilewright {

// The answers of a trial as numbers, by question: log2(1 + x) of a number and of each factor of a
// split ("i.0", "i.1", …), the place among its options of a word.
using AnswerValues = std::map<std::string, float>;
AnswerValues values_of(const Trial& trial);

struct Candidate {
  const Sketch* sketch = nullptr;
  std::string config;           // the trial's answers, JSON
  AnswerValues answers;         // the same for the model
  Module module;                // the scheduled program
  std::vector<float> features;  // of extract_features; for a GPU those of gpu_features
  int feature_version = 0;
  // On a GPU, as the analytical model predicts at the largest sizes; 0: it does not run there.
  double predicted_seconds = 0;
  std::string fingerprint;  // equal for candidates whose programs are the same text
  float score = 0;          // what the search expects of it; higher is better
  bool is_default = false;
};

// A sketch, and the answers that it is to get.
struct Draft {
  const Sketch* sketch;
  Trial trial;
};

// Why proposals were refused before they became candidates.
struct IllegalCounts {
  int64_t total = 0;
  std::map<std::string, int64_t> by_reason;  // "split: bad argument", …
};

// Makes candidates of one workload. The workload, the target and `cancelled` must outlive it. Not
// thread-safe, but for `cancelled`, which another thread or a signal's handler may set.
class CandidateMaker {
 public:
  CandidateMaker(const Workload& workload, const Target& target, int threads,
                 const std::atomic<bool>* cancelled = nullptr)
      : input_{workload, target, threads}, cancelled_(cancelled) {}

  // Runs the sketch; nothing when a rewrite refuses, which is counted.
  std::optional<Candidate> make(const Sketch& sketch, Trial trial);
  // The same for each of them, in their order, on as many threads as there are cores. Nothing, which is
  // not counted, where making it had not begun when all was cancelled.
  std::vector<std::optional<Candidate>> make_all(std::vector<Draft> drafts);
  // The untuned default.
  Candidate make_default();
  // Those that a search explores for the target.
  const std::vector<Sketch>& sketches() const;
  const IllegalCounts& illegal() const { return illegal_; }
  const SketchInput& input() const { return input_; }
  bool cancelled() const { return cancelled_ && *cancelled_; }

 private:
  // A candidate, or why a rewrite refused; neither where it was not tried.
  struct Made {
    std::optional<Candidate> candidate;
    std::string refusal;
  };

  Made try_to_make(Draft draft);
  std::optional<Candidate> count(Made made);
  Candidate finish(const Sketch& sketch, const Trial& trial, Schedule schedule);
  void look_at(Candidate& c);
  GpuFeatures features_on_gpu(const Candidate& c);

  SketchInput input_;
  const std::atomic<bool>* cancelled_;                   // null: never
  std::mutex mutex_;                                     // of the next one
  std::unordered_map<std::string, GpuFeatures> on_gpu_;  // by fingerprint
  IllegalCounts illegal_;
};

}  // namespace tilewright
