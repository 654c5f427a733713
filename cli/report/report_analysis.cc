#include "cli/report/report_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "runtime/machine/timer.h"
#include "tuner/search/ranker.h"

namespace tilewright::cli {
namespace {

constexpr size_t kFewestForKnobs = 24;  // valid trials
constexpr size_t kFolds = 5, kShuffles = 4;
constexpr double kLeastExplained = 0.1;
constexpr size_t kFirstBlock = 16, kLeastBlock = 8, kBlocks = 10;
constexpr size_t kFewestPredicted = 8;
constexpr size_t kMostTrials = 2048;  // a longer run is sampled evenly

using Rows = std::vector<std::vector<float>>;

float log2p(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, x))); }

// The knob of a column: "i" of "i.0", where the end is a number.
std::string knob_of(const std::string& column) {
  const size_t dot = column.rfind('.');
  if (dot == std::string::npos || dot + 1 == column.size()) return column;
  const bool number = std::all_of(column.begin() + static_cast<long>(dot) + 1, column.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? column.substr(0, dot) : column;
}

// The names of all knobs' columns, in order.
std::vector<std::string> columns_of(const std::vector<ModelledTrial>& trials) {
  std::set<std::string> names;
  for (const ModelledTrial& t : trials) {
    for (const auto& [name, value] : t.knobs) names.insert(name);
  }
  return {names.begin(), names.end()};
}

std::vector<float> row_of(const ModelledTrial& t, const std::vector<std::string>& columns) {
  std::vector<float> row;
  for (const std::string& c : columns) {
    auto it = t.knobs.find(c);
    row.push_back(it == t.knobs.end() ? std::numeric_limits<float>::quiet_NaN() : it->second);
  }
  return row;
}

// At most `most` of them, evenly over the run.
std::vector<ModelledTrial> sampled(std::vector<ModelledTrial> trials, size_t most) {
  if (trials.size() <= most) return trials;
  std::vector<ModelledTrial> some;
  for (size_t i = 0; i < most; ++i) some.push_back(std::move(trials[i * trials.size() / most]));
  return some;
}

double least_seconds(const std::vector<ModelledTrial>& trials) {
  double least = std::numeric_limits<double>::infinity();
  for (const ModelledTrial& t : trials) {
    if (t.seconds > 0) least = std::min(least, t.seconds);
  }
  return least;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// One knob with the columns that hold it.
struct Group {
  std::string knob;
  std::vector<size_t> columns;
};

// The knobs with more than one value.
std::vector<Group> varied_knobs(const std::vector<std::string>& columns, const Rows& rows) {
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t c = 0; c < columns.size(); ++c) groups[knob_of(columns[c])].push_back(c);
  std::vector<Group> varied;
  for (auto& [knob, members] : groups) {
    const bool varies = std::any_of(members.begin(), members.end(), [&](size_t c) {
      return std::any_of(rows.begin(), rows.end(), [&](const std::vector<float>& row) {
        const bool both_missing = std::isnan(row[c]) && std::isnan(rows[0][c]);
        return !both_missing && row[c] != rows[0][c];
      });
    });
    if (varies) varied.push_back({knob, std::move(members)});
  }
  return varied;
}

// Sums of squared errors on held-out trials: as they are, and with each knob shuffled.
class HeldOut {
 public:
  HeldOut(const std::vector<Group>& knobs, Rows rows, std::vector<float> scores)
      : knobs_(knobs), rows_(std::move(rows)), scores_(std::move(scores)),
        shuffled_(knobs.size(), 0) {}

  void add_fold(size_t fold);
  double error() const { return error_; }
  double shuffled_error(size_t knob) const { return shuffled_[knob]; }

 private:
  double squares(const std::vector<size_t>& held, const std::vector<float>& predicted,
                 size_t from) const {
    double sum = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      const double off = predicted[from + i] - scores_[held[i]];
      sum += off * off;
    }
    return sum;
  }

  const std::vector<Group>& knobs_;
  Rows rows_;
  std::vector<float> scores_;
  double error_ = 0;
  std::vector<double> shuffled_;
};

