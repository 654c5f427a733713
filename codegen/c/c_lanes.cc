#include "codegen/c/c_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tilewright {
namespace {

constexpr int kPermutedBits = 128;  // permutations within such parts of a register are cheap

// A vector variable. Each lane is a partial result of one of the vectors that the function takes.
struct Partial {
  std::string name;
  std::vector<int> owners;  // per lane, counted from the first vector that it holds

  int lanes() const { return static_cast<int>(owners.size()); }
};

class LaneReductionText {
 public:
  LaneReductionText(Prelude& prelude, bool is_sum, ElemType elem)
      : prelude_(prelude), is_sum_(is_sum), elem_(elem) {}

  // A vector whose lane l is the reduction of vector l.
  std::string reduced(const std::vector<std::string>& vectors, int lanes) {
    const auto count = static_cast<int>(vectors.size());
    if (lanes == 1) return of_scalars(vectors);
    if (count > lanes) {
      const auto middle = vectors.begin() + count / 2;
      const std::string low = reduced({vectors.begin(), middle}, lanes);
      const std::string high = reduced({middle, vectors.end()}, lanes);
      return declared(count, shuffled(low, high, first_lanes(count)));
    }
    std::vector<Partial> list;
    for (const std::string& v : vectors) {
      list.push_back({v, std::vector<int>(static_cast<size_t>(lanes), 0)});
    }
    while (list.size() > 1) {
      std::vector<Partial> next;
      for (size_t i = 0; i + 1 < list.size(); i += 2) next.push_back(joined(list[i], list[i + 1]));
      list = std::move(next);
    }
    Partial all = list[0];
    while (all.lanes() > count) all = folded(all, count);
    return all.name;
  }

  const std::string& text() const { return text_; }

 private:
  static std::vector<int> first_lanes(int count) {
    std::vector<int> lanes;
    for (int i = 0; i < count; ++i) lanes.push_back(i);
    return lanes;
  }

  std::string type(int lanes) { return prelude_.value_type(Type(elem_, lanes)); }

  std::string declared(int lanes, const std::string& value) {
    std::string name = fmt::format("t{}", ++names_);
    text_ += fmt::format("  {} {} = {};\n", type(lanes), name, value);
    return name;
  }

  std::string of_scalars(const std::vector<std::string>& scalars) {
    if (scalars.size() == 1) return scalars[0];
    const auto count = static_cast<int>(scalars.size());
    return declared(count, fmt::format("({}){{{}}}", type(count), fmt::join(scalars, ", ")));
  }

  static std::string shuffled(const std::string& a, const std::string& b,
                              const std::vector<int>& lanes) {
    return fmt::format("__builtin_shufflevector({}, {}, {})", a, b, fmt::join(lanes, ", "));
  }

  std::string combination(int lanes, const std::string& a, const std::string& b) {
    if (is_sum_) return fmt::format("{} + {}", a, b);
    return fmt::format("{}({}, {})", prelude_.helper("max", Type(elem_, lanes)), a, b);
  }

  // Two lanes of a result become one. Both lists name lanes of `a` and behind them those of `b`.
  Partial combined(const std::string& a, const std::string& b, const std::vector<int>& first,
                   const std::vector<int>& second, std::vector<int> owners) {
    const auto lanes = static_cast<int>(first.size());
    const std::string low = declared(lanes, shuffled(a, b, first));
    const std::string high = declared(lanes, shuffled(a, b, second));
    return {declared(lanes, combination(lanes, low, high)), std::move(owners)};
  }

  // The results of `a`, then those of `b`.
  Partial joined(const Partial& a, const Partial& b) {
    const int lanes = a.lanes(), results = results_of(a);
    std::vector<int> first, second, owners;
    auto take = [&](const Partial& from, int one, int other) {
      const int offset = &from == &b ? lanes : 0;
      first.push_back(one + offset);
      second.push_back(other + offset);
      owners.push_back(from.owners[static_cast<size_t>(one)] + (&from == &b ? results : 0));
    };
    const int unit = kPermutedBits / bits_of(elem_);
    if (results == 1 && unit == 4 && lanes >= unit) {  // unpack
      for (int at = 0; at < lanes; at += unit) {
        for (int i : {0, 1}) {
          take(a, at + i, at + i + 2);
          take(b, at + i, at + i + 2);
        }
      }
    } else if (results == unit && lanes == 4 * unit) {  // parts 0 and 1 of both, parts 2 and 3
      for (const Partial* from : {&a, &b}) {
        for (int i = 0; i < 2 * unit; ++i) take(*from, i, i + 2 * unit);
      }
    } else if (results == 2 * unit && lanes == 4 * unit) {  // as the step before has left them
      for (const Partial* from : {&a, &b}) {
        for (int part : {0, 2}) {
          for (int i = 0; i < unit; ++i) take(*from, part * unit + i, (part + 1) * unit + i);
        }
      }
    } else {
      for (int run = 0; run < lanes; run += 2 * results) {
        for (const Partial* from : {&a, &b}) {
          for (int i = 0; i < results; ++i) take(*from, run + i, run + results + i);
        }
      }
    }
    return combined(a.name, b.name, first, second, std::move(owners));
  }

  static int results_of(const Partial& p) {
    int most = 0;
    for (int owner : p.owners) most = std::max(most, owner);
    return most + 1;
  }

  // Half as many lanes per result, the results in order.
  Partial folded(const Partial& p, int results) {
    std::vector<int> first, second, owners;
    for (int r = 0; r < results; ++r) {
      std::vector<int> own;
      for (int l = 0; l < p.lanes(); ++l) {
        if (p.owners[static_cast<size_t>(l)] == r) own.push_back(l);
      }
      const size_t half = own.size() / 2;
      for (size_t i = 0; i < half; ++i) {
        first.push_back(own[i]);
        second.push_back(own[half + i]);
        owners.push_back(r);
      }
    }
    if (first.size() > 1) return combined(p.name, p.name, first, second, std::move(owners));
    const std::string a = fmt::format("{}[{}]", p.name, first[0]);
    const std::string b = fmt::format("{}[{}]", p.name, second[0]);
    return {declared(1, combination(1, a, b)), std::move(owners)};
  }

  Prelude& prelude_;
  bool is_sum_;
  ElemType elem_;
  std::string text_;
  int names_ = 0;
};

}  // namespace

std::string lane_reduction(Prelude& prelude, const std::string& name, bool is_sum, Type vector,
                           int count) {
  std::vector<std::string> names, parameters;
  const std::string type = prelude.value_type(vector);
  for (int i = 0; i < count; ++i) {
    names.push_back(fmt::format("v{}", i));
    parameters.push_back(type + " " + names.back());
  }
  LaneReductionText text(prelude, is_sum, vector.elem);
  const std::string result = text.reduced(names, vector.lanes);
  return fmt::format("static inline {} {}({}) {{\n{}  return {};\n}}\n",
                     prelude.value_type(vector.with_lanes(count)), name,
                     fmt::join(parameters, ", "), text.text(), result);
}

}  // namespace tilewright
