#include "models/onnx/extent.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::onnx {
namespace {

// Names double with each step that adds a size to itself in another way.
constexpr size_t kMaxText = 1000, kMaxFactors = 32;

}  // namespace

Extent Extent::named(const std::string& name) {
  Extent e(1);
  e.names_ = {name};
  return e;
}

bool Extent::has(const std::string& name) const { return std::ranges::count(names_, name) > 0; }

std::string Extent::text() const {
  if (fixed()) return std::to_string(number_);
  std::string names = fmt::format("{}", fmt::join(names_, "*"));
  return number_ == 1 ? names : fmt::format("{}*{}", number_, names);
}

bool has_stand_in(int64_t number) {
  const auto divides = [&](int64_t prime) { return number % prime == 0; };
  return number != 0 &&
         (std::ranges::any_of(kStandIns, divides) || std::ranges::any_of(kOtherStandIns, divides));
}

Extent Extents::with_range(const std::string& name, const DimSize& range) {
  if (!range.is_dynamic()) return range.min;
  ranges_[name] = range;
  return Extent::named(name);
}

Extent Extents::declare(const std::string& name, const DimSize& range, bool by_value) {
  if (range.is_dynamic()) {
    const size_t place = named_.size();
    named_.push_back({name, range, place < stand_ins_.size() ? stand_ins_[place] : 0, by_value});
  }
  return with_range(name, range);
}

std::optional<int64_t> Extents::stand_in(const Extent& e) const {
  int64_t number = e.number_;
  for (const std::string& name : e.names_) {
    const auto own = std::ranges::find(named_, name, &NamedSize::name);
    if (own == named_.end() || own->stand_in == 0 ||
        __builtin_mul_overflow(number, own->stand_in, &number)) {
      return std::nullopt;
    }
  }
  return number;
}

std::optional<Extent> Extents::derived(const std::string& text, int64_t least, int64_t most) {
  if (text.size() > kMaxText) return std::nullopt;
  return with_range("(" + text + ")", {least, most});
}

std::optional<DimSize> Extents::range(const Extent& e) const {
  DimSize range{e.number_, e.number_};
  for (const std::string& name : e.names_) {
    const DimSize& factor = ranges_.at(name);
    if (__builtin_mul_overflow(range.min, factor.min, &range.min) ||
        __builtin_mul_overflow(range.max, factor.max, &range.max)) {
      return std::nullopt;
    }
  }
  if (range.min > range.max) std::swap(range.min, range.max);  // of a negative number
  return range;
}

std::optional<Extent> Extents::plus(const Extent& a, const Extent& b) {
  if (a.names_ == b.names_) {
    Extent sum = a;
    if (__builtin_add_overflow(a.number_, b.number_, &sum.number_)) return std::nullopt;
    if (sum.number_ == 0) sum.names_.clear();
    return sum;
  }
  if (a.fixed()) return plus_number(b, a.number_);
  if (b.fixed()) return plus_number(a, b.number_);
  return named_sum(a, b);
}

// A size of its own.
std::optional<Extent> Extents::named_sum(const Extent& a, const Extent& b) {
  auto x = range(a), y = range(b);
  int64_t least = 0, most = 0;
  if (!x || !y || __builtin_add_overflow(x->min, y->min, &least) ||
      __builtin_add_overflow(x->max, y->max, &most)) {
    return std::nullopt;
  }
  return derived(std::min(a.text(), b.text()) + "+" + std::max(a.text(), b.text()), least, most);
}

// n - 1 + 1 is n again: the output of a padded convolution is as long as its input.
std::optional<Extent> Extents::plus_number(const Extent& a, int64_t number) {
  Extent base = a;
  if (a.number_ == 1 && a.names_.size() == 1) {
    if (const auto sum = sums_.find(a.names_[0]); sum != sums_.end()) {
      base = sum->second.first;
      if (__builtin_add_overflow(number, sum->second.second, &number)) return std::nullopt;
    }
  }
  if (number == 0) return base;
  auto made = named_sum(base, number);
  if (made && !made->fixed()) sums_.insert_or_assign(made->names_[0], std::pair(base, number));
  return made;
}

std::optional<Extent> Extents::minus(const Extent& a, const Extent& b) {
  std::optional<Extent> negative = times(b, -1);
  return negative ? plus(a, *negative) : std::nullopt;
}

std::optional<Extent> Extents::times(const Extent& a, const Extent& b) const {
  Extent product = a;
  if (__builtin_mul_overflow(a.number_, b.number_, &product.number_)) return std::nullopt;
  product.names_.insert(product.names_.end(), b.names_.begin(), b.names_.end());
  if (product.names_.size() > kMaxFactors) return std::nullopt;
  std::sort(product.names_.begin(), product.names_.end());
  if (product.number_ == 0) product.names_.clear();
  return product;
}

std::optional<Extent> Extents::quotient(const Extent& a, const Extent& b) {
  auto x = range(a), y = range(b);
  if (!x || !y || y->min <= 0 || b.number_ < 1) return std::nullopt;
  Extent rest = a;
  bool divides = true;
  for (const std::string& name : b.names_) {
    auto at = std::find(rest.names_.begin(), rest.names_.end(), name);
    if (at == rest.names_.end()) {
      divides = false;
      break;
    }
    rest.names_.erase(at);
  }
  auto floor = [](int64_t n, int64_t d) { return n / d - (n % d < 0 ? 1 : 0); };
  if (divides && (rest.number_ % b.number_ == 0 || rest.fixed())) {
    rest.number_ = floor(rest.number_, b.number_);
    return rest;
  }
  int64_t least = floor(x->min, x->min < 0 ? y->min : y->max);
  int64_t most = floor(x->max, x->max < 0 ? y->max : y->min);
  return derived(a.text() + "//" + b.text(), least, most);
}

std::optional<Extent> Extents::product(const Shape& sizes, size_t from, size_t to) const {
  Extent all = 1;
  for (size_t d = from; d < std::min(to, sizes.size()); ++d) {
    std::optional<Extent> next = times(all, sizes[d]);
    if (!next) return std::nullopt;
    all = *next;
  }
  return all;
}

}  // namespace tilewright::onnx
