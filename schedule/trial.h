// Trials: the named decisions of a sketch, found by running it (define-by-run; Akiba et al.,
// "Optuna", KDD 2019).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tilewright {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Uniform in [0, n); n > 0.
  uint64_t below(uint64_t n);
  // Uniform in [0, 1).
  double uniform();

 private:
  uint64_t state_;
};

// An answer: a number, a word, or the factors of a split.
using Answer = std::variant<int64_t, std::string, std::vector<int64_t>>;
using Answers = std::map<std::string, Answer>;

// One question that a sketch asked, with all the answers that were possible.
struct Decision {
  std::string name;
  std::vector<Answer> options;
  size_t chosen;
};

struct SplitOptions {
  int64_t innermost_max = 1 << 30;
  int64_t innermost_multiple_of = 1;
  // Extents that have no good factors are rounded up by at most this share of themselves.
  double most_padding = 0.25;
};

// Answers a sketch's questions: at random, from a config, or from a config with changes; and keeps
// what was asked and answered. The answers as JSON are the candidate's config:
// {"vector": 2, "i": [8, 4, 16], "pack_a": "none"}.
class Trial {
 public:
  // Every answer is drawn from the seed.
  static Trial random(uint64_t seed);
  // Every answer is the first option: a sketch lists a sound default first.
  static Trial first();
  // Every answer is the config's. An answer that is missing or not an option throws ScheduleError
  // (BadArgument) with the question and the options; so does a text that is no config.
  static Trial replay(const std::string& config);
  // Answers of `base`; each one is drawn anew with probability `rate`, and also where it is missing
  // or not an option (decisions depend on earlier ones). A number is moved to a neighbouring option
  // half of the time.
  static Trial mutate(const std::string& base, double rate, uint64_t seed);
  // Each answer from one of two configs, else drawn.
  static Trial crossover(const std::string& a, const std::string& b, uint64_t seed);

  // The names must differ within a trial; the options must not be empty.
  int64_t choose(const std::string& name, const std::vector<int64_t>& options);
  std::string choose(const std::string& name, const std::vector<std::string>& options);
  // A question that the sketch did not ask at first: a replayed config without an answer means
  // `before`, which is one of the options.
  std::string choose_added(const std::string& name, const std::vector<std::string>& options,
                           const std::string& before);
  int64_t choose_added(const std::string& name, const std::vector<int64_t>& options,
                       int64_t before);
  // Factors, outermost first, whose product is the extent or, where needed, a little more.
  std::vector<int64_t> split(const std::string& name, int64_t extent, int parts,
                             const SplitOptions& options = {});

  const std::vector<Decision>& decisions() const { return decisions_; }
  std::string config() const;
  // To be called when the sketch has run. A replayed config with an answer that the sketch did not
  // ask for was made for another sketch: throws ScheduleError (BadArgument) with the questions.
  void require_all_asked() const;

 private:
  enum class Mode { Random, First, Replay, Mutate };
  Trial(Mode mode, uint64_t seed) : mode_(mode), rng_(seed) {}
  const Answer& ask(const std::string& name, std::vector<Answer> options);
  size_t pick(const std::string& name, const std::vector<Answer>& options);
  size_t pick_near(const std::vector<Answer>& options, size_t from);

  Mode mode_;
  Rng rng_;
  Answers base_, other_;
  double rate_ = 0;
  std::vector<Decision> decisions_;
};

// All ways to write `extent` as a product of `parts` factors within the options; when there are
// fewer than four, those of the next larger extents within the padding are added.
std::vector<std::vector<int64_t>> factorizations(int64_t extent, int parts,
                                                 const SplitOptions& options);

}  // namespace tilewright
