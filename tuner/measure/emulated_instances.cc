#include "tuner/measure/emulated_instances.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright {
namespace {

constexpr int64_t kLimits[] = {256, 128, 64, 32, 16, 8};
constexpr int64_t kLongLimits[] = {1024, 2048, 4096, 8192};
constexpr int64_t kWide = 256;  // columns of the widest tiles
// Pages of a cache. Tables name them in any order and as often as they like, so a few pages serve.
// The number of keys per page is kept, since tiles begin and end within a page.
constexpr const char *kPages = "pages", *kPage = "page";
constexpr int64_t kFewPages = 16;
// Most floating-point operations and elements that the emulator processes in seconds.
constexpr double kMostFlops = 1 << 27, kMostElements = 1 << 21;
// Factor over these limits for configs that no smaller instance takes, such as many tiles in
// groups.
constexpr double kLastResort = 6;
// The same for instances that go once more around a ring of stages.
constexpr double kLongest = 4;

int64_t cut(int64_t size, int64_t limit) { return size < 2 * limit ? size : limit + size % limit; }

DimSize cut(DimSize size, int64_t limit) {
  int64_t most = cut(size.max, limit);
  return {std::min(size.min, most), most};
}

double elements_of(const Workload& w) {
  double elements = 0;
  for (const OperandInfo& o : operands_of(w, largest_sizes(w))) {
    double count = 1;
    for (int64_t extent : o.shape) count *= static_cast<double>(extent);
    elements += count;
  }
  return elements;
}

}  // namespace

std::optional<Workload> shrunk(const Workload& w, int64_t limit,
                               const std::map<std::string, int64_t>& longer) {
  Spec spec = parse_spec(w.canonical);
  for (auto& [key, value] : spec.params) {
    auto* size = std::get_if<DimSize>(&value);
    auto own = longer.find(key);
    if (size) *size = cut(*size, own == longer.end() ? limit : own->second);
    if (auto* pages = std::get_if<int64_t>(&value); pages && key == kPages) {
      *pages = cut(*pages, kFewPages);
    }
    if (auto* sizes = std::get_if<std::vector<DimSize>>(&value)) {
      for (DimSize& size : *sizes) size = cut(size, limit);
    }
  }
  try {
    return parse_workload(canonical_text(spec));  // validated again
  } catch (const Error& e) {
    spdlog::debug("with sizes below {}: {}", 2 * limit, e.what());
    return std::nullopt;
  }
}

namespace {

bool is_small(const Workload& w, double times = 1) {
  return w.flops <= times * kMostFlops && elements_of(w) <= times * kMostElements;
}

struct Size {
  std::string key;
  int64_t most;
};

std::vector<Size> sizes_of(const Workload& w) {
  std::vector<Size> sizes;
  for (const auto& [key, value] : parse_spec(w.canonical).params) {
    if (auto* size = std::get_if<DimSize>(&value)) sizes.push_back({key, size->max});
  }
  return sizes;
}

// Instances with one size at two (a stack, a batch) and up to two others at eight (an image),
// beside others as large as allowed. No instance is within another.
class FewInstances {
 public:
  FewInstances(const Workload& workload, std::vector<Size> sizes)
      : workload_(workload), sizes_(std::move(sizes)) {}

  std::vector<Workload> all() {
    const size_t none = sizes_.size();
    for (int64_t limit : {1024, 256, 128, 64}) {
      for (size_t two = 0; two <= none; ++two) {
        for (size_t first = 0; first <= none; ++first) {
          for (size_t second = first; second <= none; ++second) add(limit, two, first, second);
        }
      }
    }
    std::vector<Workload> kept;
    for (const Instance& i : found_) {
      const bool is_less = std::any_of(found_.begin(), found_.end(),
                                       [&](const Instance& other) { return is_within(i, other); });
      if (!is_less) kept.push_back(i.workload);
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Workload& a, const Workload& b) { return a.flops > b.flops; });
    return kept;
  }
  // Instances that take the emulator longer.
  std::vector<Workload> large() { return std::move(large_); }

