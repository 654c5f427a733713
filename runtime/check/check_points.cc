#include "runtime/check/check_points.h"

#include <algorithm>
#include <cmath>

#include "runtime/tensor/operands.h"

namespace tilewright {
namespace {

using Point = std::map<std::string, int64_t>;

// Rows of a tile whose tails may each have code of their own (codegen/passes/cpu/peel_dynamic_tails.cc).
constexpr int64_t kMostTails = 28;
constexpr int64_t kShortRange = 64;  // sizes
// About what one core does.
constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 4e9;

bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

// The first prime from `n` on, where it is not far; sizes are far below what would take long to test.
int64_t prime_from(int64_t n) {
  for (int64_t i = n; i < n + 1000; ++i) {
    if (is_prime(i)) return i;
  }
  return n;
}

// Steps that a kernel may well have of which none are known.
std::vector<SizeStep> usual_steps(const DimVar& d) {
  std::vector<SizeStep> steps;
  for (int64_t tile : {6, 7, 8, 16}) steps.push_back({tile, (d.min / tile + 1) * tile});
  return steps;
}

// The sizes of one dimension, those first that tell most.
class SizesOf {
 public:
  SizesOf(const DimVar& d, const std::vector<SizeStep>& known, bool has_tails) : d_(d) {
    for (const SizeStep& s : known.empty() ? usual_steps(d) : known) {
      const bool fits = s.first >= d.min && s.first <= d.max && s.step >= 0;
      if (fits) steps_.push_back({std::min(s.step, d.max), s.first});
    }
    add(d.min);
    if (!steps_.empty()) around(steps_.front());
    if (!steps_.empty()) around(steps_.back());
    add(d.max - 1);
    for (const SizeStep& s : steps_) around(s);
    if (has_tails) each_tail();
    for (const SizeStep& s : steps_) parts_of(s);
    const double middle = std::sqrt(static_cast<double>(d.min + 1) * static_cast<double>(d.max));
    add(prime_from(static_cast<int64_t>(middle)));
    for (const SizeStep& s : steps_) {
      add(s.first + 1);
      add(s.first - 2);
    }
    add(d.min + 1);
    last_of_inner();
    around_later();
    add((d.min + (d.max - d.min) / 3) | 1);
    if (has_tails) tails_behind_a_tile();
    if (d.max - d.min < kShortRange) {
      for (int64_t size = d.min; size <= d.max; ++size) add(size);
    }
  }
  std::vector<int64_t> list() && { return std::move(list_); }

 private:
  void add(int64_t size) {
    const bool fits = size >= d_.min && size <= d_.max;
    if (fits && std::find(list_.begin(), list_.end(), size) == list_.end()) list_.push_back(size);
  }
  void around(const SizeStep& s) {
    add(s.first - 1);
    add(s.first);
  }
  // Half and three quarters of a tile. Arrays of such sizes often end where their last vector's
  // alignment does, with a partial vector before: there a protected page follows at once, and one more
  // lane that is read is a fault. Elsewhere it falls into what alignment leaves free.
  void parts_of(const SizeStep& s) {
    const int64_t tile = s.step > 0 ? s.step : s.first;
    add(s.first - tile / 4);
    add(s.first - tile / 2);
    add(s.first + tile / 2);
  }
  // Each number of rows in a partial tile may have its own code: so many neighbouring sizes leave
  // every tail that there is. A tile that the range holds only once has no step, but a first size.
  void each_tail() {
    int64_t most = 0;
    for (const SizeStep& s : steps_) {
      const int64_t rows = s.step > 0 ? s.step : s.first;
      if (rows <= kMostTails) most = std::max(most, rows);
    }
    const bool short_range = d_.max - d_.min < kMostTails;  // all of it
    if (short_range) most = d_.max - d_.min;
    for (int64_t i = 1; i < most; ++i) add(d_.min + i);
  }
  // The code of a tail may depend on how many tiles stand before it.
  void tails_behind_a_tile() {
    for (const SizeStep& s : steps_) {
      if (s.step == 0 || s.step > kMostTails) continue;
      for (int64_t i = 1; i < s.step; ++i) add(s.first + i);
    }
  }
  // The last multiples of the innermost tile.
  void last_of_inner() {
    if (steps_.empty() || steps_[0].step == 0) return;
    const SizeStep& s = steps_[0];
    const int64_t last = s.first + (d_.max - s.first) / s.step * s.step;
    add(last);
    add(last - 1);
  }
  // Two and three tiles, a whole outer tile and an inner one behind it, a prime beyond them all.
  void around_later() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const SizeStep& s = steps_[i];
      for (int64_t more : {s.step, i > 0 ? steps_[i - 1].step : 0}) {
        if (more == 0) continue;
        add(s.first + more - 1);
        add(s.first + more);
      }
    }
    for (const SizeStep& s : steps_) {
      if (s.step > 0 && s.step < d_.max / 2) add(s.first + 2 * s.step);
    }
    if (!steps_.empty()) add(prime_from(steps_.back().first + 2));
  }

