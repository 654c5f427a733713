#include "runtime/tensor/weight_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"

namespace tilewright {
namespace {

// The finalizer of splitmix64.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// "1, 2 and 5".
std::string list(const std::vector<int64_t>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += std::to_string(items[i]);
  }
  return text;
}

std::string span(const char* one, int64_t first, int64_t count) {
  if (count == 1) return fmt::format("{} {}", one, first);
  return fmt::format("{}s {} to {}", one, first, first + count - 1);
}

}  // namespace

WeightPattern::WeightPattern(WeightFormat format, std::vector<int64_t> shape)
    : format_(std::move(format)), shape_(std::move(shape)) {
  TW_ASSERT(format_.sparse(), "a pattern of a dense weight");
  for (int d : format_.own_dims) own_ *= shape_[d];
  for (int d : format_.k_dims) k_ *= shape_[d];
  columns_ = shape_[format_.column_dim];
  for (int64_t u = 1; u < format_.of; ++u) {
    if (std::gcd(u, format_.of) == 1) units_.push_back(u);
  }
}

WeightPattern::Place WeightPattern::place_of(int64_t flat_index) const {
  std::vector<int64_t> at(shape_.size());
  for (size_t d = shape_.size(); d-- > 0; flat_index /= shape_[d]) at[d] = flat_index % shape_[d];
  Place place{0, 0, at[format_.column_dim]};
  for (int d : format_.own_dims) place.own = place.own * shape_[d] + at[d];
  for (int d : format_.k_dims) place.k = place.k * shape_[d] + at[d];
  return place;
}

int64_t WeightPattern::flat_of(const Place& place) const {
  std::vector<int64_t> at(shape_.size());
  at[format_.column_dim] = place.column;
  auto unfold = [&](const std::vector<int>& dims, int64_t index) {
    for (size_t n = dims.size(); n-- > 0; index /= shape_[dims[n]]) {
      at[dims[n]] = index % shape_[dims[n]];
    }
  };
  unfold(format_.own_dims, place.own);
  unfold(format_.k_dims, place.k);
  int64_t flat = 0;
  for (size_t d = 0; d < shape_.size(); ++d) flat = flat * shape_[d] + at[d];
  return flat;
}

int64_t WeightPattern::group_of(const Place& p) const {
  return (p.own * ceil_div(k_, format_.of) + p.k / format_.of) *
             ceil_div(columns_, format_.vector) +
         p.column / format_.vector;
}

int64_t WeightPattern::group_of(int64_t flat_index) const { return group_of(place_of(flat_index)); }

// The kept rows of a group are an arithmetic progression modulo `of`, whose step and start a hash of
// the group's place decides.
bool WeightPattern::keeps_seeded(int64_t flat_index) const {
  Place p = place_of(flat_index);
  auto group = static_cast<uint64_t>(group_of(p));
  uint64_t hash = mix((group + 1) * 0x9e3779b97f4a7c15ull);
  auto of = static_cast<uint64_t>(format_.of);
  auto step = static_cast<uint64_t>(units_[hash % units_.size()]);
  uint64_t row = static_cast<uint64_t>(p.k % format_.of) * step + (hash >> 32) % of;
  return row % of < static_cast<uint64_t>(format_.keep);
}

int64_t WeightPattern::scale_index(int64_t flat_index) const {
  Place p = place_of(flat_index);
  int64_t groups = ceil_div(k_, format_.group);
  return (p.own * groups + p.k / format_.group) * columns_ + p.column;
}

void WeightPattern::for_each_group(const std::function<bool(const Group&)>& visit) const {
  for (int64_t own = 0; own < own_; ++own) {
    for (int64_t row = 0; row < k_; row += format_.of) {
      for (int64_t column = 0; column < columns_; column += format_.vector) {
        Group group{own, row, std::min(format_.of, k_ - row), column,
                    std::min(format_.vector, columns_ - column)};
        if (!visit(group)) return;
      }
    }
  }
}

double WeightPattern::worth(const HostArray& weight, const HostArray* zero,
                            int64_t flat_index) const {
  return weight.get(flat_index) - (zero ? zero->get(scale_index(flat_index)) : 0);
}

std::optional<std::string> WeightPattern::fault(const HostArray& weight,
                                                const HostArray* zero) const {
  std::optional<std::string> found;
  for_each_group([&](const Group& g) {
    std::vector<int64_t> rows;
    for (int64_t r = g.first_row; r < g.first_row + g.rows; ++r) {
      bool any = false;
      for (int64_t c = g.first_column; c < g.first_column + g.columns; ++c) {
        any |= worth(weight, zero, flat_of({g.own, r, c})) != 0;
      }
      if (any) rows.push_back(r);
    }
    if (static_cast<int64_t>(rows.size()) <= format_.keep) return true;
    std::string product = own_ > 1 ? fmt::format(" of product {}", g.own) : "";
    found = fmt::format("{}, {} of k{}: rows {} are not {}; {}:{} allows {}",
                        span("column", g.first_column, g.columns), span("row", g.first_row, g.rows),
                        product, list(rows), zero ? "at their zero points" : "zero", format_.keep,
                        format_.of, format_.keep);
    return false;
  });
  return found;
}

void WeightPattern::prune(HostArray* weight, const HostArray* zero) const {
  for_each_group([&](const Group& g) {
    std::vector<std::pair<double, int64_t>> rows;  // (-magnitude, row)
    for (int64_t r = g.first_row; r < g.first_row + g.rows; ++r) {
      double magnitude = 0;
      for (int64_t c = g.first_column; c < g.first_column + g.columns; ++c) {
        magnitude += std::abs(worth(*weight, zero, flat_of({g.own, r, c})));
      }
      rows.emplace_back(-magnitude, r);
    }
    std::sort(rows.begin(), rows.end());
    for (size_t n = static_cast<size_t>(format_.keep); n < rows.size(); ++n) {
      for (int64_t c = g.first_column; c < g.first_column + g.columns; ++c) {
        int64_t flat = flat_of({g.own, rows[n].second, c});
        weight->set(flat, zero ? zero->get(scale_index(flat)) : 0);
      }
    }
    return true;
  });
}

}  // namespace tilewright
