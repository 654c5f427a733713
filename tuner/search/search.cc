#include "tuner/search/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "tuner/measure/race.h"
#include "tuner/search/ranker.h"
#include "tuner/search/word_bandit.h"

namespace tilewright {
namespace {

constexpr size_t kParents = 16;  // the fastest, from which others are made
// First answers are made by rules that measurements led to. A candidate takes their place only where the
// judge promises so much more: among hundreds, some are overrated (docs/search.md). The bound of a judge
// without training, which is a GPU's, was not measured.
constexpr float kPromise = 1.1f, kPromiseUntrained = 1.2f;
constexpr double kDescent =
    2.0 / 3;                 // share of a search after which it changes one choice at a time
constexpr int kSample = 16;  // the least number of candidates for which a random sample is drawn

}  // namespace

std::string_view name_of(SearchKind kind) {
  switch (kind) {
    case SearchKind::Steady: return "steady";
    case SearchKind::Evolutionary: return "evolutionary";
    case SearchKind::Random: return "random";
    case SearchKind::Annealing: return "annealing";
    case SearchKind::Descent: return "descent";
    case SearchKind::Bayesian: return "bayesian";
    case SearchKind::Bandit: return "bandit";
  }
  return "";
}

std::string search_kind_names() {
  std::string names;
  for (SearchKind k : kSearchKinds) {
    const bool is_last = k == std::end(kSearchKinds)[-1];
    if (!names.empty()) names += is_last ? " or " : ", ";
    names += name_of(k);
  }
  return names;
}

int first_count(SearchKind kind, int usual, int64_t trials) {
  if (kind != SearchKind::Steady) return usual;
  return static_cast<int>(std::clamp<int64_t>(trials / 3, usual, 2 * int64_t{usual}));
}

std::optional<SearchKind> parse_search_kind(std::string_view name) {
  for (SearchKind k : kSearchKinds) {
    if (name_of(k) == name) return k;
  }
  return std::nullopt;
}

namespace {

// Best score first; ties keep their order.
void rank(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
}

// Each batch of a steady search follows from its workload and from what is known by then. Two searches that once
// differed may so meet again.
Rng steady_seed(const Workload& workload, size_t known) {
  return Rng(std::stoull(workload.hash().substr(0, 16), nullptr, 16) + known);
}

}  // namespace

SearchPolicy::SearchPolicy(CandidateMaker& maker, SearchOptions options)
    : maker_(maker), options_(options), rng_(options.seed) {}

Draft SearchPolicy::draw() {
  const auto& sketches = maker_.sketches();
  const Sketch& sketch = sketches[rng_.below(sketches.size())];
  return {&sketch, Trial::random(rng_.next())};
}

std::vector<Candidate> SearchPolicy::make_legal(std::vector<Draft> drafts) {
  std::vector<Candidate> legal;
  for (auto& c : maker_.make_all(std::move(drafts))) {
    if (c) legal.push_back(std::move(*c));
  }
  return legal;
}

// Adds a candidate if its program was not proposed before.
bool SearchPolicy::take(std::vector<Candidate>& batch, Candidate c) {
  if (!proposed_.insert(c.fingerprint).second) return false;
  batch.push_back(std::move(c));
  return true;
}

// Adds candidates that were not proposed before, until the batch has `most`.
void SearchPolicy::take_up_to(size_t most, std::vector<Candidate>& batch,
                              std::vector<Candidate>& from) {
  for (Candidate& c : from) {
    if (batch.size() >= most) return;
    take(batch, std::move(c));
  }
}

void SearchPolicy::fill_at_random(size_t count, std::vector<Candidate>& batch) {
  if (batch.size() >= count) return;
  std::vector<Candidate> any = random_batch(static_cast<int>(count - batch.size()));
  std::move(any.begin(), any.end(), std::back_inserter(batch));
}

std::vector<Candidate> SearchPolicy::propose(int count, const CostModel& prior, double spent) {
  std::vector<Candidate> batch;
  for (Candidate& c : make_legal(std::exchange(first_, {}))) take(batch, std::move(c));
  for (Candidate& c : propose_more(count - static_cast<int>(batch.size()), prior, spent)) {
    batch.push_back(std::move(c));
  }
  return batch;
}

std::vector<Candidate> SearchPolicy::propose_more(int count, const CostModel& prior, double spent) {
  if (count <= 0) return {};
  if (std::vector<Candidate> asked = asked_batch(count); !asked.empty()) return asked;
  bool first = !started_;
  started_ = true;
  if (is_steady()) rng_ = steady_seed(maker_.input().workload, outcomes_.size());
  if (options_.kind == SearchKind::Random) return random_batch(count);
  if (first) return first_batch(count, prior);
  const Scorer score = scorer(prior);
  if (options_.kind == SearchKind::Annealing) return annealed_batch(count, score);
  if (options_.kind == SearchKind::Bandit) return bandit_batch(count, score);
  const bool is_late = options_.kind == SearchKind::Evolutionary && spent >= kDescent;
  const bool descends = is_late || is_steady() || options_.kind == SearchKind::Descent;
  return descends ? descent_batch(count, score) : evolved_batch(count, score);
}

std::vector<Candidate> SearchPolicy::asked_batch(int count) {
  if (!proposals_) return {};
  return proposals_->ask(count, outcomes_, [this](const Candidate& c) {
    return proposed_.insert(c.fingerprint).second;
  });
}

std::vector<Candidate> SearchPolicy::random_batch(int count) {
  // Without measurements, the rest of a nearly exhausted space is not worth many tries.
  const int most = (own_scorer_ && !until_measured_ ? 4 : 50) * count;
  std::vector<Candidate> batch;
  for (int tries = 0; tries < most && static_cast<int>(batch.size()) < count;) {
    const int wanted = std::min(count - static_cast<int>(batch.size()), most - tries);
    std::vector<Draft> drafts;
    for (int i = 0; i < wanted; ++i) drafts.push_back(draw());
    for (Candidate& c : make_legal(std::move(drafts))) take(batch, std::move(c));
    tries += wanted;
  }
  return batch;
}

// First answers and earlier winners.
std::vector<Candidate> SearchPolicy::first_answers(int count) {
  std::vector<Candidate> batch;
  for (const Sketch& sketch : maker_.sketches()) {
    if (auto c = maker_.make(sketch, Trial::first())) {
      c->is_first = true;
      take(batch, std::move(*c));
    }
    for (const std::string& config : seeds_) {
      if (static_cast<int>(batch.size()) >= count / 2 || maker_.cancelled()) break;
      if (auto c = maker_.make(sketch, Trial::mutate(config, 0, rng_.next()))) {
        take(batch, std::move(*c));
      }
    }
  }
  return batch;
}

// First answers, earlier winners and the best that evolution makes of a random sample; the best of all
// stands first.
std::vector<Candidate> SearchPolicy::first_batch(int count, const CostModel& prior) {
  std::vector<Candidate> known = first_answers(count);
  if (options_.population == 0) {
    scorer(prior)(known);
    rank(known);
    if (known.size() > static_cast<size_t>(count)) {
      known.erase(known.begin() + count, known.end());
    }
    return known;
  }
  std::vector<Draft> drafts;
  const int sample = at_most(8 * std::max(count, kSample), count);
  for (int i = 0; i < sample; ++i) drafts.push_back(draw());
  std::vector<Candidate> pool = make_legal(std::move(drafts));
  const Scorer score = scorer(prior);
  score(known);
  score(pool);
  rank(pool);
  if (!pool.empty()) {
    std::vector<const Candidate*> best;
    for (const auto* from : {&known, &pool}) {
      for (const Candidate& c : *from) best.push_back(&c);
    }
    std::stable_sort(best.begin(), best.end(),
                     [](const Candidate* a, const Candidate* b) { return a->score > b->score; });
    std::vector<Parent> parents;
    for (size_t i = 0; i < std::min(best.size(), kParents); ++i) {
      parents.push_back({best[i]->sketch, best[i]->config});
    }
    pool = evolve(std::move(pool), parents, score, at_most(options_.population, count));
  }
  for (Candidate& c : known) c.score *= own_scorer_ ? kPromiseUntrained : kPromise;
  // Adds random candidates: similar candidates teach little.
  const auto chosen = static_cast<size_t>(count - count / 4);
  std::vector<Candidate> batch = std::move(known);
  take_up_to(std::max(chosen, batch.size() + 1), batch, pool);
  rank(batch);
  if (batch.size() > chosen && count == 1) batch.resize(1);
  fill_at_random(static_cast<size_t>(count), batch);
  return batch;
}

// The scorer: the prior corrected by this workload's measurements; the prior alone while these are
// few; rules of thumb without a prior.
SearchPolicy::Scorer SearchPolicy::scorer(const CostModel& prior) const {
  constexpr size_t kEnough = 8;
  if (own_scorer_ && (!until_measured_ || outcomes_.size() < kEnough)) return own_scorer_;
  CostModelOptions options;
  options.learning_rate = 0.1;
  options.seed = static_cast<int>(options_.seed & 0x7fffffff);
  options.classifies = options_.kind == SearchKind::Bayesian;
  auto ranker = std::make_shared<Ranker>(options);
  std::vector<RankedSample> measured;
  double best = best_seconds();
  for (const Outcome& o : outcomes_) {
    if (o.sketch == &maker_.backend().untuned()) continue;
    float score = o.seconds > 0 ? static_cast<float>(best / o.seconds) : 0;
    measured.push_back({o.features, o.answers, score, o.predicted});
  }
  PriorScores known = judged_scores(prior, prospects_of(measured));
  if (measured.size() >= kEnough && !is_steady()) {
    if (options.classifies) {
      mark_winners(measured);
      known = odds_of(std::move(known));
    }
    ranker->train(measured, known);
  }
  return [ranker, known](std::vector<Candidate>& candidates) {
    const std::vector<float> scores =
        ranker->trained() ? ranker->predict(candidates) : known(prospects_of(candidates));
    for (size_t i = 0; i < candidates.size(); ++i) candidates[i].score = scores[i];
  };
}

int SearchPolicy::at_most(int candidates, int batch) const {
  if (options_.lowered_each == 0) return candidates;
  return std::min(candidates, options_.lowered_each * batch);
}

size_t SearchPolicy::changes(const Outcome& outcome) {
  auto [known, is_new] = changes_.try_emplace(outcome.fingerprint);
  if (is_new) {
    Trial trial = Trial::mutate(outcome.config, 0, 0);
    apply_sketch(*outcome.sketch, maker_.input(), trial);
    known->second = changed_choices(trial);
  }
  return known->second;
}

std::vector<const Outcome*> SearchPolicy::best_outcomes(size_t count) {
  std::vector<const Outcome*> list;
  for (const Outcome& o : outcomes_) {
    bool is_default = o.sketch == &maker_.backend().untuned();
    if (o.seconds > 0 && !is_default) list.push_back(&o);
  }
  std::ranges::stable_sort(list, {}, &Outcome::seconds);
  // Within the noise of the fastest, the simplest stand first.
  const auto order = [&](const Outcome* o) {
    return std::tuple(changes(*o), std::string_view(o->config));
  };
  if (is_steady() && !list.empty()) {
    const double noise = (1 + Race::kNoise) * list[0]->seconds;
    const auto end = std::ranges::upper_bound(list, noise, {}, &Outcome::seconds);
    std::ranges::sort(list.begin(), end, {}, order);
  }
  if (list.size() > count) list.resize(count);
  return list;
}

std::vector<Candidate> SearchPolicy::evolve(std::vector<Candidate> population,
                                            const std::vector<Parent>& parents, const Scorer& score,
                                            int alive_at_once) {
  std::set<std::string> alive;
  std::erase_if(population, [&](const Candidate& c) {
    return proposed_.count(c.fingerprint) || !alive.insert(c.fingerprint).second;
  });
  const int share = alive_at_once / (options_.generations + 1);
  for (int g = 0; g < options_.generations; ++g) {
    score(population);
    rank(population);
    size_t elite = std::max<size_t>(1, population.size() / 4);
    std::vector<Draft> drafts;
    for (int i = 0; i < share; ++i) {
      bool of_parent = rng_.uniform() < 0.4 || population.empty();
      const Parent& p = parents[rng_.below(std::min(parents.size(), 1 + rng_.below(kParents)))];
      std::string config = of_parent ? p.config : population[rng_.below(elite)].config;
      uint64_t seed = rng_.next();
      bool cross = rng_.uniform() < 0.3;
      drafts.push_back({p.sketch, cross ? Trial::crossover(config, p.config, seed)
                                        : Trial::mutate(config, 0.15, seed)});
    }
    for (Candidate& c : make_legal(std::move(drafts))) {
      if (proposed_.count(c.fingerprint) || !alive.insert(c.fingerprint).second) continue;
      population.push_back(std::move(c));
    }
  }
  score(population);
  rank(population);
  return population;
}

std::vector<Candidate> SearchPolicy::evolved_batch(int count, const Scorer& score) {
  std::vector<Parent> parents;
  for (const Outcome* o : best_outcomes(kParents)) parents.push_back({o->sketch, o->config});
  if (parents.empty()) return random_batch(count);
  std::vector<Draft> drafts;
  const int alive_at_once = at_most(options_.population, count);
  for (int i = 0; i < alive_at_once / (options_.generations + 1); ++i) {
    const Parent& p = parents[rng_.below(parents.size())];
    drafts.push_back(
        rng_.uniform() < 0.5 ? Draft{p.sketch, Trial::mutate(p.config, 0.2, rng_.next())} : draw());
  }
  std::vector<Candidate> population =
      evolve(make_legal(std::move(drafts)), parents, score, alive_at_once);
  int at_random = static_cast<int>(std::lround(options_.epsilon * count));
  int near = static_cast<int>(std::lround(options_.neighbours * count));
  std::vector<Candidate> batch;
  take_up_to(static_cast<size_t>(std::max(0, count - at_random - near)), batch, population);
  std::vector<Candidate> close = neighbours_of_best(4 * near, score);
  take_up_to(static_cast<size_t>(std::max(0, count - at_random)), batch, close);
  fill_at_random(static_cast<size_t>(count), batch);
  return batch;
}

// Neighbours of the fastest measured candidates, one or two choices away, best score first. Where
// the model is wrong, measurements still lead on.
std::vector<Candidate> SearchPolicy::neighbours_of_best(int count, const Scorer& score) {
  constexpr size_t kBest = 3;
  std::vector<const Outcome*> best = best_outcomes(kBest);
  std::vector<Draft> drafts;
  for (int i = 0; i < count && !best.empty(); ++i) {
    const Outcome& o = *best[static_cast<size_t>(i) % best.size()];
    drafts.push_back({o.sketch, Trial::mutate(o.config, 0.08, rng_.next())});
  }
  std::vector<Candidate> close = make_legal(std::move(drafts));
  std::erase_if(close, [&](const Candidate& c) { return proposed_.count(c.fingerprint); });
  score(close);
  rank(close);
  return close;
}

// Candidates that differ from the fastest one in one choice, best score first (coordinate descent): once it
// is close to an optimum, there are few of them, and the models know them well. Those of the next fastest
// follow where all of these were measured.
std::vector<Candidate> SearchPolicy::descent_batch(int count, const Scorer& score) {
  constexpr size_t kStarts = 4;
  std::vector<Candidate> batch;
  for (const Outcome* start : best_outcomes(kStarts)) {
    Trial trial = Trial::mutate(start->config, 0, 0);
    apply_sketch(*start->sketch, maker_.input(), trial);
    std::vector<Draft> drafts;
    for (const std::string& config : single_changes(trial)) {
      drafts.push_back({start->sketch, Trial::mutate(config, 0, rng_.next())});
    }
    const auto most = static_cast<size_t>(at_most(static_cast<int>(drafts.size()), count));
    for (size_t i = 0; i < most && most < drafts.size(); ++i) {  // a sample
      std::swap(drafts[i], drafts[i + rng_.below(drafts.size() - i)]);
    }
    drafts.erase(drafts.begin() + static_cast<long>(most), drafts.end());
    std::vector<Candidate> close = make_legal(std::move(drafts));
    std::erase_if(close, [&](const Candidate& c) { return proposed_.count(c.fingerprint) != 0; });
    score(close);
    rank(close);
    take_up_to(static_cast<size_t>(count), batch, close);
    if (static_cast<int>(batch.size()) >= count) break;
  }
  fill_at_random(static_cast<size_t>(count), batch);
  return batch;
}

// Candidates with the words that a bandit chooses, and numbers of the fastest candidates; a few choices are
// drawn anew. The one with the best score of a few takes each place.
std::vector<Candidate> SearchPolicy::bandit_batch(int count, const Scorer& score) {
  constexpr size_t kStarts = 4;
  constexpr int kEach = 6;
  constexpr double kExpected = 0.7;  // speed beside the fastest
  const std::vector<const Outcome*> starts = best_outcomes(kStarts);
  std::vector<PlayedConfig> played;
  const double best = best_seconds();
  for (const Outcome& o : outcomes_) {
    played.push_back({o.config, o.seconds > 0 ? best / o.seconds : 0});
  }
  for (const std::string& config : fruitless_) played.push_back({config, 0});
  std::vector<Candidate> batch;
  for (size_t i = 0; i < starts.size(); ++i) {
    Trial trial = Trial::mutate(starts[i]->config, 0, 0);
    apply_sketch(*starts[i]->sketch, maker_.input(), trial);
    const auto share = static_cast<int>((static_cast<size_t>(count) + i) / starts.size());
    for (const std::string& config : bandit_configs(trial, played, share)) {
      std::vector<Draft> drafts;
      for (int k = 0; k < at_most(kEach, 1); ++k) {
        drafts.push_back({starts[i]->sketch, Trial::mutate(config, 0.05, rng_.next())});
      }
      std::vector<Candidate> near = make_legal(std::move(drafts));
      score(near);
      rank(near);
      const size_t before = batch.size();
      take_up_to(before + 1, batch, near);
      // The other starts count it as played, without a surprise.
      const bool is_fruitless = batch.size() == before;
      if (is_fruitless) fruitless_.push_back(config);
      played.push_back({config, is_fruitless ? 0 : kExpected});
    }
  }
  fill_at_random(static_cast<size_t>(count), batch);
  return batch;
}

// Independent chains from measured points. A step is kept if its score is better, or by chance
// (Metropolis et al., 1953).
std::vector<Candidate> SearchPolicy::annealed_batch(int count, const Scorer& score) {
  std::vector<const Outcome*> starts = best_outcomes(static_cast<size_t>(count));
  if (starts.empty()) return random_batch(count);
  std::vector<Draft> drafts;
  for (int i = 0; i < count; ++i) {
    const Outcome& o = *starts[i % starts.size()];
    drafts.push_back({o.sketch, Trial::mutate(o.config, 0.3, rng_.next())});
  }
  std::vector<Candidate> chains = make_legal(std::move(drafts));
  score(chains);
  int steps = std::max(2, options_.population / std::max(1, count));
  for (int step = 0; step < steps; ++step) {
    double temperature = 0.2 * (1 - static_cast<double>(step) / steps) + 1e-3;
    drafts.clear();
    for (const Candidate& c : chains) {
      drafts.push_back({c.sketch, Trial::mutate(c.config, 0.15, rng_.next())});
    }
    std::vector<std::optional<Candidate>> made = maker_.make_all(std::move(drafts));
    std::vector<Candidate> next;
    std::vector<size_t> owner;
    for (size_t i = 0; i < chains.size(); ++i) {
      if (!made[i]) continue;
      next.push_back(std::move(*made[i]));
      owner.push_back(i);
    }
    score(next);
    for (size_t k = 0; k < next.size(); ++k) {
      Candidate& current = chains[owner[k]];
      double gain = next[k].score - current.score;
      if (gain > 0 || rng_.uniform() < std::exp(gain / temperature)) current = std::move(next[k]);
    }
  }
  std::vector<Candidate> batch;
  take_up_to(static_cast<size_t>(count), batch, chains);
  fill_at_random(static_cast<size_t>(count), batch);
  return batch;
}

void SearchPolicy::tell(const Outcome& outcome) {
  proposed_.insert(outcome.fingerprint);
  outcomes_.push_back(outcome);
}

double SearchPolicy::best_seconds() const {
  double best = 0;
  for (const Outcome& o : outcomes_) {
    if (o.seconds > 0 && (best == 0 || o.seconds < best)) best = o.seconds;
  }
  return best;
}

std::vector<Sample> SearchPolicy::samples() const {
  MeasuredRows rows;
  for (const Outcome& o : outcomes_) rows.emplace_back(o.features, o.seconds);
  return samples_of_errors(rows);
}

}  // namespace tilewright