 private:
  struct Instance {
    std::vector<int64_t> sizes;
    Workload workload;
  };

  static bool is_within(const Instance& a, const Instance& b) {
    if (a.sizes == b.sizes) return false;
    for (size_t i = 0; i < a.sizes.size(); ++i) {
      if (a.sizes[i] > b.sizes[i]) return false;
    }
    return true;
  }

  // Adds an instance with size `two` at two, `first` and `second` at eight; an index past the end
  // means none.
  void add(int64_t limit, size_t two, size_t first, size_t second) {
    constexpr int64_t kTwo = 2, kEight = 8;
    std::map<std::string, int64_t> limits;
    std::vector<int64_t> cuts;
    double flops = workload_.flops;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      int64_t own = limit;
      if (i == first || i == second) own = kEight;
      if (i == two) own = kTwo;
      limits[sizes_[i].key] = own;
      cuts.push_back(cut(sizes_[i].most, own));
      flops *= static_cast<double>(cuts.back()) / static_cast<double>(sizes_[i].most);
    }
    // Operations grow with each size, for im2col a little faster.
    if (flops > 2 * kLastResort * kMostFlops || !seen_.insert(cuts).second) return;
    auto w = shrunk(workload_, limit, limits);
    if (!w || !is_small(*w, kLastResort)) return;
    if (is_small(*w)) {
      found_.push_back({std::move(cuts), std::move(*w)});
    } else {
      large_.push_back(std::move(*w));
    }
  }

  const Workload& workload_;
  std::vector<Size> sizes_;
  std::set<std::vector<int64_t>> seen_;
  std::vector<Instance> found_;
  std::vector<Workload> large_;
};

// The workload with these parameter values replaced; nothing if it is not valid.
std::optional<Workload> with_numbers(const Workload& w,
                                     const std::map<std::string, int64_t>& numbers) {
  Spec spec = parse_spec(w.canonical);
  for (const auto& [key, number] : numbers) spec.params.at(key) = number;
  try {
    return parse_workload(canonical_text(spec));  // validated again
  } catch (const Error& e) {
    spdlog::debug("with other numbers: {}", e.what());
    return std::nullopt;
  }
}

// The workload with a smaller stack, counted by parameters that are not sizes: query heads, and as
// many or fewer key heads. The smallest parameter becomes two, and its multiples shrink by the same
// factor. The operations must shrink by that factor, too.
class FewerOfStack {
 public:
  explicit FewerOfStack(const Workload& w) : workload_(w) {
    for (const auto& [key, value] : parse_spec(w.canonical).params) {
      auto* number = std::get_if<int64_t>(&value);
      if (number && *number > 1 && key != kPage) numbers_[key] = *number;
    }
  }

  std::vector<Workload> all() {
    std::set<int64_t> stacks;
    for (const auto& [key, number] : numbers_) stacks.insert(number);
    for (int64_t stack : stacks) {
      if (stack >= 2 * kTwo && stack % kTwo == 0) try_stack(stack);
    }
    return std::move(found_);
  }

 private:
  static constexpr int64_t kTwo = 2;
  using Keys = std::set<std::string>;

  // Tries all subsets of parameters, the largest subset first, so that key heads shrink with query
  // heads.
  void try_stack(int64_t stack) {
    std::vector<Keys> sets = {{}};
    for (const auto& [key, number] : numbers_) {
      if (number % stack != 0) continue;
      for (size_t s = sets.size(); s-- > 0;) {
        sets.push_back(sets[s]);
        sets.back().insert(key);
      }
    }
    std::stable_sort(sets.begin(), sets.end(),
                     [](const Keys& a, const Keys& b) { return a.size() > b.size(); });
    for (const Keys& keys : sets) take(stack, keys);
  }

