// Candidates: sketches with all choices made, scheduled and featurized, but not yet compiled.
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
#include "tuner/backend.h"
#include "tuner/sketch.h"

namespace tilewright {

// A trial's choices as numbers, by knob. A number x becomes log2(1 + x), as does each factor of a
// split ("i.0", "i.1", …). A word becomes its index among the knob's options.
using AnswerValues = std::map<std::string, float>;
AnswerValues values_of(const Trial& trial);

struct Candidate {
  const Sketch* sketch = nullptr;
  std::string config;           // the trial's choices, JSON
  AnswerValues answers;         // the same choices for the model
  Module module;                // the scheduled program
  std::vector<float> features;  // Backend::estimate
  int feature_version = 0;
  // By the analytical model at the largest sizes. 0: the candidate does not run.
  double predicted_seconds = 0;
  std::string fingerprint;  // equal for candidates with the same program text
  float score = 0;          // the search's prediction; higher is better
  bool is_default = false;
  bool is_first = false;  // a sketch's first answer, as the search marks it
};

// A sketch and the choices to apply to it.
struct Draft {
  const Sketch* sketch;
  Trial trial;
};

// Counts the proposals that were refused before they became candidates, by reason.
struct IllegalCounts {
  int64_t total = 0;
  std::map<std::string, int64_t> by_reason;  // "split: bad argument", …
};

// Makes candidates of one workload. The workload, the target and `cancelled` must outlive it. Not
// thread-safe, except `cancelled`, which another thread or a signal handler may set.
class CandidateMaker {
 public:
  CandidateMaker(const Workload& workload, const Target& target, int threads,
                 const std::atomic<bool>* cancelled = nullptr)
      : input_{workload, target, threads}, cancelled_(cancelled) {}

  // Runs the sketch. Returns nothing when a rewrite refuses; the refusal is counted, and `reason`, where it is given,
  // has its message.
  std::optional<Candidate> make(const Sketch& sketch, Trial trial, std::string* reason = nullptr);
  // Makes a candidate of each draft, in order, on as many threads as there are cores. After a
  // cancellation, drafts not yet begun give nothing and are not counted.
  std::vector<std::optional<Candidate>> make_all(std::vector<Draft> drafts);
  // The untuned default.
  Candidate make_default();
  // The sketches that a search explores for the target.
  const std::vector<Sketch>& sketches() const { return backend().sketches(); }
  const Backend& backend() const { return Backend::of(input_.target); }
  const IllegalCounts& illegal() const { return illegal_; }
  const SketchInput& input() const { return input_; }
  bool cancelled() const { return cancelled_ && *cancelled_; }

 private:
  // A candidate, or the refusal of a rewrite. Both are empty if the draft was not tried.
  struct Made {
    std::optional<Candidate> candidate;
    std::string refusal;  // as it is counted
    std::string message;
  };

  Made try_to_make(Draft draft);
  std::optional<Candidate> count(Made made);
  Candidate finish(const Sketch& sketch, const Trial& trial, Schedule schedule);
  void look_at(Candidate& c);
  Estimate estimate(const Candidate& c);

  SketchInput input_;
  const std::atomic<bool>* cancelled_;                   // null: never cancelled
  std::mutex mutex_;                                     // guards estimates_
  std::unordered_map<std::string, Estimate> estimates_;  // by fingerprint
  IllegalCounts illegal_;
};

}  // namespace tilewright