void HeldOut::add_fold(size_t fold) {
  std::vector<Sample> seen;
  std::vector<size_t> held;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i % kFolds == fold) {
      held.push_back(i);
    } else {
      seen.push_back(sample_of_speed(rows_[i], scores_[i]));
    }
  }
  CostModel model;
  model.train(seen);
  Rows asked;
  for (size_t i : held) asked.push_back(rows_[i]);
  std::mt19937 random(static_cast<unsigned>(fold));
  for (const Group& knob : knobs_) {
    for (size_t s = 0; s < kShuffles; ++s) {
      std::vector<size_t> donors = held;
      std::shuffle(donors.begin(), donors.end(), random);
      for (size_t i = 0; i < held.size(); ++i) {
        std::vector<float> row = rows_[held[i]];
        for (size_t c : knob.columns) row[c] = rows_[donors[i]][c];
        asked.push_back(std::move(row));
      }
    }
  }
  const std::vector<float> predicted = model.predict(asked);
  error_ += squares(held, predicted, 0);
  for (size_t k = 0; k < knobs_.size(); ++k) {
    for (size_t s = 0; s < kShuffles; ++s) {
      const size_t from = held.size() * (1 + k * kShuffles + s);
      shuffled_[k] += squares(held, predicted, from) / kShuffles;
    }
  }
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t j = i; j < end; ++j) {
      ranks[order[j]] = static_cast<double>(i + end - 1) / 2;  // equal values share their mean rank
    }
    i = end;
  }
  return ranks;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double mx = mean_of(x), my = mean_of(y);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

// Trials [0, known) as samples, scored by their best, and scores of the trials behind them.
class Replay {
 public:
  Replay(const std::vector<ModelledTrial>& trials, const CostModel& prior)
      : trials_(trials), prior_(prior), columns_(columns_of(trials)) {
    for (const ModelledTrial& t : trials) {
      std::vector<float> row = t.features;
      const std::vector<float> knobs = row_of(t, columns_);
      row.insert(row.end(), knobs.begin(), knobs.end());
      rows_.push_back(std::move(row));
      prospects_.push_back({t.features, predicted_seconds(t.features)});
    }
  }

  // Adds predictions of the trials in [known, end).
  void predict(size_t known, size_t end, std::vector<PredictedTrial>& out) const;

 private:
  std::vector<Prospect> prospects(size_t begin, size_t end) const {
    return {prospects_.begin() + static_cast<long>(begin),
            prospects_.begin() + static_cast<long>(end)};
  }

  const std::vector<ModelledTrial>& trials_;
  const CostModel& prior_;
  std::vector<std::string> columns_;
  Rows rows_;
  std::vector<Prospect> prospects_;
};

void Replay::predict(size_t known, size_t end, std::vector<PredictedTrial>& out) const {
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < known; ++i) {
    if (trials_[i].seconds > 0) best = std::min(best, trials_[i].seconds);
  }
  if (std::isinf(best)) return;
  std::vector<Sample> samples;
  for (size_t i = 0; i < known; ++i) {
    const double s = trials_[i].seconds;
    samples.push_back(sample_of_speed(rows_[i], s > 0 ? static_cast<float>(best / s) : 0));
  }
  // Records of another version have no features.
  const PriorScores judge = prospects_[0].features.empty()
                                ? PriorScores([](const auto&) { return std::vector<float>(); })
                                : judged_scores(prior_, prospects(0, known));
  CostModel model;
  model.train(samples, judge(prospects(0, known)));
  const Rows asked(rows_.begin() + static_cast<long>(known),
                   rows_.begin() + static_cast<long>(end));
  const std::vector<float> scores = model.predict(asked, judge(prospects(known, end)));
  for (size_t i = known; i < end; ++i) {
    if (trials_[i].seconds <= 0) continue;
    out.push_back({trials_[i].number, scores[i - known], best / trials_[i].seconds});
  }
}

}  // namespace

MedianInterval interval_of(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  Timing timing;
  timing.samples = samples;
  summarize(&timing);
  return {timing.median, timing.ci_low, timing.ci_high, samples.size()};
}