  const DimVar& d_;
  std::vector<SizeStep> steps_;
  std::vector<int64_t> list_;
};

// Each dimension's sizes beside those of the others: of equal rank first, then beside the largest of
// the others, where most lanes of a partial vector count, then further and further apart, so that a
// whole tile of one meets a tail of another.
std::vector<Point> combined(const Workload& workload,
                            const std::vector<std::vector<int64_t>>& sizes) {
  size_t longest = 0;
  for (const auto& list : sizes) longest = std::max(longest, list.size());
  const Point largest = largest_sizes(workload);
  std::vector<Point> points;
  auto add = [&](Point p) {
    const bool is_new = p != largest && std::find(points.begin(), points.end(), p) == points.end();
    if (is_new) points.push_back(std::move(p));
  };
  auto diagonal = [&](size_t apart) {
    for (size_t i = 0; i < longest; ++i) {
      Point p;
      for (size_t d = 0; d < sizes.size(); ++d) {
        p[workload.dims[d].var.name()] = sizes[d][(i + apart * d) % sizes[d].size()];
      }
      add(std::move(p));
    }
  };
  diagonal(0);
  if (sizes.size() == 1) return points;
  for (size_t i = 0; i < longest; ++i) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (i >= sizes[d].size()) continue;
      Point p = largest;
      p[workload.dims[d].var.name()] = sizes[d][i];
      add(std::move(p));
    }
  }
  diagonal(1);
  diagonal(2);
  return points;
}

// About how long a check takes there.
double seconds_at(const Workload& workload, const Point& point) {
  double flops = workload.flops, bytes = 0;
  for (const DimVar& d : workload.dims) {
    flops *= static_cast<double>(point.at(d.var.name())) / static_cast<double>(d.max);
  }
  for (const OperandInfo& info : operands_of(workload, point)) {
    double bits = bits_of(info.elem);
    for (int64_t extent : info.shape) bits *= static_cast<double>(extent);
    bytes += bits / 8;
  }
  return flops / kFlopsPerSecond + bytes / kBytesPerSecond;
}

}  // namespace

std::vector<std::map<std::string, int64_t>> check_points(const Workload& workload,
                                                         const SizeFacts& facts,
                                                         const CheckBudget& budget) {
  if (workload.dims.empty()) return {};
  std::vector<std::vector<int64_t>> sizes;
  for (size_t d = 0; d < workload.dims.size(); ++d) {
    const bool known = facts.steps.size() == workload.dims.size();
    sizes.push_back(SizesOf(workload.dims[d], known ? facts.steps[d] : std::vector<SizeStep>(),
                            budget.has_tails)
                        .list());
  }
  double left =
      std::max(budget.seconds, budget.times * seconds_at(workload, largest_sizes(workload)));
  const size_t dims = budget.has_tails ? workload.dims.size() : 1;
  std::vector<Point> points;
  for (Point& p : combined(workload, sizes)) {
    if (points.size() == dims * budget.most_points) break;
    const double seconds = seconds_at(workload, p);
    if (points.size() >= budget.least_points && seconds > left) continue;
    left -= seconds;
    points.push_back(std::move(p));
  }
  return points;
}

}  // namespace tilewright
