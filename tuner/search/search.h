// Search policies: which candidates to measure next.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/candidate.h"
#include "tuner/features/cost_model.h"
#include "tuner/search/outcome.h"
#include "tuner/search/proposals.h"

namespace tilewright {

enum class SearchKind : uint8_t {
  Steady,
  Evolutionary,
  Random,
  Annealing,
  Descent,
  Bayesian,
  Bandit
};

inline constexpr SearchKind kSearchKinds[] = {
    SearchKind::Steady,    SearchKind::Evolutionary, SearchKind::Bayesian, SearchKind::Bandit,
    SearchKind::Annealing, SearchKind::Descent,      SearchKind::Random};

std::string_view name_of(SearchKind kind);
std::optional<SearchKind> parse_search_kind(std::string_view name);
// All of them in words: "steady, evolutionary, ... or random".
std::string search_kind_names();

// Candidates of the first batch of a search with so many trials, where `usual` are usual. A steady search takes a
// third of its trials, since it stays near the simplest of them that are fast.
int first_count(SearchKind kind, int usual, int64_t trials);

struct SearchOptions {
  SearchKind kind = SearchKind::Evolutionary;
  uint64_t seed = 0;
  double epsilon = 0.1;     // share of each batch drawn at random
  double neighbours = 0.3;  // share of each batch beside the fastest so far
  int population = 128;     // candidates alive per generation; 0: first answers alone
  int generations = 3;      // of mutation and crossover per batch
  // Candidates that are lowered for each of a batch, at most; 0: no limit. Workloads that share a short time
  // limit get a few candidates each, and to lower hundreds takes longer than to measure one.
  int lowered_each = 0;
};

// Proposes batches and receives their outcomes. Proposals depend only on the options, the outcomes, the prior
// and the share of the search that is spent. One object per workload; not thread-safe.
class SearchPolicy {
 public:
  // Sets the scores of candidates.
  using Scorer = std::function<void(std::vector<Candidate>&)>;

  SearchPolicy(CandidateMaker& maker, SearchOptions options);

  // Ranks by a scorer that needs no training, instead of the models.
  void rank_by(Scorer scorer) { own_scorer_ = std::move(scorer); }
  // The same, until enough is measured to train a model.
  void start_by(Scorer scorer) {
    own_scorer_ = std::move(scorer);
    until_measured_ = true;
  }

  // Another program proposes; the search itself where that has nothing to propose.
  void ask(Proposer proposer) { proposals_.emplace(maker_, std::move(proposer), options_.seed); }

  // Up to `count` candidates that were never proposed before (more, where so many are to begin with);
  // fewer when the space is exhausted, and when all was cancelled meanwhile.
  // The first batch holds the sketches' first answers (if not the only candidate), the best candidate
  // stands first. `prior`, a model of other workloads, and the analytical model rank as long as nothing
  // was measured and are corrected by what was (the prior may be untrained).
  // `spent` is the share of the search's trials or time that is gone, in [0, 1].
  std::vector<Candidate> propose(int count, const CostModel& prior, double spent = 0);
  void tell(const Outcome& outcome);
  // Configs of an earlier run or of a similar workload; tried first.
  void seed_with(const std::vector<std::string>& configs) { seeds_ = configs; }
  // Configs that are proposed before all others, as they are. They fit their sketches.
  void begin_with(std::vector<Draft> drafts) { first_ = std::move(drafts); }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  // Null: nobody was asked.
  const ProposalCounts* proposals() const { return proposals_ ? &proposals_->counts() : nullptr; }
  // Samples for the judge of other workloads.
  std::vector<Sample> samples() const;

 private:
  // A config from which others are made.
  struct Parent {
    const Sketch* sketch;
    std::string config;
  };

  std::vector<Candidate> propose_more(int count, const CostModel& prior, double spent);
  std::vector<Candidate> asked_batch(int count);
  Draft draw();
  std::vector<Candidate> make_legal(std::vector<Draft> drafts);
  std::vector<Candidate> first_answers(int count);
  std::vector<Candidate> first_batch(int count, const CostModel& prior);
  std::vector<Candidate> random_batch(int count);
  std::vector<Candidate> neighbours_of_best(int count, const Scorer& score);
  std::vector<Candidate> evolved_batch(int count, const Scorer& score);
  std::vector<Candidate> descent_batch(int count, const Scorer& score);
  bool is_steady() const { return options_.kind == SearchKind::Steady; }
  // changed_choices() of its config.
  size_t changes(const Outcome& outcome);
  std::vector<Candidate> bandit_batch(int count, const Scorer& score);
  // The population after generations of mutation and crossover with the parents, best first. All
  // candidates have different programs that were not proposed before.
  std::vector<Candidate> evolve(std::vector<Candidate> population,
                                const std::vector<Parent>& parents, const Scorer& score,
                                int alive_at_once);
  // So many candidates, or fewer where the options limit what is lowered for a batch.
  int at_most(int candidates, int batch) const;
  std::vector<Candidate> annealed_batch(int count, const Scorer& score);
  bool take(std::vector<Candidate>& batch, Candidate c);
  void take_up_to(size_t most, std::vector<Candidate>& batch, std::vector<Candidate>& from);
  void fill_at_random(size_t count, std::vector<Candidate>& batch);
  // The fastest first; in a steady search those within the noise of the fastest by how simple they are.
  std::vector<const Outcome*> best_outcomes(size_t count);
  Scorer scorer(const CostModel& prior) const;
  double best_seconds() const;

  CandidateMaker& maker_;
  SearchOptions options_;
  Rng rng_;
  Scorer own_scorer_;
  bool until_measured_ = false;
  std::vector<std::string> seeds_;
  std::vector<Draft> first_;
  std::optional<Proposals> proposals_;
  std::vector<Outcome> outcomes_;
  std::set<std::string> proposed_;         // fingerprints
  std::vector<std::string> fruitless_;     // configs of the bandit that gave no new candidate
  std::map<std::string, size_t> changes_;  // changed_choices() by fingerprint
  bool started_ = false;
};

}  // namespace tilewright
