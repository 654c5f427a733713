#include "tuner/search/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>

#include "tuner/backend.h"

namespace tilewright {

Finalist finalist_of(const database::Record& record, const database::Artifact& artifact,
                     const Target& target) {
  Measurement m;
  m.verdict = TrialVerdict::Valid;
  m.samples = record.samples;
  m.median = record.median_seconds;
  Backend::of(target).describe(artifact.description, m);
  m.object.assign(reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size());
  return {record, std::move(m)};
}

std::optional<Finalist> stored_best(const database::Store& store, const database::BestQuery& query,
                                    const Target& target) {
  database::BestResult best = store.best(query);
  if (!best.record || !best.artifact) return std::nullopt;
  return finalist_of(*best.record, *best.artifact, target);
}

namespace {

constexpr double kNearly = 1.02;  // times the fastest finalist's time: may tie with it in a race

bool is_nearly_as_fast(const Finalist& f, const Finalist& fastest) {
  return least_sample(f.kernel) <= kNearly * least_sample(fastest.kernel);
}

// Ties go to the smaller machine code, then to the config whose text comes first.
auto tie_order(const Finalist& f) {
  return std::tuple(f.kernel.object.size(), std::string_view(f.record.config));
}

// Half of the finalists are the fastest, the others those nearly as fast ones that would win a tie.
std::vector<Finalist> picked_finalists(const std::vector<Finalist>& finalists, size_t most) {
  if (finalists.size() <= most) return finalists;
  const auto fastest = static_cast<std::ptrdiff_t>(most - most / 2);
  std::vector<Finalist> picked(finalists.begin(), finalists.begin() + fastest);
  std::vector<Finalist> others(finalists.begin() + fastest, finalists.end());
  std::ranges::stable_sort(others, {}, [&](const Finalist& f) {
    const bool near = is_nearly_as_fast(f, finalists[0]);
    return std::tuple(!near, near ? tie_order(f) : decltype(tie_order(f)){});
  });
  others.resize(most - picked.size(), finalists[0]);
  std::ranges::move(others, std::back_inserter(picked));
  return picked;
}

}  // namespace

void keep_finalist(std::vector<Finalist>& finalists, Finalist finalist, size_t most) {
  const auto seconds = [](const Finalist& f) { return least_sample(f.kernel); };
  const auto at = std::ranges::upper_bound(finalists, seconds(finalist), {}, seconds);
  finalists.insert(at, std::move(finalist));
  constexpr size_t kMostNear = 4;  // times `most`: each holds its object
  const auto stays = [&](size_t kept) {
    return kept <= most ||
           (kept <= kMostNear * most && is_nearly_as_fast(finalists.back(), finalists[0]));
  };
  while (!stays(finalists.size())) finalists.pop_back();
}

std::vector<Finalist> rivals_of(const std::vector<Finalist>& finalists, size_t most,
                                const std::optional<Finalist>& untuned,
                                const std::optional<Finalist>& champion) {
  constexpr double kBeyondDoubt = 2;
  std::vector<Finalist> candidates = picked_finalists(finalists, most), rivals;
  const bool has_default = std::any_of(candidates.begin(), candidates.end(),
                                       [](const Finalist& f) { return f.record.is_default; });
  if (!has_default && untuned) candidates.push_back(*untuned);
  if (champion && champion_among(candidates, champion) < 0) candidates.push_back(*champion);
  for (Finalist& f : candidates) {
    if (f.kernel.median <= kBeyondDoubt * finalists[0].kernel.median) {
      rivals.push_back(std::move(f));
    }
  }
  std::stable_sort(rivals.begin(), rivals.end(), [](const Finalist& a, const Finalist& b) {
    return a.record.trial < b.record.trial;
  });
  return rivals;
}

std::vector<Measurement> kernels_of(const std::vector<Finalist>& finalists) {
  std::vector<Measurement> kernels;
  for (const Finalist& f : finalists) kernels.push_back(f.kernel);
  return kernels;
}

int champion_among(const std::vector<Finalist>& rivals, const std::optional<Finalist>& champion) {
  for (size_t i = 0; champion && i < rivals.size(); ++i) {
    if (rivals[i].record.artifact_hash == champion->record.artifact_hash) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int winner_of(const std::vector<Finalist>& rivals, const Comparison& comparison, int champion) {
  if (champion >= 0 && comparison.tied[static_cast<size_t>(champion)]) return champion;
  int best = -1;
  for (size_t i = 0; i < rivals.size(); ++i) {
    if (!comparison.tied[i]) continue;
    if (best < 0 || tie_order(rivals[i]) < tie_order(rivals[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

std::string with_claim(std::string reason, double behind) {
  constexpr std::string_view kBegins = "at most ", kBetween = "; ";
  // The claim stands last, so a reason that does not begin with it has it behind another one.
  const size_t behind_another = reason.rfind(std::string(kBetween) + std::string(kBegins));
  if (reason.starts_with(kBegins)) {
    reason.clear();
  } else if (behind_another != std::string::npos) {
    reason.resize(behind_another);
  }
  if (behind < 0) return reason;
  return fmt::format("{}{}{}{:.1f}% slower than the fastest finalist, at {:.0f}%", reason,
                     reason.empty() ? "" : kBetween, kBegins, 100 * behind,
                     100 * Race::kConfidence);
}

std::vector<database::SizedTime> sized_times(const SizePlan& plan,
                                             const std::vector<double>& at_points) {
  std::vector<database::SizedTime> times;
  for (size_t p = 0; p + 1 < plan.tuned.size() && p < at_points.size(); ++p) {
    if (at_points[p] > 0) times.push_back({plan.at(plan.tuned[p]), at_points[p]});
  }
  return times;
}

std::vector<double> times_at(const SizePlan& plan, const database::Record& record) {
  std::vector<double> times(plan.tuned.size(), 0);
  if (record.verdict != TrialVerdict::Valid) return times;
  for (size_t p = 0; p + 1 < times.size(); ++p) {
    const database::Sizes sizes = plan.at(plan.tuned[p]);
    for (const database::SizedTime& point : record.points) {
      if (point.sizes == sizes) times[p] = point.seconds;
    }
  }
  times.back() = record.median_seconds;
  return times;
}

double PointFinalists::typical() const {
  double logarithms = 0;
  int measured = 0;
  for (size_t p = 0; p < fastest_.size(); ++p) {
    if (best(p) == 0) continue;
    logarithms += std::log(best(p));
    ++measured;
  }
  return measured == 0 ? 0 : std::exp(logarithms / measured);
}

double PointFinalists::best(size_t point) const {
  return fastest_[point].empty() ? 0 : fastest_[point][0].kernel.at_points[point];
}

bool PointFinalists::is_promising(const std::vector<double>& seconds) const {
  constexpr double kCloseBy = 1.1;
  for (size_t p = 0; p < seconds.size() && p < fastest_.size(); ++p) {
    const double fastest = best(p);
    if (seconds[p] > 0 && (fastest == 0 || seconds[p] < kCloseBy * fastest)) return true;
  }
  return false;
}

void PointFinalists::keep(const Finalist& finalist) {
  const std::vector<double>& seconds = finalist.kernel.at_points;
  for (size_t p = 0; p < seconds.size() && p < fastest_.size(); ++p) {
    if (seconds[p] <= 0) continue;
    std::vector<Finalist>& list = fastest_[p];
    const auto at = std::upper_bound(
        list.begin(), list.end(), seconds[p],
        [p](double time, const Finalist& other) { return time < other.kernel.at_points[p]; });
    if (at == list.end() && list.size() == kEach) continue;
    list.insert(at, finalist);
    if (list.size() > kEach) list.pop_back();
  }
}

std::vector<Finalist> PointFinalists::pick(const std::vector<Finalist>& first, size_t most) const {
  std::vector<Finalist> picked;
  std::set<std::string> taken;  // artifact hashes
  auto take = [&](const Finalist& f) {
    if (picked.size() < most && taken.insert(f.record.artifact_hash).second) picked.push_back(f);
  };
  for (const Finalist& f : first) take(f);
  for (size_t place = 0; place < kEach; ++place) {
    for (const std::vector<Finalist>& list : fastest_) {
      if (place < list.size()) take(list[place]);
    }
  }
  return picked;
}

std::vector<SizePoint> PointFinalists::beside_last(const SizePlan& plan) const {
  std::vector<SizePoint> points;
  for (size_t p = 0; p + 1 < plan.tuned.size(); ++p) {
    SizePoint& point = points.emplace_back();
    point.dims = plan.at(plan.tuned[p]);
    if (best(p) > 0) point.cutoff_seconds = best(p);
  }
  return points;
}

}  // namespace tilewright