  void take(int64_t stack, const Keys& keys) {
    constexpr double kNear = 1e-3;
    const int64_t factor = stack / kTwo;
    std::map<std::string, int64_t> fewer;
    for (const std::string& key : keys) fewer[key] = numbers_.at(key) / factor;
    auto less = with_numbers(workload_, fewer);
    const bool fits =
        less && std::abs(less->flops * static_cast<double>(factor) / workload_.flops - 1) < kNear;
    if (fits) found_.push_back(std::move(*less));
  }

  const Workload& workload_;
  std::map<std::string, int64_t> numbers_;
  std::vector<Workload> found_;
};

// `large` receives the instances of a last resort.
std::vector<Workload> instances_of(const Workload& workload, std::vector<Workload>& large) {
  std::vector<Workload> instances;
  auto add = [&](int64_t limit, const std::map<std::string, int64_t>& longer = {}) {
    auto w = shrunk(workload, limit, longer);
    if (w && is_small(*w)) instances.push_back(*w);
  };
  for (int64_t limit : kLimits) add(limit);
  const std::vector<Size> sizes = sizes_of(workload);
  auto for_longer = [&](const auto& fn) {
    for (const auto& [key, most] : sizes) {
      for (int64_t longer : kLongLimits) {
        if (most >= longer) fn(key, longer);
      }
    }
  };
  for_longer([&](const std::string& key, int64_t longer) {
    for (int64_t limit : {256, 128, 64}) add(limit, {{key, longer}});
  });
  for_longer([&](const std::string& key, int64_t longer) {
    for (const auto& [other, most] : sizes) {
      if (other == key || most < kWide) continue;
      for (int64_t wide : {kWide, 2 * kWide}) {  // two of these make a cluster
        for (int64_t limit : {128, 64}) add(limit, {{key, longer}, {other, wide}});
      }
    }
  });
  FewInstances few(workload, sizes);
  for (Workload& w : few.all()) {
    const bool known = std::any_of(instances.begin(), instances.end(), [&](const Workload& other) {
      return other.canonical == w.canonical;
    });
    if (!known) instances.push_back(std::move(w));
  }
  for (Workload& w : few.large()) large.push_back(std::move(w));
  return instances;
}

}  // namespace

bool is_emulated_in_seconds(const Workload& workload) { return is_small(workload, kLongest); }

std::optional<Workload> with_size(const Workload& workload, const std::string& size, int64_t to) {
  Spec spec = parse_spec(workload.canonical);
  auto& own = std::get<DimSize>(spec.params.at(size));
  own = {own.min == own.max ? to : own.min, to};
  try {
    return parse_workload(canonical_text(spec));  // validated again
  } catch (const Error& e) {
    spdlog::debug("with '{}' of {}: {}", size, to, e.what());
    return std::nullopt;
  }
}

std::vector<LongerInstance> longer_instances(const Workload& small, const Workload& large) {
  std::map<std::string, int64_t> most;
  for (const Size& size : sizes_of(large)) most[size.key] = size.most;
  std::vector<LongerInstance> longer;
  for (const Size& size : sizes_of(small)) {
    const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size.most)));
    std::set<int64_t> lengths = {size.most + step};
    if (step / 2 >= kWide) lengths.insert(size.most + step / 2);
    for (int64_t to : lengths) {
      to = std::min(to, most[size.key]);
      if (to <= size.most) continue;
      auto w = with_size(small, size.key, to);
      if (w) longer.push_back({size.key, size.most, to, std::move(*w)});
    }
  }
  return longer;
}

std::vector<Workload> emulated_instances(const Workload& workload) {
  std::vector<Workload> large, instances = instances_of(workload, large);
  for (const Workload& fewer : FewerOfStack(workload).all()) {
    for (Workload& w : instances_of(fewer, large)) instances.push_back(std::move(w));
  }
  std::stable_sort(large.begin(), large.end(),
                   [](const Workload& a, const Workload& b) { return a.flops < b.flops; });
  instances.insert(instances.end(), large.begin(), large.end());
  return instances;
}

}  // namespace tilewright
