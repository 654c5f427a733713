#include "tuner/finalists.h"

#include <algorithm>
#include <set>

#include "codegen/kernel_source.h"

namespace tilewright {

Finalist finalist_of(const database::Record& record, const database::Artifact& artifact,
                     const Target& target) {
  Measurement m;
  m.verdict = TrialVerdict::Valid;
  m.median = record.median_seconds;
  if (target.is_cuda()) {
    m.cuda = artifact.description;
  } else {
    m.source.description = KernelDescription::from_json(artifact.description);
  }
  m.object.assign(reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size());
  return {record, std::move(m)};
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
  std::set<std::string> taken;  // artifacts
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
