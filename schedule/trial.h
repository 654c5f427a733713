// Trials: the named choices of a sketch, found by running it (define-by-run; Akiba et al.,
// "Optuna", KDD 2019).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tilewright {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): gives the same numbers on every machine.
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

// A choice (the value of one knob): a number, a word, or the factors of a split.
using Answer = std::variant<int64_t, std::string, std::vector<int64_t>>;
using Answers = std::map<std::string, Answer>;

// One knob of a sketch, with all its options and the choice made.
struct Decision {
  std::string name;
  std::vector<Answer> options;
  size_t chosen;
};

struct SplitOptions {
  int64_t innermost_max = 1 << 30;
  int64_t innermost_multiple_of = 1;
  // Extents without good factors are rounded up by at most this share of themselves.
  double most_padding = 0.25;
};

// Makes the choices of a sketch: at random, from a config, or from a config with changes. It
// records each knob and choice. The choices as JSON are the candidate's config: {"vector": 2, "i":
// [8, 4, 16], "pack_a": "none"}.
class Trial {
 public:
  // Draws every choice from the seed.
  static Trial random(uint64_t seed);
  // Makes the first option every choice: a sketch lists a sound default first.
  static Trial first();
  // Takes every choice from the config. Throws ScheduleError (BadArgument) for a text that is no
  // config. A choice that is missing or not an option gives the same error, with the knob and its
  // options.
  static Trial replay(const std::string& config);
  // Takes the choices of the config, which may be a few, and the first option of each other knob. A
  // name such as ".tile" is that of all knobs that end so, "C.tile" and "C_acc.tile". With '?' at
  // its end a name may be that of no knob, ".parts?"; require_all_asked() refuses any other such
  // name. Throws as replay() does for a choice that is not an option.
  static Trial with(const std::string& config);
  // Takes the choices of `base`. Each one is drawn anew with probability `rate`, and also where it
  // is missing or not an option (knobs depend on earlier choices). A number moves to a neighbouring
  // option half of the time.
  static Trial mutate(const std::string& base, double rate, uint64_t seed);
  // Takes each choice from one of two configs at random; draws it where that config has none.
  static Trial crossover(const std::string& a, const std::string& b, uint64_t seed);

  // Names must differ within a trial; options must not be empty.
  int64_t choose(const std::string& name, const std::vector<int64_t>& options);
  std::string choose(const std::string& name, const std::vector<std::string>& options);
  // Chooses one of several options by name; `name_of` gives an option's name.
  template <class T, class NameOf>
  T choose_among(const std::string& name, const std::vector<T>& options, NameOf name_of) {
    std::vector<std::string> names;
    for (const T& option : options) names.push_back(name_of(option));
    choose(name, names);
    return options[decisions_.back().chosen];
  }
  template <class T>
  T choose_among(const std::string& name, const std::vector<T>& options) {
    return choose_among(name, options, [](const T& option) { return option.name(); });
  }
  // The same with "none" as a further option, the last one unless `none_first`.
  template <class T, class NameOf>
  std::optional<T> choose_or_none(const std::string& name, const std::vector<T>& options,
                                  NameOf name_of, bool none_first = false) {
    std::vector<std::string> names;
    for (const T& option : options) names.push_back(name_of(option));
    names.insert(none_first ? names.begin() : names.end(), "none");
    if (choose(name, names) == "none") return std::nullopt;
    return options[decisions_.back().chosen - (none_first ? 1 : 0)];
  }
  // Factors, outermost first, whose product is the extent or, where needed, slightly more.
  std::vector<int64_t> split(const std::string& name, int64_t extent, int parts,
                             const SplitOptions& options = {});

  const std::vector<Decision>& decisions() const { return decisions_; }
  std::string config() const;
  // Must be called after the sketch has run. A given config may hold a choice for a knob that
  // the sketch does not have: then it was made for another sketch. Throws ScheduleError
  // (BadArgument) with the sketch's knobs.
  void require_all_asked() const;

 private:
  enum class Mode { Random, First, Replay, With, Mutate };
  Trial(Mode mode, uint64_t seed) : mode_(mode), rng_(seed) {}
  const Answer& ask(const std::string& name, std::vector<Answer> options);
  Answers::const_iterator given(const Answers& from, const std::string& name) const;
  size_t pick(const std::string& name, const std::vector<Answer>& options);
  size_t pick_near(const std::vector<Answer>& options, size_t from);

  Mode mode_;
  Rng rng_;
  Answers base_, other_;
  double rate_ = 0;
  std::vector<Decision> decisions_;
};

// Choices that are not the first option of their knob: how far a config is from the sketch's first answer.
size_t changed_choices(const Trial& trial);
// Configs that differ from the trial's in one choice, and so are its neighbours: the first option, any other
// word, the two numbers next to its own on either side, a split that moves a factor from one loop to another.
// Other choices may not fit any more (Trial::mutate() draws these anew).
std::vector<std::string> single_changes(const Trial& trial);

// All products of `parts` factors within the options that equal `extent`, rounded up to the
// innermost multiple. When there are fewer than four, those of the next larger extents within the
// padding are added.
std::vector<std::vector<int64_t>> factorizations(int64_t extent, int parts,
                                                 const SplitOptions& options);

}  // namespace tilewright