std::map<std::string, float> knobs_of(const std::string& config, KnobWords& words) {
  const auto json = nlohmann::json::parse(config, nullptr, false);
  std::map<std::string, float> knobs;
  if (!json.is_object()) return knobs;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) {
      knobs[name] = log2p(value.get<double>());
    } else if (value.is_boolean()) {
      knobs[name] = value.get<bool>() ? 1 : 0;
    } else if (value.is_string()) {
      std::vector<std::string>& known = words[name];
      const auto word = value.get<std::string>();
      auto it = std::find(known.begin(), known.end(), word);
      knobs[name] = static_cast<float>(it - known.begin());
      if (it == known.end()) known.push_back(word);
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        if (value[i].is_number())
          knobs[fmt::format("{}.{}", name, i)] = log2p(value[i].get<double>());
      }
    }
  }
  return knobs;
}

KnobImportance knob_importance(const std::vector<ModelledTrial>& all) {
  KnobImportance out;
  std::vector<ModelledTrial> trials;
  for (const ModelledTrial& t : all) {
    if (t.seconds > 0) trials.push_back(t);
  }
  if (trials.size() < kFewestForKnobs) {
    out.missing =
        fmt::format("{} valid trials are too few; this takes {}", trials.size(), kFewestForKnobs);
    return out;
  }
  trials = sampled(std::move(trials), kMostTrials);
  const std::vector<std::string> columns = columns_of(trials);
  const double least = least_seconds(trials);
  Rows rows;
  std::vector<float> scores;
  std::vector<double> speeds;
  for (const ModelledTrial& t : trials) {
    rows.push_back(row_of(t, columns));
    speeds.push_back(least / t.seconds);
    scores.push_back(static_cast<float>(speeds.back()));
  }
  const std::vector<Group> knobs = varied_knobs(columns, rows);
  double variance = 0;
  for (double s : speeds) variance += (s - mean_of(speeds)) * (s - mean_of(speeds));
  if (knobs.empty() || variance == 0) {
    out.missing = "all trials are alike";
    return out;
  }
  HeldOut held(knobs, std::move(rows), std::move(scores));
  for (size_t fold = 0; fold < kFolds; ++fold) held.add_fold(fold);
  out.explained = 1 - held.error() / variance;
  if (out.explained < kLeastExplained) {
    out.missing = "the trials do not tell: their knobs explain less than a tenth of the speed";
    return out;
  }
  for (size_t k = 0; k < knobs.size(); ++k) {
    // Two independent values differ by twice their variance.
    const double share = (held.shuffled_error(k) - held.error()) / (2 * variance);
    out.knobs.push_back({knobs[k].knob, std::max(0.0, share)});
  }
  std::stable_sort(out.knobs.begin(), out.knobs.end(),
                   [](const KnobShare& a, const KnobShare& b) { return a.share > b.share; });
  return out;
}

Predictions replayed_predictions(const std::vector<ModelledTrial>& all, const CostModel& prior) {
  Predictions out;
  const std::vector<ModelledTrial> trials = sampled(all, kMostTrials);
  if (trials.size() > kFirstBlock) {
    const Replay replay(trials, prior);
    const size_t rest = trials.size() - kFirstBlock;
    const size_t block = std::max(kLeastBlock, (rest + kBlocks - 1) / kBlocks);
    for (size_t known = kFirstBlock; known < trials.size(); known += block) {
      replay.predict(known, std::min(trials.size(), known + block), out.trials);
    }
  }
  if (out.trials.size() < kFewestPredicted) {
    out.trials.clear();
    out.missing = fmt::format("too few trials; this takes {} after the first {}", kFewestPredicted,
                              kFirstBlock);
    return out;
  }
  std::vector<double> predicted, measured;
  for (const PredictedTrial& t : out.trials) {
    predicted.push_back(t.predicted);
    measured.push_back(t.measured);
  }
  out.rank_correlation = correlation(ranks_of(predicted), ranks_of(measured));
  return out;
}

}  // namespace tilewright::cli
